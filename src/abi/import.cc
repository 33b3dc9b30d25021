// Sharing objects between contexts by number. Within one process (the usual case: a library gets
// the context of its application) imports are further names of the same objects. Memory and queue
// pairs live inside a process here, so objects of another process cannot be shared: refused.
#include <unistd.h>

#include "abi/context.h"
#include "abi/device.h"
#include "abi/errors.h"
#include "abi/import.h"
#include "abi/operations.h"

using namespace verbena;
using namespace verbena::abi;

namespace {

// Handles mean objects of the process that made the context behind cmd_fd.
bool from_this_process(ibv_context* context) {
  ContextIdentity identity;
  return read_identity(context->cmd_fd, identity) && identity.pid == getpid();
}

constexpr const char* kOtherProcess =
    "{}: the context comes from another process, whose objects cannot be shared; allocate and "
    "register in this one";

}  // namespace

extern "C" {

ibv_context* ibv_import_device(int cmd_fd) {
  return shielded_pointer<ibv_context>([&]() -> ibv_context* {
    ContextIdentity identity;
    if (!read_identity(cmd_fd, identity))
      return refuse_null(EINVAL, "ibv_import_device: fd {} is no duplicate of a context's cmd_fd",
                         cmd_fd);
    auto devices = list_devices();
    if (!devices)
      return refuse_null(devices.error().code, "ibv_import_device: {}", devices.error().message);
    for (Device* device : *devices) {
      if (std::string_view(device->base.name) != identity.device) continue;
      Context* context = open_context(device);
      if (!context) return nullptr;
      close(context->base()->cmd_fd);
      context->base()->cmd_fd = cmd_fd;  // owned by the context from now on
      return context->base();
    }
    return refuse_null(ENODEV, "ibv_import_device: there is no device {} any more",
                       identity.device);
  });
}

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  return shielded_pointer<ibv_pd>([&]() -> ibv_pd* {
    if (!from_this_process(context)) return refuse_null(EOPNOTSUPP, kOtherProcess, "ibv_import_pd");
    auto pd = std::make_unique<Pd>();
    bool found = pd_handles().with(handle, [&](Pd* original) {
      pd->domain = original->domain;
      ++pd->domain->holders;
    });
    if (!found) return refuse_null(EINVAL, "ibv_import_pd: no protection domain {}", handle);
    pd->base = {context, handle};
    return &pd.release()->base;
  });
}

void ibv_unimport_pd(ibv_pd* pd) {
  unimport_domain(cast(pd));
}

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  return shielded_pointer<ibv_mr>([&]() -> ibv_mr* {
    if (!from_this_process(pd->context))
      return refuse_null(EOPNOTSUPP, kOtherProcess, "ibv_import_mr");
    auto mr = std::make_unique<Mr>();
    bool same_domain = false;
    bool found = mr_handles().with(handle, [&](Mr* original) {
      same_domain = original->region->domain == cast(pd)->domain;
      mr->base = original->base;
    });
    if (!found || !same_domain)
      return refuse_null(EINVAL, "ibv_import_mr: the protection domain has no region {}", handle);
    mr->base.context = pd->context;
    mr->base.pd = pd;
    mr->base.addr = nullptr;  // unknown to an importer
    mr->imported = true;
    return &mr.release()->base;
  });
}

void ibv_unimport_mr(ibv_mr* mr) {
  delete cast(mr);
}

ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  return shielded_pointer<ibv_dm>([&]() -> ibv_dm* {
    if (!from_this_process(context)) return refuse_null(EOPNOTSUPP, kOtherProcess, "ibv_import_dm");
    auto dm = std::make_unique<Dm>();
    bool found = dm_handles().with(handle, [&](Dm* original) {
      dm->base = original->base;
      dm->memory = original->memory;
      dm->length = original->length;
      dm->original = original->original ? original->original : original;
      ++dm->original->users;
    });
    if (!found) return refuse_null(EINVAL, "ibv_import_dm: no device memory {}", handle);
    dm->base.context = context;
    return &dm.release()->base;
  });
}

void ibv_unimport_dm(ibv_dm* base) {
  Dm* dm = cast(base);
  --dm->original->users;
  delete dm;
}

}  // extern "C"
