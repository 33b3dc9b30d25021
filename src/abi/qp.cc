// Creating, sharing and destroying queue pairs. What an adapter refuses at creation is refused
// here, before the engine takes memory.
#include <algorithm>

#include "abi/errors.h"
#include "abi/events.h"
#include "abi/import.h"
#include "abi/operations.h"
#include "abi/wr.h"

namespace verbena::abi {
namespace {

static_assert(int{IBV_QPT_RC} == int(engine::QpType::kRc) &&
              int{IBV_QPT_UC} == int(engine::QpType::kUc) &&
              int{IBV_QPT_UD} == int(engine::QpType::kUd) &&
              int{IBV_QPT_XRC_SEND} == int(engine::QpType::kXrcSend) &&
              int{IBV_QPT_XRC_RECV} == int(engine::QpType::kXrcRecv));

struct QpSpec {
  void* user_context = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* receive_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp_cap cap{};
  ibv_qp_type type{};
  bool signal_all = false;
  ibv_pd* pd = nullptr;
  ibv_xrcd* xrcd = nullptr;
  uint64_t send_operations = 0;  // with staging only
  bool staging = false;
};

bool uses(const QpSpec& spec, bool send) {
  if (spec.type == IBV_QPT_XRC_RECV) return false;
  return send || spec.type != IBV_QPT_XRC_SEND;
}

int check_type(const char* call, const QpSpec& spec) {
  switch (spec.type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return 0;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_DRIVER:
      return refuse(EOPNOTSUPP, "{}: raw packet and driver queue pairs are not supported", call);
  }
  return refuse(EINVAL, "{}: qp_type {}", call, static_cast<int>(spec.type));
}

int check_parts(const char* call, const ibv_context* context, const QpSpec& spec) {
  if (spec.type == IBV_QPT_XRC_RECV) {
    if (!spec.xrcd)
      return refuse(EINVAL, "{}: an XRC receive queue pair needs an XRC domain", call);
    return 0;
  }
  if (!spec.pd || spec.pd->context != context)
    return refuse(EINVAL, "{}: a protection domain of this context is needed", call);
  if (!spec.send_cq || (uses(spec, false) && !spec.receive_cq))
    return refuse(EINVAL, "{}: {} is null", call, spec.send_cq ? "recv_cq" : "send_cq");
  if (spec.send_cq->context != context || (spec.receive_cq && spec.receive_cq->context != context))
    return refuse(EINVAL, "{}: a completion queue belongs to another context", call);
  if (!spec.srq) return 0;
  if (spec.type == IBV_QPT_XRC_SEND)
    return refuse(EINVAL, "{}: an XRC send queue pair receives nothing, so it takes no SRQ", call);
  if (spec.srq->context != context || cast(spec.srq)->type != IBV_SRQT_BASIC)
    return refuse(EINVAL, "{}: the SRQ must be a basic one of this context", call);
  return 0;
}

int check_limits(const char* call, const host::Limits& limits, const QpSpec& spec) {
  const ibv_qp_cap& cap = spec.cap;
  auto over = [&](const char* what, uint32_t wanted, uint32_t limit) {
    return wanted > limit
               ? refuse(EINVAL, "{}: {} {}; the device takes up to {}", call, what, wanted, limit)
               : 0;
  };
  int error = 0;
  if (uses(spec, true)) {
    error = over("max_send_wr", cap.max_send_wr, limits.max_qp_wr);
    if (!error) error = over("max_send_sge", cap.max_send_sge, limits.max_sge);
    if (!error) error = over("max_inline_data", cap.max_inline_data, limits.max_inline);
  }
  if (!error && uses(spec, false) && !spec.srq) {
    error = over("max_recv_wr", cap.max_recv_wr, limits.max_qp_wr);
    if (!error) error = over("max_recv_sge", cap.max_recv_sge, limits.max_sge);
  }
  return error;
}

// What the queue pair really gets: nothing where it has no queue of its own.
ibv_qp_cap granted(const QpSpec& spec) {
  ibv_qp_cap cap = spec.cap;
  if (!uses(spec, true)) cap.max_send_wr = cap.max_send_sge = cap.max_inline_data = 0;
  if (!uses(spec, false) || spec.srq) cap.max_recv_wr = cap.max_recv_sge = 0;
  if (cap.max_send_wr) cap.max_send_sge = std::max(cap.max_send_sge, 1u);
  if (cap.max_recv_wr) cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
  return cap;
}

engine::QpInit engine_init(const host::DeviceModel& model, const QpSpec& spec,
                           const ibv_qp_cap& cap) {
  engine::QpInit init;
  init.port_mtu = model.path_mtu;
  // One octet of struct ibv_qp_attr each.
  init.max_rd_atomic = std::min<uint32_t>(model.limits.max_qp_init_rd_atom, UINT8_MAX);
  init.max_dest_rd_atomic = std::min<uint32_t>(model.limits.max_qp_rd_atom, UINT8_MAX);
  init.type = static_cast<engine::QpType>(spec.type);
  if (spec.type == IBV_QPT_XRC_RECV) {
    init.xrc_domain = cast(spec.xrcd)->domain;
  } else {
    init.domain = &cast(spec.pd)->domain->engine;
    init.send_cq = cast(spec.send_cq)->queue.get();
    if (uses(spec, false)) init.receive_cq = cast(spec.receive_cq)->queue.get();
    if (spec.srq) init.srq = cast(spec.srq)->queue.get();
  }
  init.send.work_requests = cap.max_send_wr;
  init.send.sges = cap.max_send_sge;
  init.send.inline_bytes = cap.max_inline_data;
  init.send.atomic_write = (spec.send_operations & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0;
  init.receive_work_requests = cap.max_recv_wr;
  init.receive_sges = cap.max_recv_sge;
  init.signal_all = spec.signal_all;
  return init;
}

void fill_public(Qp& qp, ibv_context* context, const QpSpec& spec) {
  ibv_qp& base = *qp.plain();
  base.context = context;
  qp.context = ContextHold(context);
  base.qp_context = spec.user_context;
  base.handle = next_handle();
  base.state = IBV_QPS_RESET;
  base.qp_type = spec.type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  if (spec.type == IBV_QPT_XRC_RECV) return;
  base.pd = spec.pd;
  base.send_cq = spec.send_cq;
  if (uses(spec, false)) base.recv_cq = spec.receive_cq;
  base.srq = spec.srq;
}

void count_parts(const Qp& qp, int step) {
  const ibv_qp& base = qp.base.base.qp_base;
  if (base.send_cq) cast(base.send_cq)->users += step;
  if (base.recv_cq) cast(base.recv_cq)->users += step;
  if (base.srq) cast(base.srq)->users += step;
  if (qp.xrcd) qp.xrcd->users += step;
  if (qp.pd) step > 0 ? enter_domain(qp.pd) : leave_domain(qp.pd);
}

ibv_qp* make_qp(const char* call, ibv_context* context, const QpSpec& spec, ibv_qp_cap& cap_out) {
  auto model = model_of(context);
  int error = check_type(call, spec);
  if (!error) error = check_parts(call, context, spec);
  if (!error) error = check_limits(call, model->limits, spec);
  if (error) {
    errno = error;
    return nullptr;
  }
  host::Process& process = host::Process::get();
  if (auto attached = process.attach(); !attached)
    return refuse_null(attached.error().code, "{}: {}", call, attached.error().message);

  ibv_qp_cap cap = granted(spec);
  auto qp = std::make_unique<Qp>();
  auto core = std::make_unique<QpCore>();
  core->handles.push_back(qp.get());
  if (spec.staging) qp->staging = make_staging(cap, spec.type, spec.send_operations);
  {
    host::Process::Guard guard(process);
    auto& siblings = cast(context)->queue_pairs;
    if (siblings.size() >= model->limits.max_qp)
      return refuse_null(ENOMEM, "{}: the device's max_qp = {} are in use", call,
                         model->limits.max_qp);
    siblings.reserve(siblings.size() + 1);
    engine::QpInit init = engine_init(*model, spec, cap);
    init.port = process.port(model->name);
    auto made = process.engine().create_qp(init);
    if (!made) return refuse_null(made.error().code, "{}: {}", call, made.error().message);
    core->queue = *made;
    core->queue->owner = core.get();
    siblings.push_back(qp.get());
  }
  fill_public(*qp, context, spec);
  if (spec.staging) fill_work_request_calls(qp->base);
  qp->plain()->qp_num = core->queue->qpn();
  qp->core = core.release();
  qp->cap = cap_out = cap;
  qp->signal_all = spec.signal_all;
  if (spec.type == IBV_QPT_XRC_RECV) {
    qp->xrcd = cast(spec.xrcd);
  } else {
    qp->pd = cast(spec.pd);
  }
  count_parts(*qp, 1);
  return qp.release()->plain();
}

// comp_mask and what it announces.
int check_attr_ex(const ibv_qp_init_attr_ex& attr) {
  const char* call = "ibv_create_qp_ex";
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                              IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (uint32_t unknown = attr.comp_mask & ~kKnown)
    return refuse(EOPNOTSUPP, "{}: comp_mask bits {:#x} (TSO, RSS or newer) are not supported",
                  call, unknown);
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags)
    return refuse(EOPNOTSUPP, "{}: create_flags {:#x} are not supported", call, attr.create_flags);
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) && attr.qp_type != IBV_QPT_XRC_RECV)
    return refuse(EINVAL,
                  "{}: comp_mask has IBV_QP_INIT_ATTR_XRCD; only an XRC receive queue pair"
                  " belongs to an XRC domain",
                  call);
  if (!(attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) return 0;
  uint64_t offered = send_operations_of(attr.qp_type);
  if (uint64_t refused = attr.send_ops_flags & ~offered)
    return refuse(EOPNOTSUPP, "{}: send_ops_flags {:#x}: this queue pair type does not offer {:#x}",
                  call, attr.send_ops_flags, refused);
  return 0;
}

void forget_handle(Qp* qp) {
  auto& siblings = cast(qp->plain()->context)->queue_pairs;
  siblings.erase(std::remove(siblings.begin(), siblings.end(), qp), siblings.end());
  auto& handles = qp->core->handles;
  handles.erase(std::remove(handles.begin(), handles.end(), qp), handles.end());
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  return shielded_pointer<ibv_qp>([&]() -> ibv_qp* {
    if (int error = check_attr_ex(*attr)) {
      errno = error;
      return nullptr;
    }
    bool staging = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    QpSpec spec{.user_context = attr->qp_context,
                .send_cq = attr->send_cq,
                .receive_cq = attr->recv_cq,
                .srq = attr->srq,
                .cap = attr->cap,
                .type = attr->qp_type,
                .signal_all = attr->sq_sig_all != 0,
                .pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : nullptr,
                .xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : nullptr,
                .send_operations = staging ? attr->send_ops_flags : 0,
                .staging = staging};
    return make_qp("ibv_create_qp_ex", context, spec, attr->cap);
  });
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) {
  return shielded_pointer<ibv_qp>([&]() -> ibv_qp* {
    const char* call = "ibv_open_qp";
    constexpr uint32_t kNeeded =
        IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if (attr->comp_mask & ~(kNeeded | uint32_t{IBV_QP_OPEN_ATTR_CONTEXT}))
      return refuse_null(EOPNOTSUPP, "{}: comp_mask {:#x} has unknown bits", call, attr->comp_mask);
    if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV)
      return refuse_null(EINVAL,
                         "{}: only XRC receive queue pairs can be opened; give number, "
                         "domain and type",
                         call);
    QpSpec spec{.type = IBV_QPT_XRC_RECV, .xrcd = attr->xrcd};
    if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) spec.user_context = attr->qp_context;
    uint32_t limit = model_of(context)->limits.max_qp;
    auto qp = std::make_unique<Qp>();
    fill_public(*qp, context, spec);
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      engine::QueuePair* queue = process.engine().find_qp(attr->qp_num);
      if (!queue || queue->type() != engine::QpType::kXrcRecv ||
          queue->init().xrc_domain != cast(attr->xrcd)->domain)
        return refuse_null(EINVAL, "{}: the domain has no queue pair {:#08x} in this process", call,
                           attr->qp_num);
      if (cast(context)->queue_pairs.size() >= limit)
        return refuse_null(ENOMEM, "{}: the device's max_qp = {} are in use", call, limit);
      qp->core = static_cast<QpCore*>(queue->owner);
      qp->plain()->state = static_cast<ibv_qp_state>(queue->state());
      cast(context)->queue_pairs.push_back(qp.get());
      qp->core->handles.push_back(qp.get());
    }
    qp->plain()->qp_num = attr->qp_num;
    qp->xrcd = cast(attr->xrcd);
    count_parts(*qp, 1);
    return qp.release()->plain();
  });
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return shielded_pointer<ibv_qp>([&]() -> ibv_qp* {
    QpSpec spec{.user_context = attr->qp_context,
                .send_cq = attr->send_cq,
                .receive_cq = attr->recv_cq,
                .srq = attr->srq,
                .cap = attr->cap,
                .type = attr->qp_type,
                .signal_all = attr->sq_sig_all != 0,
                .pd = pd};
    return make_qp("ibv_create_qp", pd->context, spec, attr->cap);
  });
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return cast(qp)->staging ? &cast(qp)->base.base : nullptr;
}

int ibv_destroy_qp(ibv_qp* base) {
  return shielded([&] {
    Qp* qp = cast(base);
    uint32_t asyncs;
    bool last;
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      if (!qp->core->groups.empty() && qp->core->handles.size() == 1)
        return refuse(EBUSY, "ibv_destroy_qp: QP {:#08x} is still attached to {} multicast groups",
                      base->qp_num, qp->core->groups.size());
      forget_handle(qp);
      last = qp->core->handles.empty();
      if (last && qp->core->queue) process.destroy(qp->core->queue);
      asyncs = qp->async_deliveries - cast(base->context)->async.forget(qp);
    }
    wait_for_acknowledgements(base->mutex, base->cond, base->events_completed, asyncs);
    count_parts(*qp, -1);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    if (last) delete qp->core;
    delete qp;
    return 0;
  });
}

}  // extern "C"
