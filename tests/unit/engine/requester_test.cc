// The requester by packet scripts: what leaves for a posted work request, and what each answer
// does. Numbers are exact: opcode, PSN, flags, lengths.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Requester, SegmentsAMessageAtEveryPathMtu) {
  for (uint8_t code = 1; code <= 5; ++code) {
    Rig rig({.mtu = code});
    uint32_t mtu = 128u << code;
    for (size_t i = 0; i < 2 * mtu + 1; ++i) rig.memory[i] = static_cast<uint8_t>(i * 3);
    ASSERT_EQ(rig.send(2 * mtu + 1), 0);
    auto sent = rig.transmit();
    ASSERT_THAT(summary(sent),
                ElementsAre("RC_SEND_FIRST 100", "RC_SEND_MIDDLE 101", "RC_SEND_LAST 102"));
    EXPECT_THAT(sent[0].payload, SizeIs(mtu));
    EXPECT_THAT(sent[1].payload, SizeIs(mtu));
    EXPECT_THAT(sent[2].payload, SizeIs(1));
    EXPECT_EQ(sent[0].header.pad_count, 0);
    EXPECT_EQ(sent[2].header.pad_count, 3);
    EXPECT_FALSE(sent[0].header.ack_request || sent[1].header.ack_request);
    EXPECT_TRUE(sent[2].header.ack_request);
    EXPECT_EQ(sent[0].header.dest_qpn, kPeerQpn);
    EXPECT_TRUE(sent[0].header.mig_req);
    EXPECT_EQ(std::memcmp(sent[1].payload.data(), rig.memory + mtu, mtu), 0);
    EXPECT_EQ(sent[2].payload[0], rig.memory[2 * mtu]);
  }
}

TEST(Requester, OnePacketMessages) {
  Rig rig;
  rig.send(0);
  rig.send(256);
  rig.send(1, kSignaled | kSolicited);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent),
              ElementsAre("RC_SEND_ONLY 100", "RC_SEND_ONLY 101", "RC_SEND_ONLY 102"));
  EXPECT_THAT(sent[0].payload, IsEmpty());
  EXPECT_THAT(sent[1].payload, SizeIs(256));
  EXPECT_FALSE(sent[1].header.solicited);
  EXPECT_TRUE(sent[2].header.solicited);
}

TEST(Requester, WriteCarriesItsRethOnceAndImmediateLast) {
  Rig rig;
  auto request = rig.remote(WrOpcode::kRdmaWriteWithImm, {rig.sge(0, 300)}, 0x123456789abc, 0xbeef,
                            kSignaled | kSolicited);
  request.imm_or_rkey = 0x01020304;
  ASSERT_EQ(rig.post(request), 0);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_WRITE_FIRST 100", "RC_WRITE_LAST_IMM 101"));
  EXPECT_EQ(sent[0].header.reth.address, 0x123456789abcu);
  EXPECT_EQ(sent[0].header.reth.rkey, 0xbeefu);
  EXPECT_EQ(sent[0].header.reth.length, 300u);
  EXPECT_FALSE(sent[0].header.solicited);
  EXPECT_TRUE(sent[1].header.solicited);
  EXPECT_EQ(sent[1].header.immediate_be, 0x01020304u);
}

TEST(Requester, GathersAcrossSges) {
  Rig rig;
  for (size_t i = 0; i < 1000; ++i) rig.memory[i] = static_cast<uint8_t>(i);
  rig.post(rig.request(WrOpcode::kSend,
                       {rig.sge(10, 200), rig.sge(500, 0), rig.sge(600, 56), rig.sge(0, 2)}));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_SEND_FIRST 100", "RC_SEND_LAST 101"));
  EXPECT_EQ(sent[0].payload[199], 209);
  EXPECT_EQ(sent[0].payload[200], static_cast<uint8_t>(600));
  EXPECT_EQ(sent[0].payload[255], static_cast<uint8_t>(655));
  EXPECT_THAT(sent[1].payload, ElementsAre(0, 1));
}

TEST(Requester, InlineBytesAreReadAtPost) {
  Rig rig;
  rig.memory[0] = 1;
  auto request = rig.request(WrOpcode::kSend, {rig.sge(0, 4)}, kSignaled | kInline);
  ASSERT_EQ(rig.post(request), 0);
  rig.memory[0] = 2;
  EXPECT_EQ(rig.transmit()[0].payload[0], 1);
  EXPECT_EQ(rig.post(rig.request(WrOpcode::kSend, {rig.sge(0, 65)}, kInline)), EINVAL);
}

