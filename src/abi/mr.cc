// Memory regions: registration checks what it was asked for (mr_checks.cc), gives the region its
// key and tells the same-host peers.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "abi/errors.h"
#include "abi/import.h"
#include "abi/mr.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

bool over_region_limit(ibv_context* context, uint32_t regions) {
  return regions >= model_of(context)->limits.max_mr;
}

std::atomic<uint32_t> live_regions{0};

Recycler<Region>& regions() {
  static auto* instance = new Recycler<Region>;
  return *instance;
}

// Registration proper, of checked arguments. `base` is where the bytes are.
ibv_mr* make_region(const char* call, Pd* pd, void* shown_address, const RegionSpec& spec) {
  if (over_region_limit(pd->base.context, live_regions))
    return refuse_null(ENOMEM, "{}: the device's max_mr = {} regions are in use", call,
                       live_regions.load());
  auto mr = std::make_unique<Mr>();
  Region* region = regions().take();
  region->domain = pd->domain;
  region->dm = spec.dm;
  region->mapping = spec.mapping;
  region->mapping_length = spec.mapping_length;
  memory::MemoryRegion& engine = region->engine;
  engine.domain = &pd->domain->engine;
  engine.iova = spec.iova;
  engine.length = spec.length;
  engine.base = spec.base;
  engine.access = spec.access;
  engine.backing = spec.backing;

  mr->pd = pd;
  mr->region = region;
  mr->base = {
      pd->base.context, &pd->base, shown_address, static_cast<size_t>(spec.length), 0, 0, 0};
  mr->base.handle = mr_handles().add(mr.get());
  host::Process& process = host::Process::get();
  {
    host::Process::Guard guard(process);
    uint32_t key = process.engine().keys().insert(&engine);
    if (key) process.publish_key(key);
    mr->base.lkey = mr->base.rkey = key;
  }
  if (mr->base.lkey == 0) {
    mr_handles().remove(mr->base.handle);
    *region = Region{};
    regions().give(region);
    return refuse_null(ENOMEM, "{}: all memory keys of this process are in use", call);
  }
  ++live_regions;
  enter_domain(pd);
  if (spec.dm) ++spec.dm->users;
  return &mr.release()->base;
}

ibv_mr* register_host(const char* call, ibv_pd* pd, void* address, size_t length, uint64_t iova,
                      uint32_t access) {
  return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
    int error = check_access(call, access);
    if (!error) error = check_mr_size(call, pd, address, length);
    if (!error) error = check_range(call, address, length, iova, access);
    bool on_demand = access & IBV_ACCESS_ON_DEMAND;
    if (!error && !on_demand) error = pin(call, address, length, access);
    if (error) {
      errno = error;
      return nullptr;
    }
    RegionSpec spec;
    spec.iova = is_implicit(address, length) || (access & IBV_ACCESS_ZERO_BASED) ? 0 : iova;
    spec.length = length;
    spec.base = static_cast<uint8_t*>(address);
    spec.access = access;
    spec.backing = on_demand ? memory::Backing::kOnDemand : memory::Backing::kHost;
    return make_region(call, cast(pd), address, spec);
  });
}

// The fd's memory, mapped. null and errno.
void* map_dmabuf(const char* call, int fd, uint64_t offset, size_t length, uint32_t access) {
  char link[64], target[64] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fd < 0 || readlink(link, target, sizeof target - 1) < 0)
    return refuse_null(EBADF, "{}: fd {} is not open", call, fd);
  if (std::string_view(target).substr(0, 8) != "/dmabuf:")
    return refuse_null(EINVAL, "{}: fd {} is {}, not a dma-buf", call, fd, target);
  int protection = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
  void* mapping = mmap(nullptr, length, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (mapping == MAP_FAILED)
    return refuse_null(EOPNOTSUPP, "{}: this dma-buf cannot be mapped by the CPU", call);
  return mapping;
}

