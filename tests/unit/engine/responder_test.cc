// The responder by packet scripts: what it answers to each request packet, what it writes, what
// the application hears, and that nothing is done twice.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

void post_receives(Rig& rig, int count, uint32_t length = 1024) {
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(rig.post_recv(static_cast<uint64_t>(i) + 1, {rig.sge(1024u * i, length)}), 0);
}

TEST(Responder, DeliversASendAndAcknowledges) {
  Rig rig;
  post_receives(rig, 1);
  auto data = bytes(600);
  rig.receive(rig.packet(Opcode::kRcSendFirst, 200), {data.begin(), data.begin() + 256});
  rig.receive(rig.packet(Opcode::kRcSendMiddle, 201), {data.begin() + 256, data.begin() + 512});
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  wire::Packet last = rig.packet(Opcode::kRcSendLastImm, 202, true);
  last.immediate_be = 0xaabbccdd;
  rig.receive(last, {data.begin() + 512, data.end()});
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  EXPECT_EQ(sent[0].header.dest_qpn, kPeerQpn);
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(done[0].byte_len, 600u);
  EXPECT_EQ(done[0].flags, kWcWithImm);
  EXPECT_EQ(done[0].imm_or_rkey, 0xaabbccddu);
  EXPECT_EQ(done[0].source_qp, kPeerQpn);
  EXPECT_EQ(std::memcmp(rig.memory, data.data(), 600), 0);
  EXPECT_EQ(rig.memory[600], 0);
}

TEST(Responder, MergesAcknowledgementsThatWait) {
  Rig rig;
  post_receives(rig, 3, 16);
  for (uint32_t psn = 200; psn < 203; ++psn)
    rig.receive(rig.packet(Opcode::kRcSendOnly, psn, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].header.aeth.msn, 3u);
}

TEST(Responder, AdvertisesTheCreditsItHas) {
  Rig rig;
  post_receives(rig, 8, 16);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 5);  // 7 left: code 5 says 6
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(16));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 5);  // 6 left
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202, true), bytes(16));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 4);  // 5 left: code 4 says 4
  Rig shared({.use_srq = true});
  shared.srq->queue.push(1, std::vector<Sge>{shared.sge(0, 16)});
  shared.receive(shared.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  EXPECT_EQ(shared.transmit()[0].syndrome(), 0x1f);
}

TEST(Responder, WritesWhereTheRethSays) {
  Rig rig;
  auto data = bytes(300);
  rig.receive(rig.write_request(Opcode::kRcWriteFirst, 200, 5000, 300),
              {data.begin(), data.begin() + 256});
  rig.receive(rig.packet(Opcode::kRcWriteLast, 201, true), {data.begin() + 256, data.end()});
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(std::memcmp(rig.memory + 5000, data.data(), 300), 0);
  EXPECT_EQ(rig.memory[4999], 0);
  EXPECT_EQ(rig.memory[5300], 0);
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
}

TEST(Responder, WriteWithImmediateTakesAReceive) {
  Rig rig;
  post_receives(rig, 1);
  wire::Packet p = rig.write_request(Opcode::kRcWriteOnlyImm, 200, 5000, 100);
  p.immediate_be = 77;
  rig.receive(p, bytes(100));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].opcode, WcOpcode::kRecvRdmaWithImm);
  EXPECT_EQ(done[0].byte_len, 100u);
  EXPECT_EQ(done[0].imm_or_rkey, 77u);
  EXPECT_EQ(rig.memory[0], 0) << "the receive's own memory is not used";
}

TEST(Responder, AnswersAReadInPackets) {
  Rig rig;
  auto data = bytes(600);
  std::memcpy(rig.memory + 9000, data.data(), 600);
  rig.receive(rig.read_request(200, 9000, 600));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent),
              ElementsAre("RC_READ_RESPONSE_FIRST 200", "RC_READ_RESPONSE_MIDDLE 201",
                          "RC_READ_RESPONSE_LAST 202"));
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  EXPECT_EQ(sent[2].header.aeth.msn, 1u);
  EXPECT_EQ(sent[2].payload, std::vector<uint8_t>(data.begin() + 512, data.end()));
  post_receives(rig, 1);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 203, true), bytes(4));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 203"));
}

