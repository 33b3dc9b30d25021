// Buffers the library allocates for its user (rdma-core 64). An adapter may need special memory;
// we need none, so they are page-aligned memory with a handle that remembers the domain.
#include <sys/mman.h>

#include "abi/errors.h"
#include "abi/import.h"
#include "abi/mr.h"

namespace verbena::abi {

struct Buffer {
  Pd* pd = nullptr;
  uint8_t* memory = nullptr;
  size_t size = 0;  // as asked for
  size_t mapped = 0;
};

}  // namespace verbena::abi

using namespace verbena::abi;

extern "C" {

void* ibv_alloc_buf(ibv_pd* pd, size_t size, Buffer** handle) {
  return shielded_pointer<void>([&]() -> void* {
    if (size == 0 || size > SIZE_MAX - kPage)
      return refuse_null(EINVAL, "ibv_alloc_buf: size {}", size);
    auto buffer = std::make_unique<Buffer>();
    buffer->pd = cast(pd);
    buffer->size = size;
    buffer->mapped = (size + kPage - 1) & ~(kPage - 1);
    void* memory =
        mmap(nullptr, buffer->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return refuse_null(ENOMEM, "ibv_alloc_buf: {} bytes", size);
    buffer->memory = static_cast<uint8_t*>(memory);
    enter_domain(buffer->pd);
    *handle = buffer.release();
    return memory;
  });
}

void ibv_free_buf(Buffer* buffer) {
  munmap(buffer->memory, buffer->mapped);
  leave_domain(buffer->pd);
  delete buffer;
}

ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* address, size_t length, int access) {
  return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
    auto start = static_cast<uint8_t*>(address);
    if (cast(pd) != buffer->pd || start < buffer->memory ||
        static_cast<size_t>(start - buffer->memory) > buffer->size ||
        length > buffer->size - static_cast<size_t>(start - buffer->memory))
      return refuse_null(EINVAL,
                         "ibv_reg_buf_mr: {} bytes at {} are not inside the buffer, or the "
                         "pd is another one",
                         length, address);
    return ibv_reg_mr(pd, address, length, access);
  });
}

}  // extern "C"
