// Defects known from other stacks, family RNR: what is refused for want of a receive work request,
// how long the requester waits, and what such a wait costs. The table of all families is in
// known_defects_test.cc.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// --- responder

TEST(KnownRnr, WorkBehindARefusedSendIsExecutedTooEarly) {
  Rig rig;
  auto arrive = [&] {
    rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, 201, 5000, 8), bytes(8));
    rig.receive(rig.atomic(Opcode::kRcFetchAdd, 202, 64, 5));
    rig.receive(rig.read_request(203, 5000, 8));
  };
  arrive();
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x20 | 12);
  EXPECT_EQ(sent[0].header.aeth.msn, 0u);
  EXPECT_EQ(word(rig, 5000), 0u);
  EXPECT_EQ(word(rig, 64), 0u);
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  rig.post_recv(1, {rig.sge(1000, 16)});
  arrive();
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201", "RC_ATOMIC_ACKNOWLEDGE 202",
                                         "RC_READ_RESPONSE_ONLY 203"));
  EXPECT_EQ(sent[0].header.aeth.msn, 2u);
  EXPECT_EQ(sent[1].header.aeth.msn, 3u);
  EXPECT_EQ(sent[2].header.aeth.msn, 4u);
  EXPECT_EQ(sent[2].payload, bytes(8));
  EXPECT_EQ(word(rig, 64), 5u);
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS"));
}

TEST(KnownRnr, RestOfARefusedMessageDrawsSequenceNaks) {
  Rig rig;
  auto data = bytes(600);
  auto arrive = [&] {
    rig.receive(rig.packet(Opcode::kRcSendFirst, 200), {data.begin(), data.begin() + 256});
    rig.receive(rig.packet(Opcode::kRcSendMiddle, 201), {data.begin() + 256, data.begin() + 512});
    rig.receive(rig.packet(Opcode::kRcSendLast, 202, true), {data.begin() + 512, data.end()});
    return rig.transmit();
  };
  auto sent = arrive();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x20 | 12);
  rig.post_recv(1, {rig.sge(0, 1000)});
  sent = arrive();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 600u);
  EXPECT_EQ(std::memcmp(rig.memory, data.data(), 600), 0);
}

TEST(KnownRnr, RefusalForgetsTheAcknowledgementBeforeIt) {
  Rig rig;
  rig.post_recv(1, {rig.sge(0, 16)});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201")) << "it acknowledges 200 as well";
  EXPECT_EQ(sent[0].syndrome(), 0x20 | 12);
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200")) << "a duplicate is still answered";
  EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  EXPECT_THAT(rig.poll_receive(), SizeIs(1));
}

TEST(KnownRnr, EmptySharedQueueIsAnErrorInsteadOfRnr) {
  for (QpType type : {QpType::kRc, QpType::kXrcRecv}) {
    bool xrc = type == QpType::kXrcRecv;
    Rig rig({.type = type, .use_srq = !xrc});
    Opcode send = xrc ? Opcode::kXrcSendOnly : Opcode::kRcSendOnly;
    rig.receive(rig.packet(send, 200, true), bytes(16));
    auto sent = rig.transmit();
    ASSERT_THAT(summary(sent), ElementsAre(xrc ? "XRC_ACKNOWLEDGE 200" : "RC_ACKNOWLEDGE 200"));
    EXPECT_EQ(sent[0].syndrome(), 0x20 | 12);
    EXPECT_THAT(rig.take_async(), IsEmpty());
    rig.srq->queue.push(9, std::vector<Sge>{rig.sge(0, 16)});
    rig.receive(rig.packet(send, 200, true), bytes(16));
    sent = rig.transmit();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_EQ(sent[0].syndrome(), 0x1f) << "a shared queue promises nothing";
    EXPECT_EQ(sent[0].header.aeth.msn, 1u);
    EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("9:SUCCESS"));
  }
}

// --- requester

TEST(KnownRnr, RefusalDoesNotAcknowledgeWhatIsBeforeIt) {
  Rig rig;
  for (int i = 0; i < 3; ++i) rig.send(10);
  rig.transmit();
  rig.ack(101, 0x2e);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  rig.pass(rnr_timeout(14));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 101", "RC_SEND_ONLY 102"));
}

TEST(KnownRnr, WriteWithImmediateIsSentAgainFromItsFirstPacket) {
  Rig rig;
  rig.post(rig.remote(WrOpcode::kRdmaWriteWithImm, {rig.sge(0, 600)}, 0x10000, 0x77));
  rig.transmit();
  rig.ack(102, 0x2e);
  rig.pass(rnr_timeout(14));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_LAST_IMM 102"));
}

