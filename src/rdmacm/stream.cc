// A stream's life: made, connected by the events of its id, waited for, ended.
#include "rdmacm/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>

#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr uint8_t kAckTimeout = 14;  // 67 ms
constexpr uint32_t kSlots = kReceiveSlots + kSendSlots;

int watch(Stream& stream, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) return errno;
  return epoll_ctl(stream.fd, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
}

void end(Stream& stream, int error) {
  if (stream.state == StreamState::kEnded) return;
  stream.state = StreamState::kEnded;
  stream.error = error;
}

rdma_conn_param parameters(const Greeting& greeting) {
  rdma_conn_param param{};
  param.private_data = &greeting;
  param.private_data_len = sizeof greeting;
  param.retry_count = param.rnr_retry_count = 7;
  param.flow_control = 1;
  return param;
}

bool take_greeting(Stream& stream, const rdma_cm_event& event) {
  Greeting theirs, ours;
  const rdma_conn_param& conn = event.param.conn;
  if (conn.private_data == nullptr || conn.private_data_len < sizeof theirs) return false;
  memcpy(&theirs, conn.private_data, sizeof theirs);
  if (memcmp(theirs.magic, ours.magic, sizeof ours.magic) != 0 || theirs.version != ours.version)
    return false;
  stream.credits = theirs.credits;
  return theirs.credits > 1;
}

void go_on_connecting(Stream& stream) {
  int error = prepare(stream);
  const Greeting greeting;
  rdma_conn_param param = parameters(greeting);
  if (error == 0 && rdma_connect(stream.id, &param) != 0) error = errno;
  if (error != 0) end(stream, error);
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
      if (stream.credits == 0 && !take_greeting(stream, event)) {
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

int prepare(Stream& stream) {
  ibv_context* context = stream.id->verbs;
  stream.memory.reset(new uint8_t[size_t{kSlots} * kSlotBytes]);
  stream.mr = ibv_reg_mr(stream.id->pd, stream.memory.get(), size_t{kSlots} * kSlotBytes,
                         int{IBV_ACCESS_LOCAL_WRITE});
  stream.completions = ibv_create_comp_channel(context);
  if (stream.mr == nullptr || stream.completions == nullptr) return errno;
  stream.cq = ibv_create_cq(context, kSlots + kControlMessages, nullptr, stream.completions, 0);
  if (stream.cq == nullptr) return errno;
  if (int error = watch(stream, stream.completions->fd); error != 0) return error;
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = stream.cq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap.max_send_wr = kSendSlots + kControlMessages;
  attr.cap.max_recv_wr = kReceiveSlots;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  if (rdma_create_qp(stream.id, nullptr, &attr) != 0) return errno;
  for (uint32_t slot = 0; slot < kReceiveSlots; ++slot) post_receive(stream, slot);
  for (uint32_t slot = kReceiveSlots; slot < kSlots; ++slot) stream.free_slots.push_back(slot);
  return 0;
}

int accept_stream(Stream& stream, rdma_cm_event* request) {
  rdma_cm_id* child = request->id;
  const bool known = take_greeting(stream, *request);
  rdma_ack_cm_event(request);
  int error = open_stream(stream, child);
  if (stream.id == nullptr) stream.id = child;
  if (error == 0 && !known) error = EPROTO;
  if (error == 0) error = prepare(stream);
  const Greeting greeting;
  rdma_conn_param param = parameters(greeting);
  stream.state = StreamState::kConnecting;
  if (error == 0 && rdma_accept(child, &param) != 0) error = errno;
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
    take_event(stream, *event);
    rdma_ack_cm_event(event);
  }
  ibv_wc wc;
  while (stream.cq != nullptr && ibv_poll_cq(stream.cq, 1, &wc) > 0) {
    ++stream.version;
    take_completion(stream, wc);
  }
  give_back_credits(stream);
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

void finish(Stream& stream) {
  if (stream.finished || stream.state != StreamState::kConnected) return;
  if (stream.credits == 0 || stream.control >= kControlMessages) return;
  stream.finished = true;
  say(stream, kFinished);
}

}  // namespace verbena::rdmacm
