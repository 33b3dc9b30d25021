// A stream's life: made, connected by the events of its id, waited for, ended.
#include "rdmacm/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr uint8_t kAckTimeout = 14;  // 67 ms

int watch(Stream& stream, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) return errno;
  return epoll_ctl(stream.fd, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
}

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
  while (stream.cq != nullptr && ibv_poll_cq(stream.cq, 1, &wc) > 0) take_completion(stream, wc);
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
        stream.state = StreamState::kConnected;
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

// A client that asked gave up before it was accepted: its request goes, the listener stays.
void take_event_of_request(Stream& listener, rdma_cm_event* event) {
  rdma_cm_id* child = event->id;
  const bool over = event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT;
  rdma_ack_cm_event(event);
  auto& requests = listener.requests;
  auto request = std::find_if(requests.begin(), requests.end(),
                              [child](rdma_cm_event* each) { return each->id == child; });
  if (!over || request == requests.end()) return;
  rdma_ack_cm_event(*request);
  requests.erase(request);
  rdma_destroy_id(child);
}

}  // namespace

Stream::~Stream() {
  for (rdma_cm_event* request : requests) {
    rdma_cm_id* child = request->id;
    rdma_ack_cm_event(request);
    rdma_destroy_id(child);
  }
  if (id != nullptr && id->qp != nullptr) rdma_destroy_qp(id);
  if (cq != nullptr) ibv_destroy_cq(cq);
  if (completions != nullptr) ibv_destroy_comp_channel(completions);
  for (const OwnMapping& each : own_mappings) ibv_dereg_mr(each.mr);
  for (ibv_mr* mr : {received_mr, slots_mr, board_mr})
    if (mr != nullptr) ibv_dereg_mr(mr);
  if (id != nullptr) rdma_destroy_id(id);
  if (channel != nullptr) rdma_destroy_event_channel(channel);
  if (fd >= 0) close(fd);
}

int open_stream(Stream& stream, rdma_cm_id* id) {
  stream.fd = epoll_create1(EPOLL_CLOEXEC);
  if (stream.fd < 0) return errno;
  stream.channel = rdma_create_event_channel();
  if (stream.channel == nullptr) return errno;
  if (int error = watch(stream, stream.channel->fd); error != 0) return error;
  stream.id = id;
  if (id == nullptr) {
    if (rdma_create_id(stream.channel, &stream.id, &stream, RDMA_PS_TCP) != 0) return errno;
    uint8_t timeout = kAckTimeout;
    rdma_set_option(stream.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1);
  } else if (rdma_migrate_id(id, stream.channel) != 0) {
    return errno;
  }
  return 0;
}

int watch_completions(Stream& stream, uint32_t entries) {
  stream.completions = ibv_create_comp_channel(stream.id->verbs);
  if (stream.completions == nullptr) return errno;
  stream.cq =
      ibv_create_cq(stream.id->verbs, static_cast<int>(entries), nullptr, stream.completions, 0);
  if (stream.cq == nullptr) return errno;
  return watch(stream, stream.completions->fd);
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

void progress(Stream& stream) {
  rdma_cm_event* event = nullptr;
  while (stream.channel != nullptr && rdma_get_cm_event(stream.channel, &event) == 0) {
    ++stream.version;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      stream.requests.push_back(event);
      continue;
    }
    if (event->id != stream.id) {
      take_event_of_request(stream, event);
      continue;
    }
    take_event(stream, *event);
    rdma_ack_cm_event(event);
  }
  ibv_wc wc;
  while (stream.cq != nullptr && ibv_poll_cq(stream.cq, 1, &wc) > 0) {
    ++stream.version;
    take_completion(stream, wc);
  }
  give_back(stream);
  tell_mappings(stream);
  say_end(stream);
}

void arm(Stream& stream) {
  if (stream.cq == nullptr) return;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(stream.completions, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
  ibv_req_notify_cq(stream.cq, 0);
}

int wait(Stream& stream, Lease& lease) {
  constexpr auto kLookAgain = std::chrono::milliseconds(50);
  if (stream.watched) {
    stream.changed.wait_for(lease, kLookAgain);
    return 0;
  }
  const uint64_t seen = stream.version;
  arm(stream);
  progress(stream);
  if (stream.version != seen) return 0;
  stream.watched = true;
  lease.unlock();
  const int error = port().wait_readable(stream.fd);
  lease.lock();
  stream.watched = false;
  stream.changed.notify_all();
  return error;
}

void end(Stream& stream, int error) {
  if (stream.state == StreamState::kEnded) return;
  stream.state = StreamState::kEnded;
  stream.error = error;
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