// As many as leave in one segmented datagram, 32 at most.
TEST(Requester, AsksForAnAcknowledgementOncePerDatagram) {
  Rig small;
  small.send(40 * 256);
  auto sent = small.transmit();
  ASSERT_THAT(sent, SizeIs(40));
  for (size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(sent[i].header.ack_request, i == 31 || i == 39) << i;
  Rig large({.mtu = 5});
  large.send(40 * 4096);
  sent = large.transmit();
  ASSERT_THAT(sent, SizeIs(40));
  for (size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(sent[i].header.ack_request, i == 14 || i == 29 || i == 39) << i;
}

TEST(Requester, WindowIsHalvedByALossAndGrowsByOnePacketForEachWindow) {
  Rig rig({.mtu = 5});  // a quarter MiB: 64 packets
  rig.send(200 * 4096);
  EXPECT_THAT(rig.transmit(), SizeIs(64));
  rig.ack(100, 0x60);  // PSN sequence error at the first
  auto again = rig.transmit();
  ASSERT_THAT(again, SizeIs(32));
  EXPECT_EQ(again[0].header.psn.value(), 100u);
  EXPECT_TRUE(again[31].header.ack_request);
  rig.ack(115);  // half a window
  EXPECT_THAT(rig.transmit(), SizeIs(16));
  rig.ack(131);  // and the other half
  EXPECT_THAT(rig.transmit(), SizeIs(17));
  for (int loss = 0; loss < 3; ++loss) rig.ack(132, 0x60);
  EXPECT_THAT(rig.transmit(), SizeIs(16));  // not below
}

TEST(Requester, OneAcknowledgementCompletesAllBefore) {
  Rig rig;
  rig.send(10);
  rig.send(300, 0);  // unsignaled
  rig.write(10);
  rig.transmit();
  rig.ack(103, 0x1f, 3);
  auto done = rig.poll_send();
  EXPECT_THAT(summary(done), ElementsAre("1:SUCCESS", "3:SUCCESS"));
  EXPECT_EQ(done[1].opcode, WcOpcode::kRdmaWrite);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_EQ(rig.counters().rdma_sends, 2u);
}

TEST(Requester, PartOfAMessageAcknowledgedCompletesNothing) {
  Rig rig;
  rig.send(600);
  rig.transmit();
  rig.ack(101);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.ack(102);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

TEST(Requester, IgnoresAcknowledgementsOutsideTheWindow) {
  Rig rig;
  rig.send(10);
  rig.transmit();
  rig.ack(99);
  rig.ack(101);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  EXPECT_EQ(rig.counters().rx_bad_response, 1u);
}

TEST(Requester, SequenceNakAcknowledgesWhatIsBeforeAndGoesBack) {
  Rig rig;
  for (int i = 0; i < 5; ++i) rig.send(10);
  ASSERT_THAT(rig.transmit(), SizeIs(5));
  rig.ack(102, 0x60);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("RC_SEND_ONLY 102", "RC_SEND_ONLY 103", "RC_SEND_ONLY 104"));
  EXPECT_EQ(rig.counters().packet_seq_err, 1u);
}

TEST(Requester, ObeysASecondNakAtOnce) {
  Rig rig;
  for (int i = 0; i < 5; ++i) rig.send(10);
  rig.transmit();
  rig.ack(101, 0x60);
  EXPECT_THAT(rig.transmit(), SizeIs(4));
  rig.ack(103, 0x60);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 103", "RC_SEND_ONLY 104"));
  rig.ack(103, 0x60);  // without progress too
  EXPECT_THAT(rig.transmit(), SizeIs(2));
}

TEST(Requester, GoesBackIntoTheMiddleOfAMessage) {
  Rig rig;
  rig.write(600);
  rig.transmit();
  rig.ack(101, 0x60);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_WRITE_MIDDLE 101", "RC_WRITE_LAST 102"));
  EXPECT_THAT(sent[1].payload, SizeIs(88));
}

TEST(Requester, AtomicsCarryTheirOperandsAndPlaceTheOriginal) {
  Rig rig;
  auto swap = rig.remote(WrOpcode::kAtomicCmpAndSwp, {rig.sge(64, 8)}, 0x2000, 0x55);
  swap.compare_add = 7;
  swap.swap = 9;
  auto add = rig.remote(WrOpcode::kAtomicFetchAndAdd, {rig.sge(72, 8)}, 0x2008, 0x55);
  add.compare_add = 5;
  rig.post(swap);
  rig.post(add);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_COMPARE_SWAP 100", "RC_FETCH_ADD 101"));
  EXPECT_EQ(sent[0].header.atomic.address, 0x2000u);
  EXPECT_EQ(sent[0].header.atomic.rkey, 0x55u);
  EXPECT_EQ(sent[0].header.atomic.compare, 7u);
  EXPECT_EQ(sent[0].header.atomic.swap_add, 9u);
  EXPECT_EQ(sent[1].header.atomic.swap_add, 5u);
  wire::Packet answer = rig.packet(Opcode::kRcAtomicAcknowledge, 100);
  answer.aeth = {0x1f, 1};
  answer.atomic_original = 0x1122334455667788;
  rig.receive(answer);
  auto done = rig.poll_send();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].opcode, WcOpcode::kCompSwap);
  uint64_t value;
  std::memcpy(&value, rig.memory + 64, 8);
  EXPECT_EQ(value, 0x1122334455667788u);
}

