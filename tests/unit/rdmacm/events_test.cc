// Events of connections: what programs see, what happens to their queue pairs, who waits for whom.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "fake_port.h"

namespace verbena::test {
namespace {

class Events : public Rdmacm {
 protected:
  ibv_qp_attr query(rdma_cm_id* id) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, &init), 0);
    return attr;
  }
  rdma_cm_id* connecting() {
    rdma_cm_id* id = routed();
    add_qp(id);
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 4;
    param.retry_count = 6;
    EXPECT_EQ(rdma_connect(id, &param), 0);
    return id;
  }
  rdma_cm_id* listening(bool synchronous = false) {
    rdma_cm_id* id = make(RDMA_PS_TCP, synchronous);
    sockaddr_in own = ipv4("127.0.0.1", 7471);
    EXPECT_EQ(rdma_bind_addr(id, plain(own)), 0);
    EXPECT_EQ(rdma_listen(id, 0), 0);
    return id;
  }
  rdma_cm_id* request() {
    fake().emit_request();
    rdma_cm_id* child = take(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    ids_.push_back(child);
    return child;
  }
};

TEST_F(Events, a_response_brings_the_queue_pair_to_rts) {
  rdma_cm_id* id = connecting();
  fake().emit_response(id->qp->qp_num);
  rdma_cm_event* event = take(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(event->id, id);
  EXPECT_EQ(event->param.conn.private_data_len, 196);
  EXPECT_EQ(static_cast<const uint8_t*>(event->param.conn.private_data)[195], 0xab);
  EXPECT_EQ(event->param.conn.responder_resources, 3);
  EXPECT_EQ(event->param.conn.initiator_depth, 5);
  EXPECT_EQ(fake().calls.back(), "establish");
  const ibv_qp_attr attr = query(id);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.sq_psn, 0x123456u);  // where the peer said that we start
  EXPECT_EQ(attr.rq_psn, fake().request.qp.starting_psn);
  EXPECT_EQ(attr.max_dest_rd_atomic, 3);
  EXPECT_EQ(attr.max_rd_atomic, 5);
  EXPECT_EQ(attr.retry_cnt, 6);
  EXPECT_EQ(attr.rnr_retry, 6);
  EXPECT_EQ(attr.timeout, 17);
  EXPECT_EQ(attr.min_rnr_timer, 0);
  fake().emit(fake().event(cm::EventType::kEstablished));  // the echo of establish()
  EXPECT_TRUE(empty());
}

