// Exported names that need no device: fork support (ours needs none), DMA handles (refused), and
// the helpers the stock librdmacm converts kernel structs with.
#include <cstring>

#include "abi/errors.h"
#include "abi/layout.h"

using namespace verbena::abi;

extern "C" {

// The engine starts its threads and sockets anew in a child, and copies payload instead of pinning
// pages, so fork is always safe.
int ibv_fork_init(void) {
  return 0;
}
ibv_fork_status ibv_is_fork_initialized(void) {
  return IBV_FORK_UNNEEDED;
}
int ibv_dontfork_range(void*, size_t) {
  return 0;
}
int ibv_dofork_range(void*, size_t) {
  return 0;
}

void* ibv_alloc_dmah(ibv_context*, void*) {
  return shielded_pointer<void>([]() -> void* {
    return refuse_null(EOPNOTSUPP, "ibv_alloc_dmah: there is no device that prefetches by hints");
  });
}
int ibv_dealloc_dmah(void*) {
  return shielded(
      [] { return refuse(EOPNOTSUPP, "ibv_dealloc_dmah: no handle was ever allocated here"); });
}

// The kernel's structs never exist here: what librdmacm of the distribution would convert from is
// meaningless, so the result is all zero.
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, const void*) {
  std::memset(to, 0, sizeof *to);
}
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, const void*) {
  std::memset(to, 0, sizeof *to);
}
void ibv_copy_path_rec_from_kern(void*, const void*) {}
void ibv_copy_path_rec_to_kern(void*, const void*) {}

}  // extern "C"
