// Connecting, accepting, rejecting and disconnecting: what programs ask, checked and handed to the
// connection manager. Its answers come as events (from_cm.cc).
#include <errno.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

// Of the private data fields, without the IP header in a request (IBA 12.6, rdma_connect(3)).
constexpr size_t kRequestBytes = 56, kSidrRequestBytes = 180;
constexpr size_t kReplyBytes = 196, kSidrReplyBytes = 136;
constexpr size_t kRejectBytes = 148, kSidrRejectBytes = 136;
constexpr uint8_t kMaxRetries = 7;  // 3 bits
constexpr uint16_t kVendorOptionReject = 35;

std::vector<uint8_t> private_data(const Id& id, const rdma_conn_param* param) {
  std::vector<uint8_t> data = id.connect_data;
  if (param != nullptr && param->private_data != nullptr) {
    const auto* bytes = static_cast<const uint8_t*>(param->private_data);
    data.insert(data.end(), bytes, bytes + param->private_data_len);
  }
  return data;
}

// What rdma_connect and rdma_accept refuse alike. 0, or -1 with errno.
int check(const Id& id, const char* call, const rdma_conn_param* param, size_t length,
          size_t limit) {
  if (length > limit)
    return refuse(id, EINVAL, call,
                  std::to_string(length) + " bytes of private data, at most " +
                      std::to_string(limit) + " fit");
  if (id.datagram()) {
    if (id.qp == nullptr && param == nullptr && id.passive)
      return refuse(id, EINVAL, call, "the id has no queue pair, and no parameters name one");
    return 0;
  }
  if (id.qp == nullptr && param == nullptr)
    return refuse(id, EINVAL, call, "the id has no queue pair, and no parameters name one");
  if (param == nullptr) return 0;
  if (param->responder_resources != RDMA_MAX_RESP_RES &&
      param->responder_resources > id.max_responder_resources)
    return refuse(id, EINVAL, call,
                  "responder_resources is " + std::to_string(param->responder_resources) +
                      ", the device serves " + std::to_string(id.max_responder_resources));
  if (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
      param->initiator_depth > id.max_initiator_depth)
    return refuse(id, EINVAL, call,
                  "initiator_depth is " + std::to_string(param->initiator_depth) +
                      ", the device has at most " + std::to_string(id.max_initiator_depth) +
                      " outstanding");
  return 0;
}

void describe_qp(const Id& id, const rdma_conn_param* param, cm::QpParameters& qp) {
  if (id.qp != nullptr) {
    qp.qpn = id.qp->qp_num;
    qp.srq = id.qp->srq != nullptr;
  } else if (param != nullptr) {
    qp.qpn = param->qp_num & 0xffffff;
    qp.srq = param->srq != 0;
  }
  if (id.datagram()) qp.qkey = RDMA_UDP_QKEY;
  qp.starting_psn = id.psn;
  qp.responder_resources = id.responder_resources;
  qp.initiator_depth = id.initiator_depth;
  if (param == nullptr) return;
  qp.flow_control = param->flow_control != 0;
  qp.retry_count = std::min(param->retry_count, kMaxRetries);
  qp.rnr_retry_count = std::min(param->rnr_retry_count, kMaxRetries);
}

cm::Transport transport_of(const Id& id) {
  switch (id.type()) {
    case IBV_QPT_UC:
      return cm::Transport::kUc;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return cm::Transport::kXrc;
    default:
      return cm::Transport::kRc;
  }
}

cm::ConnectRequest request_of(Id& id, const rdma_conn_param* param) {
  cm::ConnectRequest request;
  request.route.source = id.source;
  request.route.destination = id.destination;
  request.route.traffic_class = id.tos;
  request.source_address = gid_of(&id.route.addr.src_addr).value_or(id.source);
  request.destination_address = gid_of(&id.route.addr.dst_addr).value_or(id.destination);
  request.space = static_cast<cm::PortSpace>(id.ps);
  request.source_port = port_of(&id.route.addr.src_addr);
  request.destination_port = port_of(&id.route.addr.dst_addr);
  request.transport = transport_of(id);
  request.path_mtu = id.path_mtu;
  request.ack_timeout = id.ack_timeout.value_or(id.path_timeout);
  describe_qp(id, param, request.qp);
  return request;
}

int connect(Id& id, const rdma_conn_param* param) {
  constexpr const char* kCall = "rdma_connect";
  std::vector<uint8_t> data = private_data(id, param);
  if (check(id, kCall, param, data.size(), id.datagram() ? kSidrRequestBytes : kRequestBytes) != 0)
    return -1;
  if (id.stage != Stage::kRouted)
    return refuse(id, EINVAL, kCall,
                  "rdma_resolve_route has not succeeded, or the id is connected");
  const bool serves = param != nullptr && param->responder_resources != RDMA_MAX_RESP_RES;
  const bool asks = param != nullptr && param->initiator_depth != RDMA_MAX_INIT_DEPTH;
  id.responder_resources = serves ? param->responder_resources : id.max_responder_resources;
  id.initiator_depth = asks ? param->initiator_depth : id.max_initiator_depth;
  id.retry_count = param != nullptr ? std::min(param->retry_count, kMaxRetries) : kMaxRetries;
  cm::ConnectRequest request = request_of(id, param);
  request.private_data = std::move(data);
  const cm::Handle former = id.connection;  // of a try that failed
  if (former.index != 0) {
    {
      Lock lock(library());
      leave(former);
    }
    port().destroy(former);
    id.connection = {};
  }
  // Before the call: its events may be taken by another thread before this one goes on.
  id.stage = Stage::kConnecting;
  Result<cm::Handle> connection = port().connect(request, [&id](cm::Handle handle) {
    Lock lock(library());
    id.connection = handle;
    enter(handle, id);
  });
  if (!connection) {
    id.stage = Stage::kRouted;
    return refuse(id, kCall, connection.error());
  }
  return complete(id);
}

