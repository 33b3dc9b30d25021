// The queue pair of an id: made with what the id has, and moved through its states with what the
// two ends have told each other.
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

constexpr uint8_t kMinRnrTimer = 0;  // 655 ms (rdma_connect(3))
constexpr int kRemoteReadAtomic = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

uint8_t at_most(uint8_t value, uint8_t limit) {
  return limit == 0 ? value : std::min(value, limit);
}

bool is_datagram(const Id& id) {
  return id.type() == IBV_QPT_UD || id.datagram();
}

void init_attributes(const Id& id, ibv_qp_attr& attr, int& mask) {
  attr.pkey_index = 0;
  attr.port_num = id.port_num;
  mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (is_datagram(id)) {
    attr.qkey = RDMA_UDP_QKEY;
    mask |= IBV_QP_QKEY;
    return;
  }
  attr.qp_access_flags = 0;
  if (id.stage == Stage::kConnecting || id.stage == Stage::kConnected)
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
                           static_cast<unsigned>(id.responder_resources ? kRemoteReadAtomic : 0);
  mask |= IBV_QP_ACCESS_FLAGS;
}

int rtr_attributes(const Id& id, ibv_qp_attr& attr, int& mask) {
  mask = IBV_QP_STATE;
  if (is_datagram(id)) return 0;
  if (id.stage != Stage::kConnecting && id.stage != Stage::kConnected) return EINVAL;
  attr.ah_attr = address_handle(id, id.destination);
  attr.path_mtu = static_cast<ibv_mtu>(id.path_mtu);
  attr.dest_qp_num = id.peer.qpn;
  attr.rq_psn = id.psn;
  mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (id.type() == IBV_QPT_UC) return 0;
  // An XRC initiator has no responder of its own but asks for both all the same.
  if (id.type() != IBV_QPT_XRC_SEND) {
    attr.max_dest_rd_atomic = at_most(id.responder_resources, id.max_responder_resources);
    attr.min_rnr_timer = kMinRnrTimer;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return 0;
}

int rts_attributes(const Id& id, ibv_qp_attr& attr, int& mask) {
  if (!is_datagram(id) && id.stage != Stage::kConnecting && id.stage != Stage::kConnected)
    return EINVAL;
  attr.sq_psn = is_datagram(id) ? 0 : id.peer.starting_psn;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (is_datagram(id) || id.type() == IBV_QPT_UC) return 0;
  attr.timeout = id.ack_timeout.value_or(id.path_timeout);
  mask |= IBV_QP_TIMEOUT;
  if (id.type() == IBV_QPT_XRC_RECV) return 0;
  attr.retry_cnt = id.retry_count;
  attr.rnr_retry = id.rnr_retry_count;
  attr.max_rd_atomic = at_most(id.initiator_depth, id.max_initiator_depth);
  mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return 0;
}

int modify(Id& id, ibv_qp_state state) {
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = state;
  switch (state) {
    case IBV_QPS_INIT:
      init_attributes(id, attr, mask);
      break;
    case IBV_QPS_RTR:
      if (int error = rtr_attributes(id, attr, mask); error != 0) return error;
      break;
    case IBV_QPS_RTS:
      if (int error = rts_attributes(id, attr, mask); error != 0) return error;
      break;
    default:
      mask = IBV_QP_STATE;
      break;
  }
  return ibv_modify_qp(id.qp, &attr, mask);
}

int make_ready(Id& id) {
  int error = modify(id, IBV_QPS_INIT);
  if (error == 0 && is_datagram(id)) error = modify(id, IBV_QPS_RTR);
  if (error == 0 && is_datagram(id)) error = modify(id, IBV_QPS_RTS);
  return error;
}

// --- completion queues that the program did not bring

int make_queue(Id& id, uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& cq) {
  if (entries == 0 || cq != nullptr) return 0;
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return errno;
  cq = ibv_create_cq(id.verbs, static_cast<int>(entries), &id, channel, 0);
  return cq == nullptr ? errno : 0;
}

// One that is in use (of an XRC shared receive queue) stays.
void drop_queue(ibv_comp_channel*& channel, ibv_cq*& cq) {
  if (cq != nullptr && ibv_destroy_cq(cq) == 0) cq = nullptr;
  if (cq != nullptr || channel == nullptr) return;
  ibv_destroy_comp_channel(channel);
  channel = nullptr;
}

int make_queues(Id& id, ibv_qp_init_attr_ex& attr) {
  const bool receives = attr.qp_type != IBV_QPT_XRC_SEND && attr.qp_type != IBV_QPT_XRC_RECV;
  const bool sends = attr.qp_type != IBV_QPT_XRC_RECV;
  if (attr.recv_cq == nullptr && receives) {
    if (int error = make_queue(id, attr.cap.max_recv_wr, id.recv_cq_channel, id.recv_cq))
      return error;
    attr.recv_cq = id.recv_cq;
  }
  if (attr.send_cq == nullptr && sends) {
    if (int error = make_queue(id, attr.cap.max_send_wr, id.send_cq_channel, id.send_cq))
      return error;
    attr.send_cq = id.send_cq;
  }
  return 0;
}

int create_qp(Id& id, ibv_qp_init_attr_ex& attr) {
  constexpr const char* kCall = "rdma_create_qp";
  if (id.qp != nullptr) return refuse(id, EINVAL, kCall, "the id has a queue pair already");
  if (id.verbs == nullptr)
    return refuse(id, EINVAL, kCall,
                  "the id is bound to no device; call rdma_resolve_addr or rdma_bind_addr with a "
                  "specific address first");
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr.pd = id.pd;
  }
  if (attr.pd == nullptr || attr.pd->context != id.verbs)
    return refuse(id, EINVAL, kCall, "the protection domain is of another device than the id");
  if (attr.qp_type == IBV_QPT_XRC_RECV && (attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) {
    attr.xrcd = default_xrcd(id.verbs);
    if (attr.xrcd == nullptr) return -1;
    attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  }
  // Adapters, and Linux's rxe, give at least the room of the scatter list to inline data, and
  // programs use it unasked (rdma_xclient). What came of it is written back.
  const bool sends = attr.qp_type != IBV_QPT_XRC_RECV;
  const auto room = static_cast<uint32_t>(attr.cap.max_send_sge * sizeof(ibv_sge));
  if (sends) attr.cap.max_inline_data = std::max(attr.cap.max_inline_data, room);
  int error = make_queues(id, attr);
  if (error == 0) {
    if (attr.srq == nullptr && attr.qp_type == id.qp_type) attr.srq = id.srq;
    if (attr.qp_type == IBV_QPT_XRC_RECV) attr.srq = nullptr;
    id.qp = ibv_create_qp_ex(id.verbs, &attr);
    if (id.qp == nullptr) error = errno;
  }
  if (error == 0) {
    error = make_ready(id);
    if (error != 0) {
      ibv_destroy_qp(id.qp);
      id.qp = nullptr;
    }
  }
  if (error != 0) {
    drop_queues(id);
    return refuse(error);
  }
  id.pd = attr.pd;
  return 0;
}

}  // namespace

