// Regions that exist: their registration changed (ibv_rereg_mr) and their pages asked for in
// advance (ibv_advise_mr).
#include "abi/errors.h"
#include "abi/import.h"
#include "abi/mr.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

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

}  // extern "C"
