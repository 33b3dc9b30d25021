// Asynchronous events: from the engine to the context they belong to, out through
// ibv_get_async_event(), back through ibv_ack_async_event().
#include "abi/errors.h"
#include "abi/events.h"
#include "abi/port_events.h"

namespace verbena::abi {

static_assert(int{IBV_EVENT_PORT_ACTIVE} == int(engine::AsyncType::kPortActive) &&
              int{IBV_EVENT_PORT_ERR} == int(engine::AsyncType::kPortErr) &&
              int{IBV_EVENT_GID_CHANGE} == int(engine::AsyncType::kGidChange));

host::EventChannel* route_event(const engine::Event& event, host::Delivery& delivery) {
  delivery.kind = event.kind;
  delivery.type = event.type;
  switch (event.kind) {
    case engine::Event::kCompletion: {
      auto* cq = static_cast<Cq*>(event.cq->owner);
      if (!cq || !cq->base.channel) return nullptr;
      delivery.object = cq;
      ++cq->completion_deliveries;
      return &cast(cq->base.channel)->events;
    }
    case engine::Event::kCq: {
      auto* cq = static_cast<Cq*>(event.cq->owner);
      if (!cq) return nullptr;
      delivery.object = cq;
      ++cq->async_deliveries;
      return &cast(cq->base.context)->async;
    }
    case engine::Event::kQp: {
      auto* core = static_cast<QpCore*>(event.qp->owner);
      if (!core || core->handles.empty()) return nullptr;
      Qp* qp = core->handles.front();
      delivery.object = qp;
      ++qp->async_deliveries;
      return &cast(qp->plain()->context)->async;
    }
    case engine::Event::kSrq: {
      auto* srq = static_cast<Srq*>(event.srq->owner);
      if (!srq) return nullptr;
      delivery.object = srq;
      ++srq->async_deliveries;
      return &cast(srq->base.context)->async;
    }
    case engine::Event::kLeftService:
    case engine::Event::kPort:
      return nullptr;  // between engine and host; made by us
  }
  return nullptr;
}

void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond,
                               const uint32_t& completed, uint32_t delivered) {
  pthread_mutex_lock(&mutex);
  while (completed != delivered) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

namespace {

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& completed) {
  pthread_mutex_lock(&mutex);
  ++completed;
  pthread_cond_broadcast(&cond);
  pthread_mutex_unlock(&mutex);
}

}  // namespace
}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  host::Delivery delivery;
  if (int error = shielded([&] { return next_event(cast(context), delivery); })) {
    errno = error;
    return -1;
  }
  event->event_type = static_cast<ibv_event_type>(delivery.type);
  switch (delivery.kind) {
    case engine::Event::kCompletion:
    case engine::Event::kCq:
      event->element.cq = static_cast<Cq*>(delivery.object)->plain();
      break;
    case engine::Event::kQp:
      event->element.qp = static_cast<Qp*>(delivery.object)->plain();
      break;
    case engine::Event::kSrq:
      event->element.srq = &static_cast<Srq*>(delivery.object)->base;
      break;
    case engine::Event::kPort:
      event->element.port_num = 1;
      break;
    case engine::Event::kLeftService:
      break;  // never routed here
  }
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq* cq = event->element.cq;
      acknowledge(cq->mutex, cq->cond, cq->async_events_completed);
      return;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp* qp = event->element.qp;
      acknowledge(qp->mutex, qp->cond, qp->events_completed);
      return;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq* srq = event->element.srq;
      acknowledge(srq->mutex, srq->cond, srq->events_completed);
      return;
    }
    default:
      return;  // port and device events name no object
  }
}

}  // extern "C"