ibv_mr* register_dmabuf(const char* call, ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                        int fd, uint32_t access) {
  return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
    if (fd < 0) return refuse_null(EBADF, "{}: fd {}", call, fd);
    int error = check_access(call, access);
    if (!error) error = check_mr_size(call, pd, nullptr, length);
    if (error) {
      errno = error;
      return nullptr;
    }
    if (length == 0 || offset + length < offset || iova + length < iova ||
        (offset ^ iova) % kPage != 0)
      return refuse_null(EINVAL,
                         "{}: offset {:#x}, length {}, iova {:#x}: the range must not wrap "
                         "and offset and iova must lie at the same offset in their page",
                         call, offset, length, iova);
    uint64_t slack = offset % kPage;
    void* mapping = map_dmabuf(call, fd, offset - slack, length + slack, access);
    if (!mapping) return nullptr;
    RegionSpec spec;
    spec.iova = iova;
    spec.length = length;
    spec.base = static_cast<uint8_t*>(mapping) + slack;
    spec.access = access;
    spec.mapping = mapping;
    spec.mapping_length = length + slack;
    ibv_mr* mr = make_region(call, cast(pd), nullptr, spec);
    if (!mr) munmap(mapping, length + slack);
    return mr;
  });
}

}  // namespace

Handles<Mr>& mr_handles() {
  static auto* instance = new Handles<Mr>;
  return *instance;
}

ibv_mr* register_region(const char* call, ibv_pd* pd, void* shown_address, const RegionSpec& spec) {
  return make_region(call, cast(pd), shown_address, spec);
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
    RegionSpec spec;
    spec.length = UINT64_MAX;
    spec.access = IBV_ACCESS_LOCAL_WRITE;
    spec.backing = memory::Backing::kNull;
    return make_region("ibv_alloc_null_mr", cast(pd), nullptr, spec);
  });
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return register_host("ibv_reg_mr", pd, address, length, reinterpret_cast<uint64_t>(address),
                       static_cast<uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return register_host("ibv_reg_mr_iova", pd, address, length, iova, static_cast<uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                         unsigned int access) {
  return register_host("ibv_reg_mr", pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  return register_dmabuf("ibv_reg_dmabuf_mr", pd, offset, length, iova, fd,
                         static_cast<uint32_t>(access));
}

ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, MrInitAttr* attr) {
  const char* call = "ibv_reg_mr_ex";
  uint64_t mask = attr->comp_mask;
  if (mask & ~uint64_t{kMrIova | kMrAddress | kMrFd | kMrFdOffset})
    return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
      return refuse_null(EOPNOTSUPP,
                         "{}: comp_mask {:#x}: DMA handles and what came after are not "
                         "supported",
                         call, mask);
    });
  bool has_fd = mask & kMrFd;
  if (has_fd == bool(mask & kMrAddress) || has_fd != bool(mask & kMrFdOffset) ||
      (has_fd && !(mask & kMrIova)))
    return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
      return refuse_null(EINVAL,
                         "{}: comp_mask {:#x}: give an address, or fd with fd_offset and iova",
                         call, mask);
    });
  auto access = static_cast<uint32_t>(attr->access);
  if (has_fd)
    return register_dmabuf(call, pd, attr->fd_offset, attr->length, attr->iova, attr->fd, access);
  uint64_t iova = mask & kMrIova ? attr->iova : reinterpret_cast<uint64_t>(attr->address);
  return register_host(call, pd, attr->address, attr->length, iova, access);
}

int ibv_dereg_mr(ibv_mr* base) {
  return shielded([&] {
    Mr* mr = cast(base);
    if (mr->imported)
      return refuse(EINVAL, "ibv_dereg_mr: an imported region ends with ibv_unimport_mr");
    Region* region = mr->region;
    Region was;
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      if (region->engine.bound_windows)
        return refuse(EBUSY,
                      "ibv_dereg_mr: {} memory windows are bound to the region; unbind or "
                      "free them first",
                      region->engine.bound_windows);
      process.withdraw_key(region->engine.key);
      process.engine().keys().remove(region->engine.key);
      // Under the lock: a bind that waits in a send queue may name the region.
      was = std::exchange(*region, Region{});
      regions().give(region);
    }
    mr_handles().remove(base->handle);
    if (was.mapping) munmap(was.mapping, was.mapping_length);
    if (was.dm) --was.dm->users;
    leave_domain(mr->pd);
    delete mr;
    --live_regions;
    return 0;
  });
}

}  // extern "C"
