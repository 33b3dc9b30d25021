// What the connection manager says, on its way to programs: which id it is about, the child of a
// listener that a request makes, and what each event asks of the id's queue pair.
#include <errno.h>
#include <string.h>

#include <unordered_map>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

struct Directory {
  std::unordered_map<uint64_t, Id*> ids;
  uint32_t generation = 0;
};

// library() held.
Directory& directory() {
  static auto* instance = new Directory;
  if (instance->generation != generation()) {  // the parent's, maybe half written
    instance = new Directory;
    instance->generation = generation();
  }
  return *instance;
}

uint64_t key(const cm::Handle& handle) {
  return uint64_t{handle.index} << 32 | handle.generation;
}

Id* find(const cm::Handle& handle) {
  const auto& ids = directory().ids;
  auto found = ids.find(key(handle));
  return found == ids.end() ? nullptr : found->second;
}

rdma_cm_event_type public_type(cm::EventType type) {
  switch (type) {
    case cm::EventType::kRequest:
      return RDMA_CM_EVENT_CONNECT_REQUEST;
    case cm::EventType::kResponse:
      return RDMA_CM_EVENT_CONNECT_RESPONSE;
    case cm::EventType::kEstablished:
    case cm::EventType::kSidrResponse:
      return RDMA_CM_EVENT_ESTABLISHED;
    case cm::EventType::kRejected:
      return RDMA_CM_EVENT_REJECTED;
    case cm::EventType::kUnreachable:
      return RDMA_CM_EVENT_UNREACHABLE;
    case cm::EventType::kConnectError:
      return RDMA_CM_EVENT_CONNECT_ERROR;
    case cm::EventType::kDisconnected:
      return RDMA_CM_EVENT_DISCONNECTED;
    case cm::EventType::kTimewaitExit:
      return RDMA_CM_EVENT_TIMEWAIT_EXIT;
  }
  return RDMA_CM_EVENT_CONNECT_ERROR;
}

bool carries_data(cm::EventType type) {
  return type == cm::EventType::kRequest || type == cm::EventType::kResponse ||
         type == cm::EventType::kRejected || type == cm::EventType::kSidrResponse;
}

// The id of a request that came for `listener`.
Id* make_child(Id& listener, const cm::Event& event) {
  const cm::Incoming& incoming = *event.incoming;
  ibv_qp_type type = listener.qp_type;
  if (incoming.transport == cm::Transport::kUc && type == IBV_QPT_RC) type = IBV_QPT_UC;
  Id* id = make_bare_id(listener.context, listener.ps, type);
  if (id == nullptr) return nullptr;
  id->passive = true;
  id->connection = event.connection;
  id->source = incoming.route.source;
  id->destination = incoming.route.destination;
  id->scope = listener.scope;
  id->path_mtu = incoming.path_mtu;
  id->ack_timeout = listener.ack_timeout;
  id->path_timeout = incoming.ack_timeout;
  id->peer = event.qp;
  // The peer's depth is what it asks of us, and the other way round (rdma_get_cm_event(3)).
  id->responder_resources = event.qp.initiator_depth;
  id->initiator_depth = event.qp.responder_resources;
  id->retry_count = event.qp.retry_count;
  id->rnr_retry_count = event.qp.rnr_retry_count;
  id->tos = listener.tos != 0 ? listener.tos : incoming.route.traffic_class;
  id->stage = Stage::kConnecting;
  fill_address(id->route.addr.src_storage, incoming.destination_address, incoming.destination_port,
               id->scope);
  fill_address(id->route.addr.dst_storage, incoming.source_address, incoming.source_port,
               id->scope);
  enter(event.connection, *id);
  return id;
}

void fill_parameters(Record& record, const cm::Event& event) {
  const void* data = record.data.empty() ? nullptr : record.data.data();
  const auto length = static_cast<uint8_t>(record.data.size());
  if (event.type == cm::EventType::kSidrResponse || (event.incoming && event.incoming->datagram)) {
    rdma_ud_param& ud = record.param.ud;
    ud.private_data = data;
    ud.private_data_len = length;
    ud.qp_num = event.qp.qpn;
    ud.qkey = event.qp.qkey;
    return;
  }
  rdma_conn_param& conn = record.param.conn;
  conn.private_data = data;
  conn.private_data_len = length;
  conn.responder_resources = event.qp.initiator_depth;
  conn.initiator_depth = event.qp.responder_resources;
  conn.flow_control = event.qp.flow_control;
  conn.retry_count = event.qp.retry_count;
  conn.rnr_retry_count = event.qp.rnr_retry_count;
  conn.srq = event.qp.srq;
  conn.qp_num = event.qp.qpn;
}

