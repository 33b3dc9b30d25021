// States and queues: flushing, draining, send errors, shared receive queues, overrun completion
// queues, events.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(State, PostingNeedsTheRightState) {
  Rig rig({.state = QpState::kInit});
  EXPECT_EQ(rig.send(10), EINVAL);
  EXPECT_EQ(rig.post_recv(1, {rig.sge(0, 10)}), 0);
  Rig rtr({.state = QpState::kRtr});
  EXPECT_EQ(rtr.send(10), EINVAL);
  ASSERT_TRUE(rtr.modify(rtr.qp, QpState::kReset));
  EXPECT_EQ(rtr.post_recv(1, {rtr.sge(0, 10)}), EINVAL);
}

TEST(State, FullQueuesAreEnomem) {
  Rig rig({.work_requests = 2});
  EXPECT_EQ(rig.send(10), 0);
  EXPECT_EQ(rig.send(10), 0);
  EXPECT_EQ(rig.send(10), ENOMEM);
  EXPECT_EQ(rig.post_recv(1, {}), 0);
  EXPECT_EQ(rig.post_recv(1, {}), 0);
  EXPECT_EQ(rig.post_recv(1, {}), ENOMEM);
  rig.transmit();
  rig.ack(100);
  EXPECT_EQ(rig.send(10), 0) << "an acknowledged request frees its slot";
}

TEST(State, TooManySgesAreRefused) {
  Rig rig({.sges = 1});
  EXPECT_EQ(rig.post(rig.request(WrOpcode::kSend, {rig.sge(0, 1), rig.sge(1, 1)})), EINVAL);
  EXPECT_EQ(rig.post_recv(1, {rig.sge(0, 1), rig.sge(1, 1)}), EINVAL);
}

TEST(State, InlineLimits) {
  Rig rig({.sges = 1, .inline_bytes = 4});
  EXPECT_EQ(rig.post(rig.request(WrOpcode::kSend, {rig.sge(0, 1), rig.sge(1, 1)}, kInline)), EINVAL)
      << "max_send_sge counts for inline data too";
  EXPECT_EQ(rig.post(rig.request(WrOpcode::kSend, {rig.sge(0, 5)}, kInline)), EINVAL);
  EXPECT_EQ(rig.post(rig.request(WrOpcode::kSend, {rig.sge(0, 4)}, kInline)), 0);
  auto atomic_write = [&] {
    return rig.remote(WrOpcode::kAtomicWrite, {rig.sge(0, 8)}, 0x10000, 0x77, kInline);
  };
  EXPECT_EQ(rig.post(atomic_write()), EINVAL);
  QpInit init = rig.qp->init();
  init.send.inline_bytes = 0;
  init.send.atomic_write = true;
  QueuePair* other = *rig.device.create_qp(init);
  rig.options.state = QpState::kRts;
  for (QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts})
    ASSERT_TRUE(rig.modify(other, to));
  EXPECT_EQ(other->post_send(rig.now, atomic_write()), 0);
  EXPECT_EQ(other->post_send(rig.now, rig.request(WrOpcode::kSend, {rig.sge(0, 8)}, kInline)),
            EINVAL)
      << "the 8 bytes of ATOMIC WRITE are not the caller's";
}

TEST(State, EverythingPostedInErrorFlushes) {
  Rig rig;
  rig.post_recv(7, {rig.sge(0, 10)});
  rig.send(10);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:WR_FLUSH_ERR"));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("7:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.send(10, 0), 0);
  EXPECT_EQ(rig.post_recv(8, {rig.sge(0, 10)}), 0);
  rig.transmit();
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("2:WR_FLUSH_ERR"));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("8:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.counters().req_cqe_flush_error, 2u);
  EXPECT_EQ(rig.counters().resp_cqe_flush_error, 2u);
}

