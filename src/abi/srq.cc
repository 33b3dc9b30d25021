// Shared receive queues, basic and XRC.
#include "abi/errors.h"
#include "abi/events.h"
#include "abi/import.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

std::atomic<uint32_t> live_srqs{0};

struct SrqSpec {
  void* user_context = nullptr;
  ibv_srq_attr* attr = nullptr;  // written back
  ibv_srq_type type = IBV_SRQT_BASIC;
  Pd* pd = nullptr;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
};

int check_limits(const char* call, ibv_context* context, const ibv_srq_attr& attr) {
  auto model = model_of(context);
  const host::Limits& limits = model->limits;
  if (attr.max_wr == 0 || attr.max_wr > limits.max_srq_wr)
    return refuse(EINVAL, "{}: max_wr {}; the device takes 1..{}", call, attr.max_wr,
                  limits.max_srq_wr);
  if (attr.max_sge > limits.max_srq_sge)
    return refuse(EINVAL, "{}: max_sge {}; the device takes up to {}", call, attr.max_sge,
                  limits.max_srq_sge);
  if (live_srqs >= limits.max_srq)
    return refuse(ENOMEM, "{}: the device's max_srq = {} are in use", call, limits.max_srq);
  return 0;
}

int check_parts(const char* call, ibv_context* context, const SrqSpec& spec) {
  bool foreign = spec.pd->base.context != context ||
                 (spec.xrcd && spec.xrcd->base.context != context) ||
                 (spec.cq && spec.cq->base.context != context);
  if (!foreign) return 0;
  return refuse(EINVAL, "{}: the {} belongs to another context", call,
                spec.pd->base.context != context                  ? "protection domain"
                : spec.xrcd && spec.xrcd->base.context != context ? "XRC domain"
                                                                  : "completion queue");
}

ibv_srq* make_srq(const char* call, ibv_context* context, const SrqSpec& spec) {
  if (int error = check_parts(call, context, spec)) {
    errno = error;
    return nullptr;
  }
  if (int error = check_limits(call, context, *spec.attr)) {
    errno = error;
    return nullptr;
  }
  uint32_t sges = spec.attr->max_sge ? spec.attr->max_sge : 1;
  auto srq = std::make_unique<Srq>();
  srq->queue = std::make_unique<engine::SharedReceiveQueue>(&spec.pd->domain->engine,
                                                            spec.attr->max_wr, sges);
  engine::SharedReceiveQueue& queue = *srq->queue;
  queue.owner = srq.get();
  if (spec.xrcd) queue.xrc_domain = spec.xrcd->domain;
  if (spec.cq) queue.completions = spec.cq->queue.get();
  srq->type = spec.type;
  srq->pd = spec.pd;
  srq->xrcd = spec.xrcd;
  srq->cq = spec.cq;
  srq->base.context = context;
  srq->context = ContextHold(context);
  srq->base.srq_context = spec.user_context;
  srq->base.pd = &spec.pd->base;
  srq->base.handle = next_handle();
  if (spec.type == IBV_SRQT_XRC) {
    host::Process& process = host::Process::get();
    host::Process::Guard guard(process);
    queue.number = process.engine().register_srq(&queue);
    if (!queue.number) return refuse_null(ENOMEM, "{}: all SRQ numbers are in use", call);
  }
  pthread_mutex_init(&srq->base.mutex, nullptr);
  pthread_cond_init(&srq->base.cond, nullptr);
  spec.attr->max_sge = sges;
  enter_domain(spec.pd);
  if (spec.xrcd) ++spec.xrcd->users;
  if (spec.cq) ++spec.cq->users;
  ++live_srqs;
  return &srq.release()->base;
}