int accept(Id& id, const rdma_conn_param* param) {
  constexpr const char* kCall = "rdma_accept";
  const std::vector<uint8_t> data = private_data(id, param);
  if (check(id, kCall, param, data.size(), id.datagram() ? kSidrReplyBytes : kReplyBytes) != 0)
    return -1;
  if (!id.passive || id.stage != Stage::kConnecting)
    return refuse(id, EINVAL, kCall, "the id is not a request that waits for an answer");
  if (param != nullptr && param->responder_resources != RDMA_MAX_RESP_RES)
    id.responder_resources = param->responder_resources;
  if (param != nullptr && param->initiator_depth != RDMA_MAX_INIT_DEPTH)
    id.initiator_depth = param->initiator_depth;
  id.responder_resources = std::min(id.responder_resources, id.max_responder_resources);
  id.initiator_depth = std::min(id.initiator_depth, id.max_initiator_depth);
  cm::QpParameters qp;
  describe_qp(id, param, qp);
  if (!id.datagram() && id.qp != nullptr) {
    // RTS already now: programs answer the first message they receive, and that may come before
    // the RTU. The peer is ready for us before it can send one.
    int error = to_rtr(id);
    if (error == 0) error = to_rts(id);
    if (error != 0) return refuse(error);
  }
  {
    Lock lock(library());
    id.answered = true;  // before the call: events may follow at once
  }
  if (auto done = port().accept(id.connection, qp, data); !done) {
    {
      Lock lock(library());
      id.answered = false;
      forget_events(id);  // the peer gave up in between
    }
    to_error(id);
    return refuse(id, kCall, done.error());
  }
  if (id.datagram()) {
    id.stage = Stage::kConnected;
    return 0;
  }
  return complete(id);
}

int reject(Id& id, const char* call, uint16_t reason, const void* data, uint8_t length) {
  if (!id.passive && id.qp != nullptr)
    return refuse(id, EINVAL, call, "the id is not a request that waits for an answer");
  if (id.stage != Stage::kConnecting)
    return refuse(id, EINVAL, call, "there is nothing to reject on this id");
  const size_t limit = id.datagram() ? kSidrRejectBytes : kRejectBytes;
  const size_t bytes = data == nullptr ? 0 : length;
  if (bytes > limit)
    return refuse(id, EINVAL, call,
                  "at most " + std::to_string(limit) + " bytes of private data fit");
  auto done = port().reject(id.connection, reason, {static_cast<const uint8_t*>(data), bytes});
  if (!done) return refuse(id, call, done.error());
  id.stage = Stage::kIdle;
  return 0;
}

int disconnect(Id& id) {
  constexpr const char* kCall = "rdma_disconnect";
  if (id.connection.index == 0) return refuse(id, EINVAL, kCall, "the id is no connection");
  if (id.datagram()) return 0;  // there is no connection to end
  to_error(id);
  if (auto done = port().disconnect(id.connection); !done) {
    // Ended already, by both sides at once or by a lost peer: that is what was asked for.
    if (id.stage != Stage::kConnected) return refuse(id, kCall, done.error());
    Lock lock(library());
    if (id.events().records.empty()) return 0;
  }
  return complete(id);
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return verbena::rdmacm::connect(*of(id), param); });
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return verbena::rdmacm::accept(*of(id), param); });
}

int rdma_establish(rdma_cm_id* id) {
  constexpr const char* kCall = "rdma_establish";
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] {
    if (id->qp != nullptr)
      return refuse(*id, EINVAL, kCall,
                    "the id has a queue pair: the connection establishes itself");
    if (of(id)->connection.index == 0) return refuse(*id, EINVAL, kCall, "the id is no connection");
    if (auto done = port().establish(of(id)->connection); !done)
      return refuse(*id, kCall, done.error());
    of(id)->stage = Stage::kConnected;
    return 0;
  });
}

int rdma_reject(rdma_cm_id* id, const void* data, uint8_t length) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return reject(*of(id), "rdma_reject", kConsumerReject, data, length); });
}

int rdma_reject_ece(rdma_cm_id* id, const void* data, uint8_t length) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded(
      [&] { return reject(*of(id), "rdma_reject_ece", kVendorOptionReject, data, length); });
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  constexpr const char* kCall = "rdma_notify";
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] {
    if (event != IBV_EVENT_COMM_EST)
      return refuse(*id, EINVAL, kCall, "the only event to notify of is IBV_EVENT_COMM_EST");
    if (of(id)->connection.index == 0) return refuse(*id, EINVAL, kCall, "the id is no connection");
    if (auto done = port().communication_established(of(id)->connection); !done)
      return refuse(*id, kCall, done.error());
    return 0;
  });
}

int rdma_disconnect(rdma_cm_id* id) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return disconnect(*of(id)); });
}
}