TEST(State, HalfAReceivedMessageFlushesFirst) {
  Rig rig;
  rig.post_recv(7, {rig.sge(0, 1000)});
  rig.post_recv(8, {rig.sge(0, 1000)});
  rig.receive(rig.packet(Opcode::kRcSendFirst, 200), bytes(256));
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("7:WR_FLUSH_ERR", "8:WR_FLUSH_ERR"));
}

TEST(State, ResetForgetsEverythingAndStartsAnew) {
  Rig rig;
  rig.post_recv(7, {rig.sge(0, 10)});
  rig.send(10);
  rig.transmit();
  rig.ack(100);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kReset));
  EXPECT_THAT(rig.poll_send(), IsEmpty()) << "its completions go with it";
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  for (QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts})
    ASSERT_TRUE(rig.modify(rig.qp, to));
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 100"));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(4));
  EXPECT_EQ(rig.transmit()[0].syndrome() & 0xe0, 0x20) << "the old receive is gone";
}

// --- SQD

Result<void> drain(Rig& rig) {
  QpAttributes a;
  a.state = QpState::kSqd;
  a.sqd_async_notify = true;
  return rig.qp->modify(rig.now, a, kAttrState | kAttrEnSqdAsyncNotify);
}

TEST(State, SendQueueDrainsWhatHasStarted) {
  Rig rig;
  rig.send(600);
  rig.sink.room = 1;
  rig.device.transmit(rig.now, rig.sink);
  rig.sink.room = UINT32_MAX;
  ASSERT_TRUE(drain(rig));
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_MIDDLE 101", "RC_SEND_LAST 102"));
  EXPECT_THAT(rig.take_async(), IsEmpty());
  rig.ack(102);
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kSqDrained));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.post_recv(1, {rig.sge(0, 10)});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(4));
  EXPECT_THAT(rig.transmit(), SizeIs(1)) << "receiving goes on in SQD";
  QpAttributes a;
  a.state = QpState::kRts;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 103"));
}

TEST(State, IdleSendQueueIsDrainedAtOnce) {
  Rig rig;
  ASSERT_TRUE(drain(rig));
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kSqDrained));
}

TEST(State, DrainingIsToldOnlyToThoseWhoAsked) {
  Rig rig;
  QpAttributes a;
  ASSERT_TRUE(drain(rig));
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kSqDrained));
  EXPECT_FALSE(rig.qp->attributes().sqd_async_notify);
  a.state = QpState::kRts;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState));
  a.state = QpState::kSqd;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState));
  EXPECT_THAT(rig.take_async(), IsEmpty());

  Rig busy;  // asked for once, never told, not asked for again
  busy.send(10);
  busy.transmit();
  ASSERT_TRUE(drain(busy));
  a.state = QpState::kRts;
  ASSERT_TRUE(busy.qp->modify(busy.now, a, kAttrState));
  a.state = QpState::kSqd;
  ASSERT_TRUE(busy.qp->modify(busy.now, a, kAttrState));
  busy.ack(100);
  EXPECT_THAT(busy.take_async(), IsEmpty());
}

TEST(State, AnotherRoadIsRefusedOncePacketsCanFlow) {
  Rig rig;
  ASSERT_TRUE(drain(rig));
  QpAttributes a;
  a.state = QpState::kSqd;
  a.route = rig.route;
  a.path = Path::kLocal;
  auto moved = rig.qp->modify(rig.now, a, kAttrState | kAttrAv);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, EINVAL);
  EXPECT_THAT(moved.error().message, HasSubstr("IBV_QP_AV leads over another road"));
  a.path = rig.qp->attributes().path;
  a.route.hop_limit = 9;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState | kAttrAv));
  EXPECT_EQ(rig.qp->attributes().route.hop_limit, 9);
}