// library() held.
void queue(cm::Event& event) {
  Id* id = event.type == cm::EventType::kRequest && event.incoming ? find(event.incoming->listener)
                                                                   : find(event.connection);
  if (id == nullptr) return;  // destroyed meanwhile
  // The active side has heard of it from the response already.
  if (event.type == cm::EventType::kEstablished && !id->passive) return;
  // As Linux: what ends a request before the program has answered it is not told, and the answer
  // fails.
  if (event.type != cm::EventType::kRequest && id->passive && !id->answered) return;
  auto record = std::make_unique<Record>();
  record->id = record->owner = id;
  if (event.type == cm::EventType::kRequest) {
    record->id = make_child(*id, event);
    if (record->id == nullptr) return;
    record->listen_id = id;
  }
  record->event = public_type(event.type);
  record->status = event.status;
  if (carries_data(event.type)) record->data = std::move(event.private_data);
  record->peer = event.qp;
  record->cause = event.type;
  record->from_cm = true;
  fill_parameters(*record, event);
  push(*id, std::move(record));
}

// --- what events ask for

bool act_on_request(Record& record) {
  Id& id = *of(record.id);
  port().request_taken(id.connection);
  int error = take_device(id);
  if (error == 0) error = give_channel(id, *of(record.listen_id));
  if (error == 0) return true;
  if (port().explaining())
    port().explain("rejected a request for port " +
                   std::to_string(port_of(&id.route.addr.src_addr)) + ": " +
                   std::string(strerror(error)));
  static_cast<void>(port().reject(id.connection, kConsumerReject, {}));
  discard(id);
  return false;
}

void act_on_response(Record& record) {
  Id& id = *of(record.id);
  id.peer = record.peer;
  id.responder_resources = record.peer.initiator_depth;
  id.initiator_depth = record.peer.responder_resources;
  id.rnr_retry_count = record.peer.rnr_retry_count;
  if (id.qp == nullptr) return;  // the program answers with rdma_establish
  int error = to_rtr(id);
  if (error == 0) error = to_rts(id);
  if (error == 0) {
    if (auto done = port().establish(id.connection); !done) error = done.error().code;
  }
  if (error == 0) {
    record.event = RDMA_CM_EVENT_ESTABLISHED;
    id.stage = Stage::kConnected;
    return;
  }
  record.event = RDMA_CM_EVENT_CONNECT_ERROR;
  record.status = -error;
  to_error(id);
  static_cast<void>(port().reject(id.connection, kConsumerReject, {}));
}

void act_on_sidr_response(Record& record) {
  Id& id = *of(record.id);
  if (record.status != 0) {
    record.event = RDMA_CM_EVENT_UNREACHABLE;
    return;
  }
  id.stage = Stage::kConnected;
  record.param.ud.ah_attr = address_handle(id, id.destination);
}

}  // namespace

bool act(Record& record) {
  if (record.group) act_on_join(record);
  if (!record.from_cm) return true;
  Id& id = *of(record.id);
  switch (record.cause) {
    case cm::EventType::kRequest:
      return act_on_request(record);
    case cm::EventType::kResponse:
      act_on_response(record);
      break;
    case cm::EventType::kSidrResponse:
      act_on_sidr_response(record);
      break;
    case cm::EventType::kEstablished:
      id.stage = Stage::kConnected;
      break;
    case cm::EventType::kRejected:
    case cm::EventType::kUnreachable:
    case cm::EventType::kConnectError:
      // A new rdma_connect may follow on the same id; its queue pair is spent, as on hardware.
      id.stage = id.passive ? Stage::kIdle : Stage::kRouted;
      if (!id.datagram()) to_error(id);
      break;
    case cm::EventType::kDisconnected:
      break;
    case cm::EventType::kTimewaitExit:
      break;
  }
  return true;
}

void on_cm_event(cm::Event&& event) {
  shielded([&] {
    Lock lock(library());
    queue(event);
    return 0;
  });
}

void enter(const cm::Handle& handle, Id& id) {
  directory().ids[key(handle)] = &id;
}

void leave(const cm::Handle& handle) {
  directory().ids.erase(key(handle));
}

}  // namespace verbena::rdmacm
