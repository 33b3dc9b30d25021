// Messages between two queue pairs of this process: every way to post, every way to reap.
#include <poll.h>

#include <thread>

#include "traffic_fixture.h"

namespace verbena::test {
namespace {

TEST_F(Traffic, SendWithImmediateAndInline) {
  make_rc_pair();
  post_receive(1, 4096, 100);
  char text[] = "inline bytes";
  ibv_sge from{reinterpret_cast<uint64_t>(text), sizeof text, 0};
  ibv_send_wr wr{.wr_id = 2,
                 .sg_list = &from,
                 .num_sge = 1,
                 .opcode = IBV_WR_SEND_WITH_IMM,
                 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
  wr.imm_data = 0x01020304;
  ibv_send_wr* bad;
  ASSERT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
  auto [sent, received] = reap_both();
  expect_success(sent, IBV_WC_SEND, 2);
  expect_success(received, IBV_WC_RECV, 1);
  EXPECT_EQ(received.byte_len, sizeof text);
  EXPECT_EQ(received.imm_data, 0x01020304u);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(received.qp_num, qp_[1]->qp_num);
  EXPECT_STREQ(reinterpret_cast<char*>(memory_ + 4096), text);
}

TEST_F(Traffic, ListStopsAtTheFirstError) {
  make_rc_pair();
  ibv_sge many[3] = {sge(0, 4), sge(4, 4), sge(8, 4)};
  ibv_send_wr second{.wr_id = 2, .sg_list = many, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE};
  ibv_send_wr first{.wr_id = 1,
                    .next = &second,
                    .sg_list = many,
                    .num_sge = 2,
                    .opcode = IBV_WR_RDMA_WRITE,
                    .send_flags = IBV_SEND_SIGNALED};
  first.wr.rdma = {address(4096), mr_->rkey};
  second.wr.rdma = first.wr.rdma;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp_[0], &first, &bad), EINVAL);
  EXPECT_EQ(bad, &second);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 1);
  second = {.wr_id = 3, .opcode = IBV_WR_TSO};
  EXPECT_EQ(ibv_post_send(qp_[0], &second, &bad), EOPNOTSUPP);
  second.opcode = IBV_WR_DRIVER1;
  EXPECT_EQ(ibv_post_send(qp_[0], &second, &bad), EOPNOTSUPP);
  second.opcode = static_cast<ibv_wr_opcode>(100);
  EXPECT_EQ(ibv_post_send(qp_[0], &second, &bad), EINVAL);
  second = {.wr_id = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM};
  EXPECT_EQ(ibv_post_send(qp_[0], &second, &bad), EOPNOTSUPP);
}

TEST_F(Traffic, WorkRequestCalls) {
  make_rc_pair();
  memcpy(memory_, "remote write", 13);
  begin(1);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 13);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 1);
  EXPECT_STREQ(reinterpret_cast<char*>(memory_ + 4096), "remote write");

  begin(2);
  ibv_wr_rdma_read(sender_, mr_->rkey, address(4096));
  ibv_sge list[2] = {sge(512, 6), sge(600, 7)};
  ibv_wr_set_sge_list(sender_, 2, list);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_RDMA_READ, 2);
  EXPECT_EQ(memcmp(memory_ + 512, "remote", 6), 0);
  EXPECT_EQ(memcmp(memory_ + 600, " write", 7), 0);

  uint64_t value = 40, result = 0;
  memcpy(memory_ + 4096, &value, 8);
  begin(3);
  ibv_wr_atomic_fetch_add(sender_, mr_->rkey, address(4096), 2);
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 8);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_FETCH_ADD, 3);
  memcpy(&result, memory_, 8);
  EXPECT_EQ(result, 40u);
  begin(4);
  ibv_wr_atomic_cmp_swp(sender_, mr_->rkey, address(4096), 42, 99);
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 8);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_COMP_SWAP, 4);
  memcpy(&result, memory_ + 4096, 8);
  EXPECT_EQ(result, 99u);

  value = 0x1122334455667788;
  begin(5);
  ibv_wr_atomic_write(sender_, mr_->rkey, address(4096), &value);
  value = 0;  // was copied
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_ATOMIC_WRITE, 5);
  memcpy(&result, memory_ + 4096, 8);
  EXPECT_EQ(result, 0x1122334455667788u);

  post_receive(6, 4096, 64);
  begin(7);
  ibv_wr_send(sender_);
  char parts[] = "abcdef";
  ibv_data_buf buffers[2] = {{parts, 3}, {parts + 3, 4}};
  ibv_wr_set_inline_data_list(sender_, 2, buffers);
  memset(parts, 'x', 6);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  auto [sent, received] = reap_both();
  expect_success(received, IBV_WC_RECV, 6);
  EXPECT_STREQ(reinterpret_cast<char*>(memory_ + 4096), "abcdef");
}

