// MADV_POPULATE_* (Linux 5.14); before that, page by page with system calls that answer EFAULT.
#include "host/populate.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verbena::host {
namespace {

constexpr int kPopulateRead = 22;   // MADV_POPULATE_READ
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE

bool readable(uintptr_t page) {
  uint8_t byte;
  iovec to{&byte, 1}, from{reinterpret_cast<void*>(page), 1};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1;
}

// Adds 0 to the first word of the page, atomically and in the kernel.
bool writable(uintptr_t page) {
  uint32_t other = 0;
  uint32_t operation = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  return ::syscall(SYS_futex, &other, FUTEX_WAKE_OP_PRIVATE, 0, 0, page, operation) >= 0;
}

}  // namespace

bool populate(uint8_t* address, size_t length, bool write) {
  if (length == 0) return true;
  static const uintptr_t kPage = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  uintptr_t first = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
  uintptr_t last = (reinterpret_cast<uintptr_t>(address) + length - 1) & ~(kPage - 1);
  int result;
  do {
    result = ::madvise(reinterpret_cast<void*>(first), last - first + kPage,
                       write ? kPopulateWrite : kPopulateRead);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return true;
  if (errno != EINVAL) return false;
  // EINVAL: an old kernel, or a special mapping that cannot be populated so.
  for (uintptr_t page = first;; page += kPage) {
    if (!(write ? writable(page) : readable(page))) return false;
    if (page == last) return true;
  }
}

}  // namespace verbena::host