TEST_F(Events, without_a_queue_pair_the_program_answers_a_response) {
  rdma_cm_id* id = routed();
  rdma_conn_param param{};
  param.qp_num = 9;
  ASSERT_EQ(rdma_connect(id, &param), 0);
  fake().emit_response(0x55);
  take(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
  EXPECT_EQ(attr.dest_qp_num, 0x55u);
  EXPECT_NE(mask & IBV_QP_MAX_DEST_RD_ATOMIC, 0);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(rdma_establish(id), 0);
}

TEST_F(Events, attributes_before_there_is_a_peer) {
  rdma_cm_id* id = routed();
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
  EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_REFUSED(EINVAL, rdma_init_qp_attr(id, &attr, &mask));
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_REFUSED(EINVAL, rdma_init_qp_attr(id, &attr, &mask));
}

TEST_F(Events, a_rejection_shows_its_reason_and_data) {
  rdma_cm_id* id = connecting();
  cm::Event event = fake().event(cm::EventType::kRejected);
  event.status = 28;
  event.private_data.assign(148, 0x11);
  fake().emit(std::move(event));
  EXPECT_EQ(take(RDMA_CM_EVENT_REJECTED, 28)->param.conn.private_data_len, 148);
  EXPECT_EQ(query(id).qp_state, IBV_QPS_ERR);
}

TEST_F(Events, a_failed_transition_is_a_connect_error) {
  rdma_cm_id* id = connecting();
  fake().errors["establish"] = EINVAL;
  fake().emit_response(1);
  take(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  EXPECT_EQ(fake().reason, 28);
  EXPECT_EQ(query(id).qp_state, IBV_QPS_ERR);
}

TEST_F(Events, a_request_makes_a_child) {
  rdma_cm_id* listener = listening();
  fake().emit_request();
  rdma_cm_event* event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_id* child = event->id;
  ids_.push_back(child);
  EXPECT_EQ(event->listen_id, listener);
  EXPECT_NE(child, listener);
  EXPECT_EQ(child->context, listener->context);
  EXPECT_EQ(child->channel, channel_);
  EXPECT_NE(child->verbs, nullptr);
  EXPECT_EQ(event->param.conn.private_data_len, 56);
  EXPECT_EQ(event->param.conn.responder_resources, 3);
  EXPECT_EQ(event->param.conn.initiator_depth, 5);
  EXPECT_EQ(event->param.conn.qp_num, 0x77u);
  EXPECT_EQ(event->param.conn.retry_count, 4);
  EXPECT_EQ(ntohs(rdma_get_dst_port(child)), 1234);
  add_qp(child);
  uint8_t bytes[197] = {};
  rdma_conn_param param{};
  param.private_data = bytes;
  param.private_data_len = 197;
  EXPECT_REFUSED(EINVAL, rdma_accept(child, &param));
  param.private_data_len = 3;
  param.responder_resources = 2;
  param.initiator_depth = 1;
  param.rnr_retry_count = 7;
  ASSERT_EQ(rdma_accept(child, &param), 0);
  EXPECT_EQ(fake().data.size(), 3u);
  EXPECT_EQ(fake().accepted.qpn, child->qp->qp_num);
  EXPECT_EQ(fake().accepted.responder_resources, 2);
  EXPECT_EQ(fake().accepted.rnr_retry_count, 7);
  const ibv_qp_attr attr = query(child);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.max_rd_atomic, 1);
  EXPECT_EQ(attr.retry_cnt, 4);
  EXPECT_EQ(attr.rnr_retry, 2);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.sq_psn, 0x654321u);
  EXPECT_EQ(attr.rq_psn, fake().accepted.starting_psn);
  fake().emit(fake().event(cm::EventType::kEstablished));
  take(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_REFUSED(EINVAL, rdma_accept(child, &param));
}

TEST_F(Events, accept_without_parameters_takes_what_was_asked) {
  listening();
  rdma_cm_id* child = request();
  EXPECT_REFUSED(EINVAL, rdma_accept(child, nullptr));  // no queue pair either
  add_qp(child);
  ASSERT_EQ(rdma_accept(child, nullptr), 0);
  EXPECT_EQ(fake().accepted.responder_resources, 3);
  EXPECT_EQ(fake().accepted.initiator_depth, 5);
}

TEST_F(Events, a_queue_pair_of_the_programs_own_gets_the_announced_psn) {
  listening();
  rdma_cm_id* child = request();
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(child, &attr, &mask), 0);  // before the answer, as programs do
  rdma_conn_param param{};
  param.qp_num = 0x31;
  ASSERT_EQ(rdma_accept(child, &param), 0);
  EXPECT_EQ(attr.rq_psn, fake().accepted.starting_psn);
  EXPECT_NE(attr.rq_psn, 0u);
}

TEST_F(Events, a_rejected_request_cannot_be_accepted) {
  listening();
  rdma_cm_id* child = request();
  uint8_t bytes[149] = {};
  EXPECT_REFUSED(EINVAL, rdma_reject(child, bytes, 149));
  EXPECT_EQ(rdma_reject_ece(child, bytes, 148), 0);
  EXPECT_EQ(fake().reason, 35);
  EXPECT_REFUSED(EINVAL, rdma_reject(child, nullptr, 0));
  EXPECT_REFUSED(EINVAL, rdma_accept(child, nullptr));
}