TEST_F(Traffic, BatchIsAllOrNothing) {
  make_rc_pair();
  begin(1);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_sge list[3] = {sge(0, 1), sge(1, 1), sge(2, 1)};
  ibv_wr_set_sge_list(sender_, 3, list);
  EXPECT_EQ(ibv_wr_complete(sender_), EINVAL);
  begin(2);
  for (int i = 0; i < 5; ++i) {
    ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
    ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  }
  EXPECT_EQ(ibv_wr_complete(sender_), ENOMEM) << "four fit";
  begin(3);
  char big[33] = {};
  ibv_wr_send(sender_);
  ibv_wr_set_inline_data(sender_, big, sizeof big);
  EXPECT_EQ(ibv_wr_complete(sender_), EINVAL);
  begin(4);
  ibv_wr_send_tso(sender_, big, 14, 1);
  EXPECT_EQ(ibv_wr_complete(sender_), EOPNOTSUPP);
  begin(5);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_abort(sender_);
  begin(6);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 6);  // and nothing of what failed
  begin(7);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ibv_wr_rdma_read(sender_, mr_->rkey, address(4096));
  ibv_wr_set_inline_data(sender_, big, 4);  // only the queue pair can tell: a READ is never inline
  EXPECT_EQ(ibv_wr_complete(sender_), EINVAL);
  begin(8);
  sender_->wr_flags = IBV_SEND_IP_CSUM;
  ibv_wr_send(sender_);
  EXPECT_EQ(ibv_wr_complete(sender_), EOPNOTSUPP);
  ibv_wc none;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &none), 0);
}

TEST_F(Traffic, ADatagramWithoutAnAddressSpoilsItsWholeBatch) {
  make_ud_pair();
  ibv_ah_attr to = to_self();
  ibv_ah* ah = ibv_create_ah(pd_, &to);
  begin(1);
  ibv_wr_send(sender_);
  ibv_wr_set_ud_addr(sender_, ah, qp_[1]->qp_num, kQkey);
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ibv_wr_send(sender_);  // and no address
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  EXPECT_EQ(ibv_wr_complete(sender_), EINVAL);
  ibv_wc none;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &none), 0) << "the first was not posted either";
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// ibv_query_qp tells the PSNs of now.
TEST_F(Traffic, QueriedPsnsMove) {
  make_rc_pair();
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_SQ_PSN, &init), 0);
  EXPECT_EQ(attr.sq_psn, 7u);
  begin(1);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 1);
  ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_SQ_PSN, &init), 0);
  EXPECT_EQ(attr.sq_psn, 8u);
  ASSERT_EQ(ibv_query_qp(qp_[1], &attr, IBV_QP_RQ_PSN, &init), 0);
  EXPECT_EQ(attr.rq_psn, 8u);
  EXPECT_EQ(attr.sq_psn, 7u);
}

TEST_F(Traffic, ExtendedPollReadsEverything) {
  make_rc_pair();
  ibv_values_ex before{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &before), 0);
  post_receive(1, 4096, 64);
  begin(2);
  ibv_wr_rdma_write_imm(sender_, mr_->rkey, address(4200), 0x0a0b0c0d);
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 5);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  int seen = 0;
  bool received = false;
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (seen < 2 && std::chrono::steady_clock::now() < until) {
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(cq_ex_, &attr)) continue;
    do {
      ++seen;
      EXPECT_EQ(cq_ex_->status, IBV_WC_SUCCESS);
      uint64_t ns = ibv_wc_read_completion_ts(cq_ex_);
      EXPECT_GE(ns, static_cast<uint64_t>(before.raw_clock.tv_sec * 1'000'000'000 +
                                          before.raw_clock.tv_nsec));
      auto wall = static_cast<int64_t>(ibv_wc_read_completion_wallclock_ns(cq_ex_));
      EXPECT_LT(std::abs(wall - std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count()),
                10'000'000'000);
      if (ibv_wc_read_opcode(cq_ex_) != IBV_WC_RECV_RDMA_WITH_IMM) continue;
      received = true;
      EXPECT_EQ(cq_ex_->wr_id, 1u);
      EXPECT_EQ(ibv_wc_read_imm_data(cq_ex_), 0x0a0b0c0du);
      EXPECT_EQ(ibv_wc_read_byte_len(cq_ex_), 5u);
      EXPECT_EQ(ibv_wc_read_qp_num(cq_ex_), qp_[1]->qp_num);
      EXPECT_EQ(ibv_wc_read_wc_flags(cq_ex_), unsigned{IBV_WC_WITH_IMM});
    } while (ibv_next_poll(cq_ex_) == 0);
    ibv_end_poll(cq_ex_);
  }
  EXPECT_EQ(seen, 2);
  EXPECT_TRUE(received);
}

