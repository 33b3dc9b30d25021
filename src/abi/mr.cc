// Memory regions: registration checks what an adapter and the kernel check (access flags, mapped
// memory, alignment of the given address), gives the region its key and tells the same-host peers.
#include <algorithm>
#include <climits>

#include <sys/mman.h>
#include <unistd.h>

#include "abi/errors.h"
#include "abi/import.h"
#include "abi/mr.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

// Access flags every registration knows; those in the optional range may always be ignored.
constexpr uint32_t kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
    IBV_ACCESS_HUGETLB | kAccessFlushGlobal | kAccessFlushPersistent;

bool is_implicit(const void* address, size_t length) {
  return !address && length == SIZE_MAX;
}

// Makes the pages present now, as pinning would: 0 or EFAULT.
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

// Of regions that are memory; the null region and the whole address space are none.
int check_mr_size(const char* call, ibv_pd* pd, const void* address, size_t length) {
  uint64_t most = model_of(pd->context)->limits.max_mr_size;
  if (length <= most || is_implicit(address, length)) return 0;
  return refuse(EINVAL, "{}: length {}; the device takes up to {} (max_mr_size)", call, length,
                most);
}

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

int check_rereg(const Mr& mr, int flags, const ibv_pd* pd, void* address, size_t length,
                int access) {
  const char* call = "ibv_rereg_mr";
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
    return refuse(flags ? EOPNOTSUPP : EINVAL, "{}: flags {:#x}: give bits of ibv_rereg_mr_flags",
                  call, flags);
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!address || !length))
    return refuse(EINVAL, "{}: a new translation needs an address and a length", call);
  if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr.base.context))
    return refuse(EINVAL, "{}: the new pd must belong to the region's context", call);
  if (mr.imported || mr.region->dm || mr.region->mapping ||
      mr.region->engine.backing == memory::Backing::kNull)
    return refuse(EOPNOTSUPP, "{}: only regions made by ibv_reg_mr can be changed", call);
  uint32_t effective =
      flags & IBV_REREG_MR_CHANGE_ACCESS ? static_cast<uint32_t>(access) : mr.region->engine.access;
  if (int error = check_access(call, effective)) return error;
  bool on_demand = effective & IBV_ACCESS_ON_DEMAND;
  if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
    if (int error = check_mr_size(call, mr.base.pd, address, length)) return error;
    if (int error =
            check_range(call, address, length, reinterpret_cast<uint64_t>(address), effective))
      return error;
    return on_demand ? 0 : pin(call, address, length, effective);
  }
  if (on_demand || !(flags & IBV_REREG_MR_CHANGE_ACCESS)) return 0;
  return pin(call, mr.region->engine.base, mr.region->engine.length, effective);
}

}  // namespace

Handles<Mr>& mr_handles() {
  static auto* instance = new Handles<Mr>;
  return *instance;
}

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

int advise_mr(ibv_pd* base, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges,
              uint32_t count) {
  return shielded([&] {
    const char* call = "ibv_advise_mr";
    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || (flags & ~IBV_ADVISE_MR_FLAG_FLUSH))
      return refuse(EOPNOTSUPP, "{}: advice {}, flags {:#x}", call, static_cast<int>(advice),
                    flags);
    if (count == 0) return refuse(EINVAL, "{}: no range given", call);
    bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    host::Process& process = host::Process::get();
    host::Process::Guard guard(process);
    for (uint32_t i = 0; i < count; ++i) {
      const memory::MemoryRegion* region = process.engine().keys().find_region(sges[i].lkey);
      if (!region || region->domain != &cast(base)->domain->engine)
        return refuse(ENOENT, "{}: lkey {:#x} is no region of this pd", call, sges[i].lkey);
      if (region->backing != memory::Backing::kOnDemand)
        return refuse(EINVAL, "{}: lkey {:#x} is not an on-demand region", call, sges[i].lkey);
      if (write && !(region->access & IBV_ACCESS_LOCAL_WRITE))
        return refuse(EPERM, "{}: lkey {:#x} does not allow local write", call, sges[i].lkey);
      if (sges[i].addr < region->iova || sges[i].addr - region->iova > region->length ||
          sges[i].length > region->length - (sges[i].addr - region->iova))
        return refuse(EINVAL, "{}: {} bytes at {:#x} are outside the region", call, sges[i].length,
                      sges[i].addr);
      if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) continue;
      memory::Grant grant = process.engine().keys().check_local(
          sges[i].lkey, region->domain, sges[i].addr, sges[i].length, write);
      if (grant.error != memory::KeyError::kNone)
        return refuse(EFAULT, "{}: {}", call, memory::describe(grant.error));
    }
    return 0;
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

int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  int error = shielded([&] {
    Mr* mr = cast(base);
    memory::MemoryRegion& region = mr->region->engine;
    if (int refused = check_rereg(*mr, flags, pd, address, length, access)) return refused;
    Pd* left = nullptr;
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      if (region.bound_windows)
        return refuse(EBUSY, "ibv_rereg_mr: {} memory windows are bound to the region",
                      region.bound_windows);
      process.withdraw_key(region.key);
      if (flags & IBV_REREG_MR_CHANGE_PD) {
        left = mr->pd;
        mr->pd = cast(pd);
        mr->region->domain = mr->pd->domain;
        region.domain = &mr->pd->domain->engine;
        base->pd = pd;
        enter_domain(mr->pd);
      }
      if (flags & IBV_REREG_MR_CHANGE_ACCESS) region.access = static_cast<uint32_t>(access);
      region.backing = region.access & IBV_ACCESS_ON_DEMAND ? memory::Backing::kOnDemand
                                                            : memory::Backing::kHost;
      if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        region.base = static_cast<uint8_t*>(address);
        region.length = length;
        region.iova =
            region.access & IBV_ACCESS_ZERO_BASED ? 0 : reinterpret_cast<uint64_t>(address);
        base->addr = address;
        base->length = length;
      }
      process.publish_key(region.key);
    }
    if (left) leave_domain(left);
    return 0;
  });
  if (!error) return 0;
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;  // nothing was changed: the old registration is valid
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
