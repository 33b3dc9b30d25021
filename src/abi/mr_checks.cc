// What a registration is refused for, before anything is made: access flags, lengths and addresses
// that an adapter and the kernel refuse, and memory that is not there.
#include "abi/errors.h"
#include "abi/mr.h"

namespace verbena::abi {
namespace {

// Access flags every registration knows; those in the optional range may always be ignored.
constexpr uint32_t kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
    IBV_ACCESS_HUGETLB | kAccessFlushGlobal | kAccessFlushPersistent;

}  // namespace

int check_access(const char* call, uint32_t access) {
  if (uint32_t unknown = access & ~(kKnownAccess | uint32_t{IBV_ACCESS_OPTIONAL_RANGE}))
    return refuse(EOPNOTSUPP, "{}: access {:#x} has unknown bits {:#x}", call, access, unknown);
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
      !(access & IBV_ACCESS_LOCAL_WRITE))
    return refuse(EINVAL,
                  "{}: access {:#x}: remote write and remote atomic need "
                  "IBV_ACCESS_LOCAL_WRITE too",
                  call, access);
  return 0;
}

bool is_implicit(const void* address, size_t length) {
  return !address && length == SIZE_MAX;
}

int pin(const char* call, void* address, size_t length, uint32_t access) {
  auto populate = host::Process::get().engine().options().populate;
  bool write = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  if (!populate || populate(static_cast<uint8_t*>(address), length, write)) return 0;
  return refuse(EFAULT,
                "{}: {} bytes at {} are not mapped{}; register memory that exists, or use "
                "IBV_ACCESS_ON_DEMAND",
                call, length, address, write ? " for writing" : "");
}

int check_range(const char* call, const void* address, size_t length, uint64_t iova,
                uint32_t access) {
  if (is_implicit(address, length)) {
    if (!(access & IBV_ACCESS_ON_DEMAND))
      return refuse(EINVAL,
                    "{}: the whole address space can only be registered on demand "
                    "(IBV_ACCESS_ON_DEMAND)",
                    call);
    return 0;
  }
  uint64_t start = reinterpret_cast<uint64_t>(address);
  if (length == 0) return refuse(EINVAL, "{}: length 0", call);
  if (start + length < start || iova + length < iova)
    return refuse(EINVAL,
                  "{}: {} bytes at {} (iova {:#x}) wrap around the end of the address space", call,
                  length, address, iova);
  if (!(access & IBV_ACCESS_ZERO_BASED) && (start ^ iova) % kPage != 0)
    return refuse(EINVAL, "{}: iova {:#x} and address {} must lie at the same offset in their page",
                  call, iova, address);
  return 0;
}

int check_mr_size(const char* call, ibv_pd* pd, const void* address, size_t length) {
  uint64_t most = model_of(pd->context)->limits.max_mr_size;
  if (length <= most || is_implicit(address, length)) return 0;
  return refuse(EINVAL, "{}: length {}; the device takes up to {} (max_mr_size)", call, length,
                most);
}

}  // namespace verbena::abi