TEST_F(Traffic, CompletionEvents) {
  make_rc_pair();
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  std::thread waiter([&] {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &user), 0);
    EXPECT_EQ(cq, cq_);
    EXPECT_EQ(user, this);
    ibv_ack_cq_events(cq, 1);
  });
  begin(1);
  ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  waiter.join();
  expect_success(reap(), IBV_WC_RDMA_WRITE, 1);
}

TEST_F(Traffic, DatagramsCarryTheirHeader) {
  make_ud_pair();
  ibv_ah_attr attr = to_self();
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_NE(ah, nullptr);
  post_receive(1, 4096, 128);
  memcpy(memory_, "datagram", 9);
  begin(2);
  ibv_wr_send_imm(sender_, 0x55);
  ibv_wr_set_ud_addr(sender_, ah, qp_[1]->qp_num, kQkey);
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 9);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  auto [sent, received] = reap_both();
  expect_success(sent, IBV_WC_SEND, 2);
  expect_success(received, IBV_WC_RECV, 1);
  EXPECT_EQ(received.byte_len, 49u);
  EXPECT_EQ(received.src_qp, qp_[0]->qp_num);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
  EXPECT_STREQ(reinterpret_cast<char*>(memory_ + 4096 + 40), "datagram");
  ibv_ah_attr back;
  ASSERT_EQ(ibv_init_ah_from_wc(context_, 1, &received, reinterpret_cast<ibv_grh*>(memory_ + 4096),
                                &back),
            0);
  EXPECT_EQ(memcmp(back.grh.dgid.raw, attr.grh.dgid.raw, 16), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Traffic, SrqLimitEvent) {
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {.max_wr = 4, .max_sge = 1};
  ibv_srq* srq = ibv_create_srq(pd_, &srq_attr);
  ASSERT_NE(srq, nullptr);
  qp_[0] = make(IBV_QPT_RC, kAllOperations);
  ibv_qp_init_attr attr = rc_attr(cq_);
  attr.srq = srq;
  qp_[1] = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp_[1], nullptr);
  connect(qp_[0], qp_[1]->qp_num);
  connect(qp_[1], qp_[0]->qp_num);
  sender_ = ibv_qp_to_qp_ex(qp_[0]);
  ibv_sge to = sge(4096, 16);
  for (uint64_t id = 0; id < 2; ++id) {
    ibv_recv_wr wr{.wr_id = id, .sg_list = &to, .num_sge = 1};
    ibv_recv_wr* bad;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  ibv_srq_attr limit{.srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  begin(9);
  ibv_wr_send(sender_);
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  reap_both();
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  std::thread acknowledger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ibv_ack_async_event(&event);
  });
  EXPECT_EQ(ibv_query_srq(srq, &limit), 0);
  EXPECT_EQ(limit.srq_limit, 0u) << "one shot";
  EXPECT_EQ(ibv_destroy_qp(qp_[1]), 0);
  qp_[1] = nullptr;
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20))
      << "waits for the acknowledgement";
  acknowledger.join();
}

TEST_F(Traffic, ResizeRefusesToDropCompletions) {
  make_rc_pair();
  for (uint64_t id = 1; id <= 3; ++id) {
    begin(id);
    ibv_wr_rdma_write(sender_, mr_->rkey, address(4096));
    ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
    ASSERT_EQ(ibv_wr_complete(sender_), 0);
  }
  // Drained: all three wait in the queue, and none comes while it is small.
  ibv_qp_attr drain{};
  drain.qp_state = IBV_QPS_SQD;
  drain.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(qp_[0], &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_resize_cq(cq_, 2), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_, 3), 0);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 1);
  EXPECT_EQ(ibv_resize_cq(cq_, 1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_, 2), 0);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 2);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 3);
}

TEST_F(Traffic, MulticastAttachments) {
  make_ud_pair();
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  const uint8_t ipv4[4] = {239, 1, 2, 3};
  memcpy(group.raw + 12, ipv4, 4);
  EXPECT_EQ(ibv_detach_mcast(qp_[1], &group, 0), EINVAL);
  ASSERT_EQ(ibv_attach_mcast(qp_[1], &group, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(qp_[1], &group, 0), 0) << "twice is once";
  EXPECT_EQ(ibv_destroy_qp(qp_[1]), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(qp_[1], &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(qp_[1], &group, 0), EINVAL);
  ibv_gid unicast{};
  unicast.raw[15] = 1;
  EXPECT_EQ(ibv_attach_mcast(qp_[1], &unicast, 0), EINVAL);
}

}  // namespace
}  // namespace verbena::test
