// Device memory (ibv_dm): memory only reachable through its copy functions and through regions, as
// on an adapter. Offsets and lengths come in units of 4 bytes there, so they do here.
#include <cstring>

#include <sys/mman.h>

#include "abi/errors.h"
#include "abi/import.h"
#include "abi/mr.h"
#include "abi/operations.h"
#include "abi/query.h"

namespace verbena::abi {
namespace {

constexpr uint64_t kDmUnit = 4;
constexpr uint32_t kMaxLogAlign = 12;  // memory is page aligned

int check_copy(const char* call, const Dm& dm, uint64_t offset, size_t length) {
  if (offset % kDmUnit || length % kDmUnit)
    return refuse(EINVAL, "{}: offset {} and length {} must be multiples of {}", call, offset,
                  length, kDmUnit);
  if (offset > dm.length || length > dm.length - offset)
    return refuse(EFAULT, "{}: {} bytes at {} are outside the {} bytes of the memory", call, length,
                  offset, dm.length);
  return 0;
}

int copy_to_dm(ibv_dm* base, uint64_t offset, const void* from, size_t length) {
  return shielded([&] {
    Dm* dm = cast(base);
    if (int error = check_copy("ibv_memcpy_to_dm", *dm, offset, length)) return error;
    std::memcpy(dm->memory + offset, from, length);
    return 0;
  });
}

int copy_from_dm(void* to, ibv_dm* base, uint64_t offset, size_t length) {
  return shielded([&] {
    Dm* dm = cast(base);
    if (int error = check_copy("ibv_memcpy_from_dm", *dm, offset, length)) return error;
    std::memcpy(to, dm->memory + offset, length);
    return 0;
  });
}

// Takes `length` bytes of the context's share; false when they are not left.
bool reserve_memory(Context* context, size_t length) {
  uint64_t used = context->device_memory.load();
  do {
    if (length > kMaxDeviceMemory - used) return false;
  } while (!context->device_memory.compare_exchange_weak(used, used + length));
  return true;
}

}  // namespace

Handles<Dm>& dm_handles() {
  static auto* instance = new Handles<Dm>;
  return *instance;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  return shielded_pointer<ibv_dm>([&]() -> ibv_dm* {
    if (attr->comp_mask)
      return refuse_null(EOPNOTSUPP, "ibv_alloc_dm: comp_mask {:#x}: no bit is defined",
                         attr->comp_mask);
    if (attr->length == 0 || attr->length > kMaxDeviceMemory || attr->log_align_req > kMaxLogAlign)
      return refuse_null(EINVAL,
                         "ibv_alloc_dm: length {}, log_align_req {}: 1..{} bytes (max_dm_size)"
                         " aligned to at most 2^{}",
                         attr->length, attr->log_align_req, kMaxDeviceMemory, kMaxLogAlign);
    if (!reserve_memory(cast(context), attr->length))
      return refuse_null(ENOMEM, "ibv_alloc_dm: {} bytes are not left of max_dm_size = {}",
                         attr->length, kMaxDeviceMemory);
    auto dm = std::make_unique<Dm>();
    dm->length = attr->length;
    dm->mapped = (attr->length + kPage - 1) & ~(kPage - 1);
    void* memory =
        mmap(nullptr, dm->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      cast(context)->device_memory -= attr->length;
      return refuse_null(ENOMEM, "ibv_alloc_dm: {} bytes cannot be mapped: {}", dm->mapped,
                         std::strerror(errno));
    }
    dm->memory = static_cast<uint8_t*>(memory);
    dm->base.context = context;
    dm->context = ContextHold(context);
    dm->base.memcpy_to_dm = copy_to_dm;
    dm->base.memcpy_from_dm = copy_from_dm;
    dm->base.comp_mask = IBV_DM_MASK_HANDLE;
    dm->base.handle = dm_handles().add(dm.get());
    return &dm.release()->base;
  });
}

int free_dm(ibv_dm* base) {
  return shielded([&] {
    Dm* dm = cast(base);
    if (dm->original)
      return refuse(EINVAL, "ibv_free_dm: imported memory ends with ibv_unimport_dm");
    if (dm->users)
      return refuse(EBUSY, "ibv_free_dm: {} regions or imports still use it", dm->users.load());
    dm_handles().remove(base->handle);
    cast(base->context)->device_memory -= dm->length;
    munmap(dm->memory, dm->mapped);
    delete dm;
    return 0;
  });
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* base, uint64_t offset, size_t length, unsigned access) {
  return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
    const char* call = "ibv_reg_dm_mr";
    Dm* dm = cast(base);
    if (int error = check_access(call, access)) {
      errno = error;
      return nullptr;
    }
    if (!(access & IBV_ACCESS_ZERO_BASED))
      return refuse_null(EINVAL,
                         "{}: device memory has no address of its own; give "
                         "IBV_ACCESS_ZERO_BASED",
                         call);
    if (access & IBV_ACCESS_ON_DEMAND)
      return refuse_null(EOPNOTSUPP, "{}: device memory is always present", call);
    if (offset > dm->length || length > dm->length - offset)
      return refuse_null(EINVAL, "{}: {} bytes at {} are outside the {} bytes of the memory", call,
                         length, offset, dm->length);
    RegionSpec spec;
    spec.length = length;
    spec.base = dm->memory + offset;
    spec.access = access;
    spec.dm = dm->original ? dm->original : dm;
    return register_region(call, pd, nullptr, spec);
  });
}

}  // namespace verbena::abi

using namespace verbena::abi;

extern "C" {

int ibv_dm_export_dmabuf_fd(ibv_dm*) {
  return minus_one(shielded([] {
    return refuse(EOPNOTSUPP,
                  "ibv_dm_export_dmabuf_fd: device memory here is ordinary memory of "
                  "this process; no dma-buf stands behind it");
  }));
}

}  // extern "C"