TEST(KnownRnr, AckTimeoutFiresDuringALongerRnrWait) {
  Rig rig({.timeout = 8});
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0x20);  // 655.36 ms; the ack timeout is 1.05 ms
  for (int i = 0; i < 600; ++i) {
    rig.pass(microseconds(1'000));
    ASSERT_THAT(rig.transmit(), IsEmpty());
  }
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 0u);
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  rig.pass(microseconds(55'360));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 100"));
}

TEST(KnownRnr, RnrWaitsUseUpTheTransportRetries) {
  Rig rig({.retry_cnt = 0, .rnr_retry = 7});
  rig.send(10);
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(rig.transmit(), SizeIs(1));
    rig.ack(100, 0x21);
    rig.pass(rnr_timeout(1));
  }
  rig.transmit();
  rig.ack(100);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

// rxe: an RNR NAK for the first packet of a message, a sequence NAK for what is behind it. The
// second comes late from a slow host, when the wait is over.
TEST(KnownRnr, SequenceNaksBehindARefusalUseUpTheTransportRetries) {
  Rig rig({.retry_cnt = 1, .rnr_retry = 7});
  rig.send(600);
  ASSERT_THAT(summary(rig.transmit()),
              ElementsAre("RC_SEND_FIRST 100", "RC_SEND_MIDDLE 101", "RC_SEND_LAST 102"));
  for (int i = 0; i < 20; ++i) {
    rig.ack(100, 0x21);
    rig.pass(rnr_timeout(1));
    ASSERT_THAT(rig.transmit(), SizeIs(3)) << i;
    rig.ack(100, 0x60);
    ASSERT_THAT(rig.transmit(), SizeIs(3)) << i;
  }
  rig.ack(102);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

// One for each refusal is forgiven; what follows is a loss.
TEST(KnownRnr, ASecondSequenceNakAfterARefusalIsALoss) {
  Rig rig({.retry_cnt = 1, .rnr_retry = 7});
  rig.send(600);
  rig.transmit();
  rig.ack(100, 0x21);
  rig.pass(rnr_timeout(1));
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(rig.transmit(), SizeIs(3)) << i;
    rig.ack(100, 0x60);
  }
  ASSERT_THAT(rig.transmit(), SizeIs(3));
  rig.ack(100, 0x60);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:RETRY_EXC_ERR"));
}

TEST(KnownRnr, TimeoutsUseUpTheRnrRetries) {
  Rig rig({.timeout = 8, .retry_cnt = 7, .rnr_retry = 1});
  rig.send(10);
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(rig.transmit(), SizeIs(1));
    rig.pass(ack_timeout(8));
  }
  ASSERT_THAT(rig.transmit(), SizeIs(1));
  rig.ack(100, 0x21);
  rig.pass(rnr_timeout(1));
  ASSERT_THAT(rig.transmit(), SizeIs(1)) << "one RNR retry was left";
  rig.ack(100, 0x21);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:RNR_RETRY_EXC_ERR"));
}

TEST(KnownRnr, ProgressDoesNotRestoreTheRnrRetries) {
  Rig rig({.rnr_retry = 1});
  for (int i = 0; i < 4; ++i) rig.send(10);
  rig.transmit();
  for (uint32_t psn = 100; psn < 104; ++psn) {
    rig.ack(psn, 0x21);
    rig.pass(rnr_timeout(1));
    rig.transmit();
    rig.ack(psn);
  }
  EXPECT_THAT(rig.poll_send(), SizeIs(4));
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(KnownRnr, RnrRetryZeroTriesASecondTime) {
  Rig rig({.rnr_retry = 0});
  rig.send(10);
  rig.send(10, 0);
  ASSERT_THAT(rig.transmit(), SizeIs(2));
  rig.ack(100, 0x21);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:RNR_RETRY_EXC_ERR", "2:WR_FLUSH_ERR"))
      << "an unsignaled request tells its failure as well";
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_THAT(rig.transmit(), IsEmpty());
}

TEST(KnownRnr, StaleRnrNakStopsTheQueue) {
  Rig rig({.rnr_retry = 0});
  rig.send(10);
  rig.send(10);
  rig.transmit();
  rig.ack(100);
  rig.ack(100, 0x2e);  // overtaken by its acknowledgement
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 102"));
}

}  // namespace
}  // namespace verbena::engine::test
