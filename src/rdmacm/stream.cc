// A stream's life: made, connected by the events of its id, waited for, ended.
#include "rdmacm/stream.h"

#include <errno.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr uint8_t kAckTimeout = 14;  // 67 ms

rdma_conn_param parameters(const Greeting& greeting) {
  rdma_conn_param param{};
  param.private_data = &greeting;
  param.private_data_len = sizeof greeting;
  param.retry_count = param.rnr_retry_count = 7;
  param.flow_control = 1;
  return param;
}

void go_on_connecting(Stream& stream) {
  if (int error = prepare(stream); error != 0) return end(stream, error);
  const Greeting greeting = greeting_of(stream);
  rdma_conn_param param = parameters(greeting);
  if (rdma_connect(stream.id, &param) != 0) end(stream, errno);
}

// The peer is gone; what it sent before lies in the completion queue still.
void drain(Stream& stream) {
  ibv_wc wc;
  while (stream.completions.take(wc)) take_completion(stream, wc);
  stream.peer_finished = true;
  end(stream, 0);
  rdma_disconnect(stream.id);
}

void take_event(Stream& stream, rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(stream.id, kResolveMs) != 0) end(stream, errno);
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      go_on_connecting(stream);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (stream.state != StreamState::kConnecting) break;
      // The passive side took the greeting with the request.
      if (!stream.greeted && !take_greeting(stream, event)) {
        end(stream, EPROTO);
        rdma_disconnect(stream.id);
      } else {
        establish(stream);
      }
      break;
    case RDMA_CM_EVENT_REJECTED:
      end(stream, ECONNREFUSED);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      drain(stream);
      break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      break;
    default:
      end(stream, event.status < 0 ? -event.status : ETIMEDOUT);
      break;
  }
}

// A new id of the stream's. 0 or errno.
int give_id(Stream& stream) {
  if (rdma_create_id(stream.channel, &stream.id, &stream, RDMA_PS_TCP) != 0) return errno;
  uint8_t timeout = kAckTimeout;
  rdma_set_option(stream.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1);
  return 0;
}

// The queue pair and what it works with.
void drop_connection(Stream& stream) {
  if (stream.id != nullptr && stream.id->qp != nullptr) rdma_destroy_qp(stream.id);
  stream.completions.close();
  for (ibv_mr** mr : {&stream.received_mr, &stream.slots_mr, &stream.board_mr}) {
    if (*mr != nullptr) ibv_dereg_mr(*mr);
    *mr = nullptr;
  }
}

void drop_requests(Stream& stream) {
  for (rdma_cm_event* request : stream.requests) {
    rdma_cm_id* child = request->id;
    rdma_ack_cm_event(request);
    rdma_destroy_id(child);
  }
  stream.requests.clear();
}

}  // namespace

Stream::~Stream() {
  drop_requests(*this);
  drop_connection(*this);
  for (const OwnMapping& each : own_mappings) ibv_dereg_mr(each.mr);
  if (id != nullptr) rdma_destroy_id(id);
  if (channel != nullptr) rdma_destroy_event_channel(channel);
}

int open_stream(Stream& stream, rdma_cm_id* id) {
  if (int error = stream.open(); error != 0) return error;
  stream.channel = rdma_create_event_channel();
  if (stream.channel == nullptr) return errno;
  if (int error = stream.watch(stream.channel->fd); error != 0) return error;
  stream.id = id;
  if (id == nullptr) return give_id(stream);
  return rdma_migrate_id(id, stream.channel) != 0 ? errno : 0;
}

int renew(Stream& stream) {
  drop_requests(stream);
  drop_connection(stream);
  const Id& former = *of(stream.id);
  const uint8_t tos = former.tos;
  const bool reuse = former.reuse, one_family = former.one_family;
  sockaddr_storage own{};
  memcpy(&own, &stream.id->route.addr.src_storage, sizeof own);
  rdma_destroy_id(stream.id);
  stream.id = nullptr;
  stream.free_slots.clear();
  stream.error = 0;
  stream.greeted = false;
  stream.state = StreamState::kFresh;
  if (int error = give_id(stream); error != 0) return error;
  Id& fresh = *of(stream.id);
  fresh.tos = tos;
  fresh.reuse = reuse;
  fresh.one_family = one_family;
  auto* again = reinterpret_cast<sockaddr*>(&own);
  return stream.bound && rdma_bind_addr(stream.id, again) != 0 ? errno : 0;
}

int accept_stream(Stream& stream, rdma_cm_event* request) {
  rdma_cm_id* child = request->id;
  const bool known = take_greeting(stream, *request);
  rdma_ack_cm_event(request);
  int error = open_stream(stream, child);
  if (stream.id == nullptr) stream.id = child;
  if (error == 0 && !known) error = EPROTO;
  if (error == 0) error = prepare(stream);
  if (error == 0) {
    const Greeting greeting = greeting_of(stream);
    rdma_conn_param param = parameters(greeting);
    stream.state = StreamState::kConnecting;
    if (rdma_accept(child, &param) != 0) error = errno;
  }
  if (error != 0) rdma_reject(child, nullptr, 0);
  return error;
}

void Stream::take_all() {
  rdma_cm_event* event = nullptr;
  while (channel != nullptr && rdma_get_cm_event(channel, &event) == 0) {
    ++version_;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      requests.push_back(event);
      continue;
    }
    take_event(*this, *event);
    rdma_ack_cm_event(event);
  }
  ibv_wc wc;
  while (completions.take(wc)) {
    ++version_;
    take_completion(*this, wc);
  }
  give_back(*this);
  tell_mappings(*this);
  say_end(*this);
}

void Stream::arm() {
  completions.arm();
}

void establish(Stream& stream) {
  stream.state = StreamState::kConnected;
  stream.was_connected = true;
}

void end(Stream& stream, int error) {
  if (stream.state == StreamState::kEnded) return;
  stream.state = StreamState::kEnded;
  stream.error = error;
  stream.wake();
}

void say_end(Stream& stream) {
  if (stream.state != StreamState::kConnected || !stream.finished || stream.parted ||
      stream.control >= kControlMessages)
    return;
  if (stream.read_shut) {
    stream.parted = true;
    say(stream, kDisconnect);
  } else if (!stream.told_finished) {
    stream.told_finished = true;
    say(stream, kShutdown);
  }
}

}  // namespace verbena::rdmacm
