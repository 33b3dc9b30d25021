// rdma_create_ep and rdma_get_request: several calls in one, on synchronous ids.
#include <errno.h>
#include <rdma/rdma_verbs.h>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

// What connections have. 0: of an id without a queue pair, whose program need not say.
bool known_type(int type) {
  switch (type) {
    case 0:
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return true;
    default:
      return false;
  }
}

// 0, or -1 with errno.
int set_up(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  if ((info.ai_flags & RAI_PASSIVE) != 0) {
    if (rdma_bind_addr(&id, info.ai_src_addr) != 0) return -1;
    if (attr == nullptr) return 0;
    id.request_qp = *attr;
    id.request_qp->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
    id.request_pd = pd;
    return 0;
  }
  if (rdma_resolve_addr(&id, info.ai_src_addr, info.ai_dst_addr, kResolveMs) != 0) return -1;
  if (rdma_resolve_route(&id, kResolveMs) != 0) return -1;
  if (info.ai_connect != nullptr && info.ai_connect_len > 0) {
    const auto* bytes = static_cast<const uint8_t*>(info.ai_connect);
    id.connect_data.assign(bytes, bytes + info.ai_connect_len);
  }
  if (attr == nullptr) return 0;
  // Programs leave it 0 (rdma_client); what was asked of rdma_getaddrinfo counts.
  attr->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  return rdma_create_qp(&id, pd, attr);
}

int create_ep(rdma_cm_id** out, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  constexpr const char* kCall = "rdma_create_ep";
  if (!known_type(info.ai_qp_type))
    return refuse(EINVAL, kCall,
                  "ai_qp_type " + std::to_string(info.ai_qp_type) + " is no type of queue pair");
  if (auto opened = port().open(); !opened) return refuse(kCall, opened.error());
  Id* id = make_id(nullptr, nullptr, static_cast<rdma_port_space>(info.ai_port_space),
                   static_cast<ibv_qp_type>(info.ai_qp_type));
  if (id == nullptr) return -1;
  if (set_up(*id, info, pd, attr) != 0) {
    const int error = errno;
    rdma_destroy_ep(id);
    return refuse(error);
  }
  *out = id;
  return 0;
}

int get_request(Id& listener, rdma_cm_id** out) {
  constexpr const char* kCall = "rdma_get_request";
  if (!listener.synchronous())
    return refuse(EINVAL, kCall, "requests of an id with an event channel come as its events");
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listener.channel, &event) != 0) return -1;
  if (event->status != 0 || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    const int error = event->status != 0 ? event->status : EINVAL;
    rdma_ack_cm_event(event);
    return refuse(error < 0 ? -error : error, kCall, "no request came, but another event");
  }
  rdma_cm_id* id = event->id;
  id->event = event;
  if (listener.request_qp) {
    ibv_qp_init_attr attr = *listener.request_qp;
    if (rdma_create_qp(id, listener.request_pd, &attr) != 0) {
      const int error = errno;
      rdma_reject(id, nullptr, 0);
      rdma_destroy_id(id);
      return refuse(error);
    }
  }
  *out = id;
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (id == nullptr || info == nullptr) return refuse_null(__func__);
  return shielded([&] { return create_ep(id, *info, pd, attr); });
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id == nullptr) return;
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  if (listener == nullptr || id == nullptr) return refuse_null(__func__);
  return shielded([&] { return get_request(*of(listener), id); });
}
}