TEST(Responder, ReadOfNothingIsOneEmptyPacket) {
  Rig rig;
  wire::Packet p = rig.read_request(200, 0, 0);
  p.reth.rkey = 0xdead;  // C9-88: not looked at
  p.reth.address = ~0ull;
  rig.receive(p);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_RESPONSE_ONLY 200"));
  EXPECT_THAT(sent[0].payload, IsEmpty());
}

TEST(Responder, WriteOfNothingWithABadKeyIsFine) {
  Rig rig;
  wire::Packet p = rig.write_request(Opcode::kRcWriteOnly, 200, 0, 0);
  p.reth.rkey = 0xdead;
  rig.receive(p);
  EXPECT_EQ(rig.transmit()[0].syndrome() & 0xe0, 0);
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(Responder, AnswersStayInOrder) {
  Rig rig;
  post_receives(rig, 2, 16);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  rig.receive(rig.read_request(201, 0, 300));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 203, 0x8000, 1));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 204, true), bytes(16));
  EXPECT_THAT(
      summary(rig.transmit()),
      ElementsAre("RC_ACKNOWLEDGE 200", "RC_READ_RESPONSE_FIRST 201", "RC_READ_RESPONSE_LAST 202",
                  "RC_ATOMIC_ACKNOWLEDGE 203", "RC_ACKNOWLEDGE 204"));
}

TEST(Responder, AtomicsOperateAndReturnTheOriginal) {
  Rig rig;
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 201, 64, 6));
  rig.receive(rig.atomic(Opcode::kRcCompareSwap, 202, 64, 100, 11));
  rig.receive(rig.atomic(Opcode::kRcCompareSwap, 203, 64, 200, 11));  // does not match
  auto sent = rig.transmit();
  ASSERT_THAT(sent, SizeIs(4));
  EXPECT_EQ(sent[0].header.atomic_original, 0u);
  EXPECT_EQ(sent[1].header.atomic_original, 5u);
  EXPECT_EQ(sent[2].header.atomic_original, 11u);
  EXPECT_EQ(sent[3].header.atomic_original, 100u);
  EXPECT_EQ(word(rig, 64), 100u);
}

TEST(Responder, FlushAndAtomicWriteAnswerLikeAnEmptyRead) {
  Rig rig;
  wire::Packet flush = rig.write_request(Opcode::kRcFlush, 200, 64, 1000);
  flush.feth.placement = 1;
  rig.receive(flush);
  rig.receive(rig.write_request(Opcode::kRcAtomicWrite, 201, 64, 8), {1, 0, 0, 0, 0, 0, 0, 2});
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_RESPONSE_ONLY 200", "RC_READ_RESPONSE_ONLY 201"));
  EXPECT_EQ(sent[1].header.aeth.msn, 2u);
  EXPECT_EQ(word(rig, 64), 0x0200000000000001u);
}

// --- order and repetition

// Both arrive before anything is sent: what came ahead is still missing, and must be asked for.
TEST(Responder, SwappedPacketsLeaveANakForTheDroppedOne) {
  Rig rig;
  post_receives(rig, 4, 16);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(16));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].syndrome(), 0x60);
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);  // 200 is done
  EXPECT_THAT(rig.poll_receive(), SizeIs(1));
  // Nothing else is missing once it has come: no NAK for what was never sent.
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(16));
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
  EXPECT_THAT(rig.poll_receive(), SizeIs(1));
}

TEST(Responder, ReversedPacketsAreAskedForUpToTheLastOneDropped) {
  Rig rig;
  post_receives(rig, 4, 16);
  for (uint32_t psn : {202u, 201u, 200u, 201u})
    rig.receive(rig.packet(Opcode::kRcSendOnly, psn, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].syndrome(), 0x60);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202, true), bytes(16));
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
}