TEST(Requester, FlushAndAtomicWriteAreAnsweredByEmptyReadResponses) {
  Rig rig;
  auto flush = rig.remote(WrOpcode::kFlush, {}, 0x3000, 0x66);
  flush.flush_length = 5000;
  flush.flush_placement = 3;
  flush.flush_selectivity = 1;
  rig.post(flush);
  rig.post(rig.remote(WrOpcode::kAtomicWrite, {rig.sge(0, 8)}, 0x3008, 0x66));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_FLUSH 100", "RC_ATOMIC_WRITE 101"));
  EXPECT_EQ(sent[0].header.reth.length, 5000u);
  EXPECT_EQ(sent[0].header.feth.placement, 3);
  EXPECT_EQ(sent[0].header.feth.selectivity, 1);
  EXPECT_THAT(sent[1].payload, SizeIs(8));
  rig.read_response(Opcode::kRcReadResponseOnly, 100, {});
  rig.read_response(Opcode::kRcReadResponseOnly, 101, {});
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
}

TEST(Requester, AtomicsOfWrongLengthFailBeforeTheyLeave) {
  Rig rig;
  rig.post(rig.remote(WrOpcode::kAtomicFetchAndAdd, {rig.sge(0, 4)}, 0x2000, 0x55));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:LOC_LEN_ERR"));
  Rig other;
  other.post(other.remote(WrOpcode::kAtomicWrite, {other.sge(0, 300)}, 0x2000, 0x55));
  EXPECT_THAT(other.transmit(), IsEmpty());
  EXPECT_THAT(summary(other.poll_send()), ElementsAre("1:LOC_LEN_ERR"));
}

TEST(Requester, FenceWaitsForReadsAndAtomics) {
  Rig rig;
  rig.read(10);
  rig.send(10, kSignaled | kFence);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_REQUEST 100"));
  rig.read_response(Opcode::kRcReadResponseOnly, 100, bytes(10));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 101"));
}

TEST(Requester, NoMoreReadsOutstandingThanAllowed) {
  Rig rig({.max_rd_atomic = 1});
  rig.read(10);
  rig.read(10);
  rig.send(10);  // stays behind the stalled READ
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_REQUEST 100"));
  rig.read_response(Opcode::kRcReadResponseOnly, 100, bytes(10));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_REQUEST 101", "RC_SEND_ONLY 102"));
}

TEST(Requester, ReadWithoutInitiatorDepthFails) {
  Rig rig({.max_rd_atomic = 0});
  rig.read(10);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:LOC_QP_OP_ERR"));
}

TEST(Requester, CreditsHoldBackSendsButOneProbe) {
  Rig rig;
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0, 1);  // no credit
  rig.send(10);
  rig.send(10);
  rig.write(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 101"));
  rig.ack(101, 2, 2);  // two more: messages 3 and 4
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 102", "RC_WRITE_ONLY 103"));
}