TEST(State, ResponderDepthMayChangeInSqdWithoutForgetting) {
  Rig rig;
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 201, 64, 5));
  rig.sink.room = 1;
  rig.device.transmit(rig.now, rig.sink);
  rig.sink.room = UINT32_MAX;
  ASSERT_TRUE(drain(rig));
  QpAttributes a;
  a.state = QpState::kSqd;
  a.max_dest_rd_atomic = 1;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState | kAttrMaxDestRdAtomic));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ATOMIC_ACKNOWLEDGE 201"));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 201, 64, 5));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ATOMIC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].header.atomic_original, 5u);
}

// --- SQE

TEST(State, DatagramSendErrorStopsOnlySending) {
  Rig rig({.type = QpType::kUd});
  Sge bad = rig.sge(0, 10);
  bad.lkey ^= 1;
  rig.post(rig.request(WrOpcode::kSend, {bad}));
  rig.send(10);
  rig.post_recv(5, {rig.sge(0, 200)});
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:LOC_PROT_ERR", "2:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kSqe);
  rig.send(10);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("3:WR_FLUSH_ERR"));
  wire::Packet p = rig.packet(Opcode::kUdSendOnly, 1);
  p.deth = {0x1111, 9};
  rig.receive(p, bytes(8));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:SUCCESS"));
  QpAttributes a;
  a.state = QpState::kRts;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState));
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("UD_SEND_ONLY 100"));
}

TEST(State, UcSendErrorIsSqeToo) {
  Rig rig({.type = QpType::kUc});
  Sge bad = rig.sge(0, 10);
  bad.lkey ^= 1;
  rig.post(rig.request(WrOpcode::kSend, {bad}));
  rig.transmit();
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:LOC_PROT_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kSqe);
  QpAttributes a;
  a.state = QpState::kRts;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, kAttrState));
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("UC_SEND_ONLY 100"));
}

// --- shared receive queues

TEST(State, SharedReceiveQueueLimitFiresOnce) {
  Rig rig({.use_srq = true});
  for (uint64_t i = 0; i < 4; ++i) rig.srq->queue.push(i, std::vector<Sge>{rig.sge(0, 16)});
  rig.srq->limit = 3;
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200), bytes(4));  // 3 left: not below
  EXPECT_THAT(rig.take_async(), IsEmpty());
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201), bytes(4));
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kSrqLimitReached));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202), bytes(4));
  EXPECT_THAT(rig.take_async(), IsEmpty());
  EXPECT_EQ(rig.srq->limit, 0u);
}

TEST(State, SharedReceivesAreNotFlushedButTheLastOneIsTold) {
  Rig rig({.use_srq = true});
  for (uint64_t i = 0; i < 3; ++i) rig.srq->queue.push(i, std::vector<Sge>{rig.sge(0, 1000)});
  rig.receive(rig.packet(Opcode::kRcSendFirst, 200), bytes(256));
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("0:WR_FLUSH_ERR")) << "the taken one";
  EXPECT_EQ(rig.srq->queue.size(), 2u);
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kQpLastWqeReached));
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  rig.transmit();
  EXPECT_THAT(rig.take_async(), IsEmpty());
  EXPECT_EQ(rig.post_recv(1, {}), EINVAL);
}

// --- completion queues

TEST(State, OverrunCompletionQueueTakesItsQueuePairsAlong) {
  Rig rig({.cqe = 2});
  for (int i = 0; i < 4; ++i) rig.send(10);
  rig.transmit();
  rig.ack(103);
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kCqErr, AsyncType::kQpFatal));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
  EXPECT_TRUE(rig.send_cq->overrun());
  EXPECT_GE(rig.counters().cq_overrun, 1u);
}