TEST(Responder, GapIsNakedOnce) {
  Rig rig;
  post_receives(rig, 4, 16);
  for (uint32_t psn = 201; psn < 205; ++psn)
    rig.receive(rig.packet(Opcode::kRcSendOnly, psn, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x60);
  EXPECT_EQ(rig.counters().out_of_sequence, 4u);
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202, true), bytes(16));  // a new gap
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].syndrome(), 0x60);
}

TEST(Responder, DuplicateSendIsAcknowledgedNotExecuted) {
  Rig rig;
  post_receives(rig, 2, 16);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  rig.transmit();
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  EXPECT_THAT(rig.poll_receive(), SizeIs(1));
  EXPECT_EQ(rig.counters().duplicate_request, 1u);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200), bytes(16));  // without AckReq: silence
  EXPECT_THAT(rig.transmit(), IsEmpty());
}

TEST(Responder, DuplicateWriteIsAcknowledgedNotExecuted) {
  Rig rig;
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 4), {1, 1, 1, 1});
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 201, 0, 4), {2, 2, 2, 2});
  rig.transmit();
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 4), {1, 1, 1, 1});
  EXPECT_EQ(rig.memory[0], 2);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 201"));
}

TEST(Responder, DuplicateReadIsReadAgainFromWhereAsked) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 600));
  rig.transmit();
  rig.memory[256] = 42;
  rig.receive(rig.read_request(201, 256, 344));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent),
              ElementsAre("RC_READ_RESPONSE_FIRST 201", "RC_READ_RESPONSE_LAST 202"));
  EXPECT_EQ(sent[0].payload[0], 42);
  EXPECT_EQ(rig.counters().rx_read_requests, 1u);
}

TEST(Responder, DuplicateReadOfAnotherRangeIsIgnored) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 600));
  rig.transmit();
  rig.receive(rig.read_request(201, 255, 344));  // not where PSN 201 begins
  rig.receive(rig.read_request(201, 256, 345));  // longer than what was asked
  wire::Packet other_key = rig.read_request(200, 0, 600);
  other_key.reth.rkey ^= 1;
  rig.receive(other_key);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(Responder, RepeatedReadGoesBackInsideAnAnswerOnItsWay) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 1024));
  rig.sink.room = 2;
  rig.device.transmit(rig.now, rig.sink);
  ASSERT_THAT(rig.sink.sent, SizeIs(2));
  rig.sink.room = UINT32_MAX;
  rig.receive(rig.read_request(201, 256, 768));
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("RC_READ_RESPONSE_FIRST 201", "RC_READ_RESPONSE_MIDDLE 202",
                          "RC_READ_RESPONSE_LAST 203"));
}

TEST(Responder, RepeatedRequestsCannotFillTheAnswers) {
  Rig rig({.max_dest_rd_atomic = 2});
  rig.sink.room = 0;
  rig.receive(rig.read_request(200, 0, 600));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 203, 64, 1));
  for (int i = 0; i < 1000; ++i) {
    rig.receive(rig.read_request(200, 0, 600));
    rig.receive(rig.atomic(Opcode::kRcFetchAdd, 203, 64, 1));
  }
  rig.sink.room = UINT32_MAX;
  EXPECT_THAT(rig.transmit(), SizeIs(4));
  EXPECT_EQ(word(rig, 64), 1u);
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(Responder, LostAnswersAreRepeatedInPsnOrder) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 300));
  rig.transmit();
  rig.sink.room = 0;
  rig.receive(rig.read_request(202, 0, 300));
  rig.receive(rig.read_request(200, 0, 300));  // the first answer was lost
  rig.sink.room = UINT32_MAX;
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("RC_READ_RESPONSE_FIRST 200", "RC_READ_RESPONSE_LAST 201",
                          "RC_READ_RESPONSE_FIRST 202", "RC_READ_RESPONSE_LAST 203"));
}

TEST(Responder, DuplicateAtomicRepeatsItsSavedValue) {
  Rig rig;
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 201, 64, 5));
  rig.transmit();
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ATOMIC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].header.atomic_original, 0u);
  EXPECT_EQ(word(rig, 64), 10u);
}