// The request of a READ is lost, its parts arrive: the peer counts each as a message. Its count may
// not be taken for credit.
TEST(Requester, PartsOfALostReadRequestGiveNoCredit) {
  Rig rig({.timeout = 1});
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0, 1);  // no credit
  rig.read(4 * 256);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_REQUEST 101"));
  for (int tries = 0; tries < 2; ++tries) {  // lost, and lost again
    rig.time(rig.device.next_deadline() - Instant{});
    rig.transmit();
  }
  auto respond = [&](uint32_t psn, uint32_t msn) {
    wire::Packet p = rig.packet(Opcode::kRcReadResponseOnly, psn);
    p.aeth = {0, msn};  // no credit
    rig.receive(p, bytes(256));
  };
  respond(101, 2);
  rig.send(10);
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_REQUEST 102"))
      << "the rest of the READ, and no SEND";
  wire::Packet first = rig.packet(Opcode::kRcReadResponseFirst, 102);
  first.aeth = {0, 3};  // the peer has counted three messages, we two
  rig.receive(first, bytes(256));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  wire::Packet middle = rig.packet(Opcode::kRcReadResponseMiddle, 103);
  rig.receive(middle, bytes(256));
  wire::Packet last = rig.packet(Opcode::kRcReadResponseLast, 104);
  last.aeth = {0, 5};  // as if more parts had been asked for
  rig.receive(last, bytes(256));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 105")) << "one probe";
  rig.ack(105, 1, 6);  // one credit: message 7 on the peer's count
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 106"));
}

TEST(Requester, NoCreditInformationMeansNoLimit) {
  Rig rig;
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0x1f, 1);
  rig.send(10);
  rig.send(10);
  EXPECT_THAT(rig.transmit(), SizeIs(2));
}

TEST(Requester, PsnWraps) {
  Rig rig({.sq_psn = 0xfffffe});
  rig.send(4 * 256);
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("RC_SEND_FIRST 16777214", "RC_SEND_MIDDLE 16777215", "RC_SEND_MIDDLE 0",
                          "RC_SEND_LAST 1"));
  rig.ack(0, 0x60);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_MIDDLE 0", "RC_SEND_LAST 1"));
  rig.ack(1);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

TEST(Requester, ABlockedLinkKeepsThePacketAndTheOrder) {
  Rig rig;
  rig.send(600);
  rig.sink.room = 1;
  EXPECT_EQ(rig.device.transmit(rig.now, rig.sink), TransmitResult::kBlocked);
  EXPECT_THAT(summary(rig.sink.sent), ElementsAre("RC_SEND_FIRST 100"));
  rig.sink.room = UINT32_MAX;
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_MIDDLE 101", "RC_SEND_LAST 102"));
}

TEST(Requester, BadLkeyFailsAfterEverythingBeforeIt) {
  Rig rig;
  rig.send(10);
  Sge bad = rig.sge(0, 10);
  bad.lkey ^= 1;
  rig.post(rig.request(WrOpcode::kSend, {bad}));
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 100"));
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  rig.ack(100);
  EXPECT_THAT(summary(rig.poll_send()),
              ElementsAre("1:SUCCESS", "2:LOC_PROT_ERR", "3:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

TEST(Requester, MessageAboveTwoGiBFails) {
  Rig rig;
  rig.post(rig.request(WrOpcode::kSend, {rig.sge(0, 0x80000000u), rig.sge(0, 1)}));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:LOC_LEN_ERR"));
}

TEST(Requester, SendsInOnePieceOnTheLocalPath) {
  Rig rig({.path = Path::kLocal});
  rig.send(kLocalPathMtu + 1);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_SEND_FIRST 100", "RC_SEND_LAST 101"));
  EXPECT_TRUE(sent[0].by_reference);
  EXPECT_THAT(sent[0].payload, SizeIs(kLocalPathMtu));
}

struct NakCase {
  uint8_t syndrome;
  const char* completion;
};
class FatalNak : public testing::TestWithParam<NakCase> {};

TEST_P(FatalNak, FailsItsRequestAndFlushesTheRestInOrder) {
  Rig rig;
  for (int i = 0; i < 4; ++i) rig.send(10, i == 3 ? 0u : uint32_t{kSignaled});
  rig.post_recv(10, {rig.sge(0, 10)});
  rig.post_recv(11, {rig.sge(0, 10)});
  rig.transmit();
  rig.ack(101, GetParam().syndrome);
  EXPECT_THAT(summary(rig.poll_send()),
              ElementsAre("1:SUCCESS", GetParam().completion, "3:WR_FLUSH_ERR", "4:WR_FLUSH_ERR"));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("10:WR_FLUSH_ERR", "11:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_THAT(rig.transmit(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Syndromes, FatalNak,
                         testing::Values(NakCase{0x61, "2:REM_INV_REQ_ERR"},
                                         NakCase{0x62, "2:REM_ACCESS_ERR"},
                                         NakCase{0x63, "2:REM_OP_ERR"}));

}  // namespace
}  // namespace verbena::engine::test
