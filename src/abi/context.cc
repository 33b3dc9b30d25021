// Opening and closing a device. Opening takes no resource of the machine but descriptors: two for
// each context, and one netlink socket for all of them, that hears of port changes. No UDP socket
// and no thread exist before the first queue pair.
#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "abi/context.h"
#include "abi/device.h"
#include "abi/errors.h"
#include "abi/events.h"
#include "abi/mcast.h"
#include "abi/operations.h"
#include "abi/port_events.h"

namespace verbena::abi {
namespace {

// What cmd_fd holds, so that ibv_import_device() recognizes a duplicate of it.
constexpr char kIdentityMagic[8] = {'V', 'E', 'R', 'B', 'E', 'N', 'A', '1'};

int completion_vectors() {
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<int>(std::clamp(cpus, 1L, 64L));
}

// An anonymous file that describes the context; -1 and errno when there is none.
int make_command_fd(const Device& device) {
  int fd = memfd_create("verbena-context", MFD_CLOEXEC);
  if (fd < 0) return -1;
  ContextIdentity identity{};
  std::memcpy(identity.magic, kIdentityMagic, sizeof identity.magic);
  identity.pid = getpid();
  std::memcpy(identity.device, device.base.name, sizeof identity.device);
  if (pwrite(fd, &identity, sizeof identity, 0) == sizeof identity) return fd;
  close(fd);
  return -1;
}

// The background thread reads the router, so it is written once, under the lock.
void set_event_router() {
  static const bool done = [] {
    host::Process& process = host::Process::get();
    host::Process::Guard guard(process);
    process.event_router(route_event);
    return true;
  }();
  static_cast<void>(done);
}

// `qp` means nothing any more: the engine's queue pair ends unless another context has it too
// (ibv_open_qp); then `qp` gets an empty core of its own. Locked.
void end_queue_pair(host::Process& process, Qp& qp) {
  QpCore& core = *qp.core;
  if (core.handles.size() > 1) {
    auto own = std::make_unique<QpCore>();
    own->handles.push_back(&qp);
    std::erase(core.handles, &qp);
    qp.core = own.release();
    return;
  }
  if (!core.queue) return;
  leave_groups(process, core);
  process.destroy(core.queue);
  core.queue = nullptr;
}

}  // namespace

bool read_identity(int cmd_fd, ContextIdentity& identity) {
  return pread(cmd_fd, &identity, sizeof identity, 0) == sizeof identity &&
         std::memcmp(identity.magic, kIdentityMagic, sizeof identity.magic) == 0 &&
         identity.device[sizeof identity.device - 1] == 0;
}

void fill_operations(NewestVerbsContext& verbs) {
  verbs_context& v = verbs.base;
  v.sz = sizeof verbs;
  v.query_port = query_port;
  v.advise_mr = advise_mr;
  v.alloc_null_mr = alloc_null_mr;
  v.reg_dm_mr = reg_dm_mr;
  v.alloc_dm = alloc_dm;
  v.free_dm = free_dm;
  v.alloc_parent_domain = alloc_parent_domain;
  v.dealloc_td = dealloc_td;
  v.alloc_td = alloc_td;
  v.query_rt_values = query_rt_values;
  v.create_cq_ex = create_cq_ex;
  v.query_device_ex = query_device_ex;
  v.open_qp = open_qp;
  v.create_qp_ex = create_qp_ex;
  v.get_srq_num = get_srq_num;
  v.create_srq_ex = create_srq_ex;
  fill_unsupported(v);
  v.open_xrcd = open_xrcd;
  v.close_xrcd = close_xrcd;
  ibv_context_ops& ops = v.context.ops;
  ops._compat_query_device = ibv_query_device;
  ops._compat_query_port = ibv_query_port;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
}

Context* open_context(Device* device) {
  auto context = std::make_unique<Context>();
  if (context->async.fd() < 0) return nullptr;  // errno is set
  int cmd_fd = make_command_fd(*device);
  if (cmd_fd < 0) return nullptr;
  context->device = device;
  fill_operations(context->verbs);
  ibv_context* base = context->base();
  base->device = &device->base;
  base->cmd_fd = cmd_fd;
  base->async_fd = context->async.fd();
  base->num_comp_vectors = completion_vectors();
  base->abi_compat = __VERBS_ABI_IS_EXTENDED;
  set_event_router();
  enter_audience(context.get());
  return context.release();
}

void close_context(Context* context) {
  leave_audience(context);
  host::Process& process = host::Process::get();
  {
    host::Process::Guard guard(process);
    // A program that closes the device early leaves its queue pairs behind; like the kernel we end
    // them, so that no peer reaches memory through them any more.
    while (!context->queue_pairs.empty()) {
      Qp* qp = context->queue_pairs.back();
      end_queue_pair(process, *qp);
      context->queue_pairs.pop_back();
    }
  }
  close(context->base()->cmd_fd);
  context->base()->cmd_fd = -1;
  ContextHold::release(context);
}

}  // namespace verbena::abi

using namespace verbena::abi;

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  return shielded_pointer<ibv_context>([&]() -> ibv_context* {
    Context* context = open_context(cast(device));
    return context ? context->base() : nullptr;
  });
}

int ibv_close_device(ibv_context* context) {
  return shielded([&] {
    close_context(cast(context));
    return 0;
  });
}

}  // extern "C"