TEST(Responder, ForgottenDuplicateIsIgnored) {
  Rig rig({.max_dest_rd_atomic = 1});
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  rig.transmit();
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 201, 64, 5));
  rig.transmit();
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(word(rig, 64), 10u);
}

TEST(Responder, LateRepetitionOfAReadWhoseKeyIsGoneIsIgnored) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 300));
  rig.transmit();
  auto late = rig.read_request(200, 0, 300);
  rig.device.keys().remove(rig.region.key);
  rig.receive(late);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(Responder, RegionGoneBeforeTheAnswerIsANak) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 300));
  rig.device.keys().remove(rig.region.key);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x62);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kQpAccessErr));
}

// --- RNR

TEST(Responder, NoReceiveIsAnRnrNakAndSilenceAfter) {
  Rig rig({.min_rnr_timer = 19});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(16));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x20 | 19);
  EXPECT_EQ(rig.counters().send_rnr_err, 1u);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  EXPECT_THAT(rig.transmit(), SizeIs(1)) << "each new try is answered";
  post_receives(rig, 2, 16);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(16));
  EXPECT_THAT(rig.poll_receive(), SizeIs(2));
}

TEST(Responder, WriteWithImmediateWaitsForAReceiveAtItsLastPacket) {
  Rig rig;
  rig.receive(rig.write_request(Opcode::kRcWriteFirst, 200, 0, 300), bytes(256));
  rig.receive(rig.packet(Opcode::kRcWriteLastImm, 201, true), bytes(44));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x20 | 12);
  post_receives(rig, 1);
  rig.receive(rig.packet(Opcode::kRcWriteLastImm, 201, true), bytes(44));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 300u);
}

// --- acceptance

TEST(Responder, DropsWhatIsNotForThisQueuePair) {
  Rig rig;
  post_receives(rig, 1, 16);
  RxPacket rx;
  rx.header = rig.packet(Opcode::kRcSendOnly, 200, true);
  rx.destination = gid(1);
  rx.source = gid(3);
  rig.receive(rx, bytes(4));
  EXPECT_EQ(rig.counters().rx_wrong_address, 1u);
  rx.source = gid(2);
  rx.destination = gid(4);
  rig.receive(rx, bytes(4));
  EXPECT_EQ(rig.counters().rx_wrong_address, 2u);
  rx.destination = gid(1);
  rx.path = Path::kLocal;
  rig.receive(rx, bytes(4));
  EXPECT_EQ(rig.counters().rx_wrong_address, 3u);
  rig.receive(rig.packet(Opcode::kUcSendOnly, 200), bytes(4));
  EXPECT_EQ(rig.counters().rx_wrong_transport, 1u);
  auto wrong = rig.packet(Opcode::kRcSendOnly, 200, true);
  wrong.pkey = 0x8001;
  rig.receive(wrong, bytes(4));
  EXPECT_EQ(rig.counters().bad_pkey, 1u);
  wrong = rig.packet(Opcode::kRcSendOnly, 200, true);
  wrong.dest_qpn += 1;
  rig.receive(wrong, bytes(4));
  EXPECT_EQ(rig.counters().rx_unknown_qp, 1u);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  auto limited = rig.packet(Opcode::kRcSendOnly, 200, true);
  limited.pkey = 0x7fff;  // a limited member may talk to a full one
  rig.receive(limited, bytes(4));
  EXPECT_THAT(rig.poll_receive(), SizeIs(1));
}

TEST(Responder, NothingIsTakenBeforeRtrOrInError) {
  Rig rig({.state = QpState::kInit});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(4));
  EXPECT_EQ(rig.counters().rx_unknown_qp, 1u);
  Rig ready({.state = QpState::kRtr});
  post_receives(ready, 1, 16);
  ready.receive(ready.packet(Opcode::kRcSendOnly, 200, true), bytes(4));
  EXPECT_THAT(summary(ready.transmit()), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_THAT(ready.take_async(), ElementsAre(AsyncType::kCommEst));
  ready.ack(100);
  EXPECT_EQ(ready.counters().rx_unknown_qp, 1u) << "responses need RTS";
}

}  // namespace
}  // namespace verbena::engine::test