TEST(State, SolicitedArmFiresForSolicitedAndForErrors) {
  auto notified = [](Rig& rig) {
    size_t count = 0;
    for (const Event& event : rig.take_events()) count += event.kind == Event::kCompletion;
    return count;
  };
  Rig rig;
  for (uint64_t i = 0; i < 6; ++i) rig.post_recv(i, {rig.sge(0, 16)});
  rig.receive_cq->arm(true);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200), bytes(4));
  EXPECT_EQ(notified(rig), 0u);
  wire::Packet solicited = rig.packet(Opcode::kRcSendOnly, 201);
  solicited.solicited = true;
  rig.receive(solicited, bytes(4));
  EXPECT_EQ(notified(rig), 1u);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202), bytes(4));
  EXPECT_EQ(notified(rig), 0u) << "one shot";
  rig.poll_receive();
  rig.receive_cq->arm(false);
  rig.receive_cq->arm(true);  // "any" was asked for and stays
  rig.receive(rig.packet(Opcode::kRcSendOnly, 203), bytes(4));
  EXPECT_EQ(notified(rig), 1u);
  rig.receive_cq->arm(true);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_EQ(notified(rig), 1u) << "an error counts as solicited";
}

TEST(State, ArmingTellsOfWhatNoEventToldOf) {
  CompletionQueue cq(4);
  const WorkCompletion c;
  EXPECT_FALSE(cq.arm(false)) << "nothing waits";
  ASSERT_TRUE(cq.push(c));
  EXPECT_TRUE(cq.take_event(false));
  EXPECT_FALSE(cq.arm(false)) << "what waits was told of";
  cq.pop();
  ASSERT_TRUE(cq.push(c));
  EXPECT_TRUE(cq.take_event(false)) << "and the queue stayed armed";

  ASSERT_TRUE(cq.push(c));
  EXPECT_FALSE(cq.take_event(false)) << "one shot";
  EXPECT_FALSE(cq.arm(true)) << "nothing solicited came";
  EXPECT_TRUE(cq.arm(false));
  EXPECT_FALSE(cq.arm(false)) << "once";
  EXPECT_TRUE(cq.take_event(false)) << "and armed again by the second call";

  ASSERT_TRUE(cq.push(c));
  EXPECT_FALSE(cq.take_event(true));
  while (cq.front()) cq.pop();
  EXPECT_FALSE(cq.arm(false)) << "it was polled";
}