TEST_F(Events, disconnect_ends_the_queue_pair) {
  rdma_cm_id* id = connecting();
  fake().emit_response(id->qp->qp_num);
  take(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(rdma_disconnect(id), 0);
  EXPECT_EQ(fake().calls.back(), "disconnect");
  EXPECT_EQ(query(id).qp_state, IBV_QPS_ERR);
  fake().emit(fake().event(cm::EventType::kDisconnected));
  take(RDMA_CM_EVENT_DISCONNECTED);
  fake().errors["disconnect"] = EINVAL;  // it is over: asking again is no error
  EXPECT_EQ(rdma_disconnect(id), 0);
  fake().emit(fake().event(cm::EventType::kTimewaitExit));
  take(RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST_F(Events, the_descriptor_follows_the_queue) {
  rdma_cm_event* event = nullptr;
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  EXPECT_REFUSED(EAGAIN, rdma_get_cm_event(channel_, &event));
  EXPECT_TRUE(empty());
  rdma_cm_id* id = connecting();
  fake().emit(fake().event(cm::EventType::kUnreachable));
  fake().emit(fake().event(cm::EventType::kTimewaitExit));
  EXPECT_FALSE(empty());
  take(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_FALSE(empty());
  take(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_TRUE(empty());
  EXPECT_EQ(id->channel, channel_);
}

TEST_F(Events, a_signal_ends_the_wait) {
  rdma_cm_event* event = nullptr;
  fake().wait_error = EINTR;
  EXPECT_REFUSED(EINTR, rdma_get_cm_event(channel_, &event));
}

TEST_F(Events, destroying_an_id_waits_for_acknowledgements) {
  rdma_cm_id* id = routed();
  fake().calls.clear();
  rdma_conn_param param{};
  ASSERT_EQ(rdma_connect(id, &param), 0);
  fake().emit(fake().event(cm::EventType::kUnreachable));
  take(RDMA_CM_EVENT_UNREACHABLE);
  std::atomic<bool> ended{false};
  std::thread thread([&] {
    destroy(id);
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ended);
  ack();
  thread.join();
  EXPECT_TRUE(ended);
}

// As on Linux: the request is told all the same, and rdma_accept says that it is over.
TEST_F(Events, a_request_that_was_given_up_before_its_answer) {
  listening();
  fake().emit_request();
  const auto give_up = [] {
    cm::Event event = fake().event(cm::EventType::kRejected);
    event.status = 4;
    fake().emit(std::move(event));
  };
  give_up();
  rdma_cm_id* child = take(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  ids_.push_back(child);
  EXPECT_TRUE(empty());
  add_qp(child);
  rdma_conn_param param{};
  fake().errors["accept"] = EINVAL;
  EXPECT_REFUSED(EINVAL, rdma_accept(child, &param));
  EXPECT_TRUE(empty());
  EXPECT_EQ(query(child).qp_state, IBV_QPS_ERR);

  fake().errors.clear();
  fake().emit_request();
  rdma_cm_id* other = take(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  ids_.push_back(other);
  add_qp(other);
  ASSERT_EQ(rdma_accept(other, &param), 0);
  give_up();
  EXPECT_EQ(take(RDMA_CM_EVENT_REJECTED, 4)->id, other) << "answered, it is told";
}

TEST_F(Events, a_listener_takes_its_unread_requests_along) {
  rdma_cm_id* listener = listening();
  fake().emit_request();
  const cm::Handle unread = fake().last;
  destroy(listener);
  ASSERT_EQ(fake().destroyed.size(), 1u);
  EXPECT_EQ(fake().destroyed[0], unread);
  EXPECT_TRUE(empty());
  fake().emit(fake().event(cm::EventType::kRejected));  // of nobody now
  EXPECT_TRUE(empty());
}

TEST_F(Events, synchronous_calls_wait_and_say_why_they_failed) {
  rdma_cm_id* id = routed(RDMA_PS_TCP, true);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param param{};
  std::thread peer([] {
    fake().await_connects(1);
    cm::Event event = fake().event(cm::EventType::kUnreachable);
    event.status = -ETIMEDOUT;
    fake().emit(std::move(event));
  });
  EXPECT_REFUSED(ETIMEDOUT, rdma_connect(id, &param));
  peer.join();
  std::thread again([] {
    fake().await_connects(2);
    cm::Event event = fake().event(cm::EventType::kRejected);
    event.status = 8;
    fake().emit(std::move(event));
  });
  EXPECT_REFUSED(ECONNREFUSED, rdma_connect(id, &param));
  again.join();
}

TEST_F(Events, get_request_gives_a_synchronous_child_with_its_queue_pair) {
  rdma_addrinfo hints{}, *info = nullptr;
  hints.ai_flags = RAI_PASSIVE;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  rdma_cm_id *listener = nullptr, *child = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, info, nullptr, &attr), 0);
  rdma_freeaddrinfo(info);
  ids_.push_back(listener);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  fake().emit_request();
  ASSERT_EQ(rdma_get_request(listener, &child), 0);
  ids_.push_back(child);
  EXPECT_NE(child->channel, listener->channel);
  ASSERT_NE(child->qp, nullptr);
  EXPECT_EQ(child->qp->qp_type, IBV_QPT_RC);
  EXPECT_EQ(child->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_REFUSED(EINVAL, rdma_get_request(make(), &child));
}

TEST_F(Events, migration_takes_waiting_events_along) {
  rdma_cm_id* id = connecting();
  fake().emit(fake().event(cm::EventType::kUnreachable));
  rdma_event_channel* other = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(id, other), 0);
  EXPECT_EQ(id->channel, other);
  EXPECT_TRUE(empty());
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(other, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_UNREACHABLE);
  rdma_ack_cm_event(event);
  ASSERT_EQ(rdma_migrate_id(id, nullptr), 0);  // synchronous now
  EXPECT_NE(id->channel, other);
  rdma_destroy_event_channel(other);
}

TEST_F(Events, migration_of_a_listener_takes_its_requests_along) {
  rdma_cm_id* listener = listening();
  rdma_event_channel* other = rdma_create_event_channel();
  fake().emit_request();
  ASSERT_EQ(rdma_migrate_id(listener, other), 0);
  EXPECT_TRUE(empty());
  rdma_cm_event* request = nullptr;
  ASSERT_EQ(rdma_get_cm_event(other, &request), 0);
  EXPECT_EQ(request->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->listen_id, listener);
  rdma_cm_id* child = request->id;
  EXPECT_EQ(child->channel, other);
  rdma_ack_cm_event(request);
  destroy(child);
  destroy(listener);
  rdma_destroy_event_channel(other);
}

TEST_F(Events, requests_of_a_synchronous_listener_cost_no_descriptor_before_they_are_taken) {
  rdma_cm_id *listener = listening(true), *child = nullptr;
  const size_t before = descriptors();
  for (int i = 0; i < 3; ++i) fake().emit_request();
  EXPECT_EQ(descriptors(), before);
  fake().wait_error = EINTR;  // after the last
  {
    NoDescriptors none;
    EXPECT_REFUSED(EINTR, rdma_get_request(listener, &child));
  }
  EXPECT_EQ(std::count(fake().calls.begin(), fake().calls.end(), "reject"), 3);
  EXPECT_EQ(fake().reason, 28);
  EXPECT_EQ(fake().destroyed.size(), 3u);
  EXPECT_EQ(descriptors(), before);
  fake().emit_request();
  ASSERT_EQ(rdma_get_request(listener, &child), 0);
  ids_.push_back(child);
  EXPECT_NE(child->channel, listener->channel);
  EXPECT_EQ(descriptors(), before + 1);
}

TEST_F(Events, a_destroyed_channel_wakes_nobody) {
  rdma_event_channel* channel = rdma_create_event_channel();
  std::atomic<bool> back{false};
  std::thread thread([&] {
    rdma_cm_event* event = nullptr;
    EXPECT_REFUSED(ETIME, rdma_get_cm_event(channel, &event));  // the fake's own limit, 2 s
    back = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  rdma_destroy_event_channel(channel);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(back);
  thread.join();
}

TEST_F(Events, a_forked_child_has_none_of_the_parents_events) {
  rdma_cm_id* id = connecting();
  fake().emit(fake().event(cm::EventType::kUnreachable));
  const pid_t pid = fork();
  if (pid == 0) {
    fake().fork_callback()();
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    rdma_cm_event* event = nullptr;
    const bool none = rdma_get_cm_event(channel_, &event) == -1 && errno == EAGAIN;
    fake().destroyed.clear();
    const bool quiet = rdma_destroy_id(id) == 0 && fake().destroyed.empty();
    _exit(none && quiet ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbena::test