// What create_srq_ex must refuse before limits are looked at.
int check_attr_ex(const ibv_srq_init_attr_ex& attr) {
  const char* call = "ibv_create_srq_ex";
  constexpr uint32_t kKnown =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (attr.comp_mask & ~kKnown)
    return refuse(EOPNOTSUPP,
                  "{}: comp_mask {:#x}: tag matching and unknown bits are not "
                  "supported",
                  call, attr.comp_mask);
  ibv_srq_type type = attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr.srq_type : IBV_SRQT_BASIC;
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)
    return refuse(EOPNOTSUPP, "{}: type {}: basic and XRC are supported", call,
                  static_cast<int>(type));
  if (!(attr.comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr.pd)
    return refuse(EINVAL, "{}: a protection domain is needed", call);
  constexpr uint32_t kXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (type == IBV_SRQT_XRC && ((attr.comp_mask & kXrc) != kXrc || !attr.xrcd || !attr.cq))
    return refuse(EINVAL, "{}: an XRC SRQ needs an XRC domain and a completion queue", call);
  if (type == IBV_SRQT_BASIC && (attr.comp_mask & kXrc))
    return refuse(EINVAL,
                  "{}: comp_mask {:#x}: a basic SRQ has no XRC domain and no completion"
                  " queue; set srq_type to IBV_SRQT_XRC",
                  call, attr.comp_mask);
  return 0;
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  return shielded_pointer<ibv_srq>([&]() -> ibv_srq* {
    if (int error = check_attr_ex(*attr)) {
      errno = error;
      return nullptr;
    }
    SrqSpec spec{.user_context = attr->srq_context, .attr = &attr->attr, .pd = cast(attr->pd)};
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC) {
      spec.type = IBV_SRQT_XRC;
      spec.xrcd = cast(attr->xrcd);
      spec.cq = cast(attr->cq);
    }
    return make_srq("ibv_create_srq_ex", context, spec);
  });
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  if (cast(srq)->type != IBV_SRQT_XRC)
    return shielded([] { return refuse(EINVAL, "ibv_get_srq_num: only XRC SRQs have a number"); });
  *number = cast(srq)->queue->number;
  return 0;
}

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Srq* srq = cast(base);
  int error = 0;
  host::Process::Guard guard(host::Process::get());
  engine::ReceiveQueue& queue = srq->queue->queue;
  for (; wr; wr = wr->next) {
    if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > queue.max_sges()) {
      error = shielded([&] {
        return refuse(EINVAL, "ibv_post_srq_recv: {} SGEs; the SRQ takes up to {}", wr->num_sge,
                      queue.max_sges());
      });
      break;
    }
    if (queue.full()) {
      error = shielded([&] {
        return refuse(ENOMEM, "ibv_post_srq_recv: the SRQ is full ({} work requests)",
                      queue.capacity());
      });
      break;
    }
    queue.push(wr->wr_id, {reinterpret_cast<const engine::Sge*>(wr->sg_list),
                           static_cast<size_t>(wr->num_sge)});
  }
  if (error) *bad = wr;
  return error;
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return shielded_pointer<ibv_srq>([&]() -> ibv_srq* {
    SrqSpec spec{.user_context = attr->srq_context, .attr = &attr->attr, .pd = cast(pd)};
    return make_srq("ibv_create_srq", pd->context, spec);
  });
}

int ibv_modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
  return shielded([&] {
    const char* call = "ibv_modify_srq";
    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
      return refuse(EOPNOTSUPP, "{}: mask {:#x} has unknown bits", call, mask);
    uint32_t most = model_of(base->context)->limits.max_srq_wr;
    host::Process::Guard guard(host::Process::get());
    engine::SharedReceiveQueue& srq = *cast(base)->queue;
    uint32_t size = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq.queue.capacity();
    uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq.limit;
    if (size == 0 || size > most)
      return refuse(EINVAL, "{}: max_wr {}; the device takes 1..{}", call, size, most);
    if (limit > size)
      return refuse(EINVAL, "{}: the limit {} is above the size {}", call, limit, size);
    if ((mask & IBV_SRQ_MAX_WR) && !srq.queue.resize(size))
      return refuse(EINVAL, "{}: {} work requests wait, more than the new size {}", call,
                    srq.queue.size(), size);
    srq.limit = limit;
    return 0;
  });
}

int ibv_query_srq(ibv_srq* base, ibv_srq_attr* attr) {
  host::Process::Guard guard(host::Process::get());
  const engine::SharedReceiveQueue& srq = *cast(base)->queue;
  attr->max_wr = srq.queue.capacity();
  attr->max_sge = srq.queue.max_sges();
  attr->srq_limit = srq.limit;
  return 0;
}

int ibv_destroy_srq(ibv_srq* base) {
  return shielded([&] {
    Srq* srq = cast(base);
    if (srq->users)
      return refuse(EBUSY, "ibv_destroy_srq: {} queue pairs receive from it", srq->users.load());
    uint32_t asyncs;
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      if (srq->type == IBV_SRQT_XRC) process.engine().unregister_srq(srq->queue.get());
      process.engine().forget(srq->queue.get());
      srq->queue->owner = nullptr;
      asyncs = srq->async_deliveries - cast(base->context)->async.forget(srq);
    }
    wait_for_acknowledgements(base->mutex, base->cond, base->events_completed, asyncs);
    if (srq->cq) --srq->cq->users;
    if (srq->xrcd) --srq->xrcd->users;
    leave_domain(srq->pd);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    delete srq;
    --live_srqs;
    return 0;
  });
}

}  // extern "C"