TEST(State, ResizedCompletionQueueKeepsWhatWaits) {
  CompletionQueue cq(4);
  WorkCompletion c;
  for (c.wr_id = 1; c.wr_id <= 3; ++c.wr_id) ASSERT_TRUE(cq.push(c));
  cq.pop();
  for (c.wr_id = 4; c.wr_id <= 5; ++c.wr_id) ASSERT_TRUE(cq.push(c));
  EXPECT_FALSE(cq.resize(3));
  ASSERT_TRUE(cq.resize(5));
  c.wr_id = 6;
  ASSERT_TRUE(cq.push(c));
  WorkCompletion out[8];
  ASSERT_EQ(cq.pop(out, 8), 5u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(out[i].wr_id, i + 2);
}

TEST(State, CompletionQueueForgetsOneQueuePair) {
  CompletionQueue cq(8);
  WorkCompletion c;
  for (c.wr_id = 1; c.wr_id <= 6; ++c.wr_id) {
    c.qp_num = c.wr_id % 2 ? 7 : 8;
    cq.push(c);
  }
  cq.forget(7);
  WorkCompletion out[8];
  ASSERT_EQ(cq.pop(out, 8), 3u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(out[i].wr_id, 2 * (i + 1));
}

// --- devices

TEST(State, QueuePairNumbersAreNotReusedSoon) {
  Rig rig;
  uint32_t first = rig.qp->qpn();
  rig.device.destroy_qp(rig.qp);
  for (int i = 0; i < 100; ++i) {
    QueuePair* qp = rig.make(rig.options);
    EXPECT_NE(qp->qpn(), first);
    rig.device.destroy_qp(qp);
  }
  rig.qp = rig.make(rig.options);
}

TEST(State, OneRefusedQueuePairDoesNotStopTheOthers) {
  class Picky : public PacketSink {
   public:
    bool send(const TxPacket& packet) override {
      if (packet.source_qpn == refused) return false;
      ++taken;
      return true;
    }
    uint32_t refused = 0, taken = 0;
  };
  Rig rig;
  QueuePair* other = rig.make(rig.options);
  rig.send(10);
  auto request = rig.request(WrOpcode::kSend, {rig.sge(0, 10)});
  other->post_send(rig.now, request);
  Picky sink;
  sink.refused = rig.qp->qpn();
  EXPECT_EQ(rig.device.transmit(rig.now, sink), TransmitResult::kBlocked);
  EXPECT_EQ(sink.taken, 1u);
  sink.refused = 0;
  EXPECT_EQ(rig.device.transmit(rig.now, sink), TransmitResult::kIdle);
  EXPECT_EQ(sink.taken, 2u);
}

TEST(State, TransmitKeepsToItsBudget) {
  Rig rig;
  rig.send(100 * 256);
  EXPECT_EQ(rig.device.transmit(rig.now, rig.sink, 10), TransmitResult::kMore);
  EXPECT_THAT(rig.sink.sent, SizeIs(10));
}

TEST(State, TimersFireInTheirOrder) {
  Rig rig({.timeout = 12});
  std::vector<QueuePair*> qps;
  RigOptions options = rig.options;
  for (uint8_t timeout : {9, 14, 8, 13, 10, 15, 11}) {
    options.timeout = timeout;
    qps.push_back(rig.make(options));
    auto request = rig.request(WrOpcode::kSend, {rig.sge(0, 10)});
    qps.back()->post_send(rig.now, request);
  }
  rig.transmit();
  Instant start = rig.now;
  for (uint8_t timeout = 8; timeout <= 15; ++timeout) {
    if (timeout == 12) continue;
    EXPECT_EQ(rig.device.next_deadline(), start + ack_timeout(timeout)) << int{timeout};
    for (QueuePair*& qp : qps) {
      if (!qp || qp->attributes().timeout != timeout) continue;
      rig.device.destroy_qp(qp);
      qp = nullptr;
    }
  }
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

// --- query_qp

TEST(State, QueriedPsnsAreTheNextOnes) {
  Rig rig;
  EXPECT_EQ(rig.qp->current_attributes().sq_psn, 100u);
  EXPECT_EQ(rig.qp->current_attributes().rq_psn, 200u);
  rig.send(600);  // three packets
  rig.transmit();
  rig.post_recv(1, {rig.sge(0, 10)});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(4));
  EXPECT_EQ(rig.qp->current_attributes().sq_psn, 103u);
  EXPECT_EQ(rig.qp->current_attributes().rq_psn, 201u);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_EQ(rig.qp->current_attributes().sq_psn, 103u);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kReset));
  EXPECT_EQ(rig.qp->current_attributes().sq_psn, 0u);
  Rig rtr({.state = QpState::kRtr});
  EXPECT_EQ(rtr.qp->current_attributes().sq_psn, 0u);
  EXPECT_EQ(rtr.qp->current_attributes().rq_psn, 200u);
  Rig ud({.type = QpType::kUd});
  ud.send(10);
  ud.transmit();
  EXPECT_EQ(ud.qp->current_attributes().sq_psn, 101u);
}

// --- fork

TEST(State, AnAbandonedQueuePairStaysInErrorAndFlushes) {
  Rig rig;
  rig.send(10);  // on the ready list at the moment of the fork
  rig.device.abandon_queue_pairs();
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(rig.poll_send(), IsEmpty()) << "that was the parent's request";
  rig.post_recv(7, {rig.sge(0, 10)});
  rig.transmit();
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("7:WR_FLUSH_ERR"));
  rig.post_recv(8, {rig.sge(0, 10)});
  rig.qp->flush_posted(rig.now);
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("8:WR_FLUSH_ERR"));
  auto done = rig.modify(rig.qp, QpState::kReset);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EIO);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

}  // namespace
}  // namespace verbena::engine::test