void drop_queues(Id& id) {
  drop_queue(id.send_cq_channel, id.send_cq);
  drop_queue(id.recv_cq_channel, id.recv_cq);
}

ibv_ah_attr address_handle(const Id& id, const engine::Gid& destination) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.port_num = id.port_num;
  ah.grh.dgid = to_verbs(destination);
  ah.grh.sgid_index = static_cast<uint8_t>(id.gid_index);
  ah.grh.hop_limit = 64;
  ah.grh.traffic_class = id.tos;
  return ah;
}

int to_rtr(Id& id) {
  // Once more INIT: only now it is known what the peer may do.
  if (int error = modify(id, IBV_QPS_INIT); error != 0) return error;
  return modify(id, IBV_QPS_RTR);
}

int to_rts(Id& id) {
  return modify(id, IBV_QPS_RTS);
}

void to_error(Id& id) {
  if (id.qp != nullptr) static_cast<void>(modify(id, IBV_QPS_ERR));
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_create_qp_ex(rdma_cm_id* base, ibv_qp_init_attr_ex* attr) {
  if (base == nullptr || attr == nullptr) return refuse_null(__func__);
  return shielded([&] { return create_qp(*of(base), *attr); });
}

int rdma_create_qp(rdma_cm_id* base, ibv_pd* pd, ibv_qp_init_attr* plain) {
  if (base == nullptr || plain == nullptr) return refuse_null(__func__);
  ibv_qp_init_attr_ex attr{};
  // The extended struct begins like the plain one.
  memcpy(static_cast<void*>(&attr), plain, offsetof(ibv_qp_init_attr_ex, comp_mask));
  if (pd != nullptr) {
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd;
  }
  const int result = rdma_create_qp_ex(base, &attr);
  memcpy(static_cast<void*>(plain), &attr, offsetof(ibv_qp_init_attr_ex, comp_mask));
  return result;
}

void rdma_destroy_qp(rdma_cm_id* base) {
  if (base == nullptr || base->qp == nullptr) return;
  ibv_destroy_qp(base->qp);
  base->qp = nullptr;
  drop_queues(*of(base));
}

int rdma_init_qp_attr(rdma_cm_id* base, ibv_qp_attr* attr, int* mask) {
  constexpr const char* kCall = "rdma_init_qp_attr";
  if (base == nullptr || attr == nullptr || mask == nullptr) return refuse_null(__func__);
  Id& id = *of(base);
  if (id.verbs == nullptr) return refuse(id, EINVAL, kCall, "the id has no device yet");
  int error = 0;
  switch (attr->qp_state) {
    case IBV_QPS_INIT:
      init_attributes(id, *attr, *mask);
      break;
    case IBV_QPS_RTR:
      error = rtr_attributes(id, *attr, *mask);
      break;
    case IBV_QPS_RTS:
      error = rts_attributes(id, *attr, *mask);
      break;
    default:
      return refuse(id, EINVAL, kCall, "attributes exist for INIT, RTR and RTS only");
  }
  return error == 0 ? 0 : refuse(id, error, kCall, "nothing is known of the peer yet");
}
}
