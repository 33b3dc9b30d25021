// Selective repeat, the requester: only what the peer names is sent again, answers are taken in any
// order, and work requests complete in theirs.
#include "rig.h"

namespace verbena::engine::test::reorder_requester {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kWait = microseconds(100);

RigOptions selective(uint32_t packets = 512) {
  RigOptions options;
  options.disorder = {packets, kWait};
  return options;
}

void missing(Rig& rig, uint32_t psn, uint8_t behind) {
  wire::Packet p = rig.packet(Opcode::kRcAcknowledge, psn);
  p.aeth = {0x60, 0};
  p.missing_behind = behind;
  rig.receive(p);
}

std::vector<uint32_t> psns(const std::vector<Sent>& sent) {
  std::vector<uint32_t> all;
  for (const Sent& s : sent) all.push_back(s.psn());
  return all;
}

void respond(Rig& rig, uint32_t psn, size_t length, uint8_t first) {
  rig.read_response(Opcode::kRcReadResponseMiddle, psn, bytes(length, first));
}

TEST(ReorderRequester, SendsOnlyWhatIsNamedAndGoesOn) {
  Rig rig(selective());
  rig.write(10 * 256);
  EXPECT_EQ(rig.transmit().size(), 10u);
  missing(rig, 103, 1);
  rig.write(8);
  auto sent = rig.transmit();
  EXPECT_THAT(psns(sent), ElementsAre(103, 104, 110));
  EXPECT_FALSE(sent[0].header.ack_request);
  EXPECT_TRUE(sent[1].header.ack_request) << "the answer says what else is missing";
  EXPECT_EQ(sent[1].opcode(), Opcode::kRcWriteMiddle);
  EXPECT_FALSE(sent[0].by_reference);
  EXPECT_EQ(rig.qp->counters().retransmissions, 1u);
  missing(rig, 107, 0);
  EXPECT_THAT(psns(rig.transmit()), ElementsAre(107));
  rig.ack(110);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

TEST(ReorderRequester, ALostRequestForReadingIsMadeAgain) {
  Rig rig(selective());
  rig.read(600);
  rig.send(10);
  rig.transmit();
  missing(rig, 100, 2);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 100"));
  EXPECT_EQ(sent[0].header.reth.length, 600u);
}

TEST(ReorderRequester, RepairsEndInAFailureWhenNothingHelps) {
  RigOptions options = selective();
  options.retry_cnt = 2;
  Rig rig(options);
  rig.write(8);
  rig.write(8);
  rig.transmit();
  for (int i = 0; i < 3; ++i) {
    missing(rig, 100, 0);
    rig.transmit();
  }
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:RETRY_EXC_ERR", "2:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

TEST(ReorderRequester, TakesResponsesInAnyOrder) {
  Rig rig(selective());
  rig.read(600);
  rig.transmit();
  respond(rig, 102, 88, 3);
  EXPECT_THAT(rig.transmit(), IsEmpty()) << "not yet a loss";
  respond(rig, 101, 256, 2);
  respond(rig, 102, 88, 77);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  respond(rig, 100, 256, 1);
  ASSERT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  std::vector<uint8_t> all = bytes(256, 1), two = bytes(256, 2), three = bytes(88, 3);
  all.insert(all.end(), two.begin(), two.end());
  all.insert(all.end(), three.begin(), three.end());
  EXPECT_EQ(std::memcmp(rig.memory + 0x80000, all.data(), 600), 0) << "a late copy writes nothing";
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_EQ(rig.counters().implied_nak_seq_err, 0u);
  // Nor does one that comes after the program was told.
  respond(rig, 101, 256, 99);
  EXPECT_EQ(std::memcmp(rig.memory + 0x80000, all.data(), 600), 0);
}

TEST(ReorderRequester, CompletesInOrderThoughAnswersDoNotCome) {
  Rig rig(selective());
  rig.read(300);
  rig.send(10);
  rig.post(rig.remote(WrOpcode::kAtomicFetchAndAdd, {rig.sge(0x90000, 8)}, 0x10000, 0x77));
  rig.read(100);
  ASSERT_THAT(psns(rig.transmit()), ElementsAre(100, 102, 103, 104));
  respond(rig, 104, 100, 4);
  wire::Packet atomic = rig.packet(Opcode::kRcAtomicAcknowledge, 103);
  atomic.aeth = {0x1f, 0};
  atomic.atomic_original = 42;
  rig.receive(atomic);
  rig.ack(102);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  respond(rig, 101, 44, 2);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  respond(rig, 100, 256, 1);
  EXPECT_THAT(summary(rig.poll_send()),
              ElementsAre("1:SUCCESS", "2:SUCCESS", "3:SUCCESS", "4:SUCCESS"));
  EXPECT_EQ(word(rig, 0x90000), 42u);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

TEST(ReorderRequester, AnswersThatStayAwayAreAskedForAlone) {
  Rig rig(selective());
  rig.read(10 * 256);
  rig.transmit();
  for (uint32_t psn : {100, 103, 104, 107, 108}) respond(rig, psn, 256, 1);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.pass(kWait);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 101", "RC_READ_REQUEST 105"));
  for (const Sent& s : sent) EXPECT_EQ(s.header.reth.length, 512u);
  EXPECT_EQ(sent[1].header.reth.address, 0x10000u + 5 * 256);
  EXPECT_EQ(rig.counters().implied_nak_seq_err, 1u);
  for (uint32_t psn : {101, 102, 105, 106, 109}) respond(rig, psn, 256, 1);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

TEST(ReorderRequester, AfterATimeoutOnePacketAsks) {
  for (bool loss_window : {true, false}) {
    RigOptions options = selective();
    options.device.loss_window = loss_window;
    Rig rig(options);
    rig.write(10 * 256);
    rig.transmit();
    rig.pass(ack_timeout(14));
    auto sent = rig.transmit();
    ASSERT_THAT(psns(sent), ElementsAre(100));
    EXPECT_TRUE(sent[0].header.ack_request);
    missing(rig, 104, 1);
    EXPECT_THAT(psns(rig.transmit()), ElementsAre(104, 105)) << "the others are there";
    rig.ack(109);
    EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  }
}

TEST(ReorderRequester, AfterATimeoutAPlainAnswerMeansThatTheRestIsLost) {
  RigOptions options = selective();
  options.device.loss_window = false;
  Rig rig(options);
  rig.write(4 * 256);
  rig.transmit();
  rig.pass(ack_timeout(14));
  EXPECT_THAT(psns(rig.transmit()), ElementsAre(100));
  rig.ack(100);
  EXPECT_THAT(psns(rig.transmit()), ElementsAre(101, 102, 103));
  rig.ack(103);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

TEST(ReorderRequester, ARefusalWaitsForAnswersToWhatWasBefore) {
  Rig rig(selective());
  rig.read(300);
  rig.write(8);
  rig.transmit();
  rig.ack(102, 0x62);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  respond(rig, 101, 44, 2);
  respond(rig, 100, 256, 1);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:REM_ACCESS_ERR"));
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

// A younger READ's response of a wrong length is nobody's error until its turn.
TEST(ReorderRequester, ErrorsBelongToTheOldest) {
  Rig rig(selective());
  rig.read(100);
  rig.read(100);
  rig.transmit();
  respond(rig, 101, 50, 1);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  respond(rig, 100, 100, 1);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  respond(rig, 101, 50, 1);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("2:BAD_RESP_ERR"));
}

TEST(ReorderRequester, HasNoMoreInFlightThanThePeerHolds) {
  Rig rig(selective(8));
  rig.write(20 * 256);
  auto sent = rig.transmit();
  ASSERT_EQ(sent.size(), 8u);
  EXPECT_TRUE(sent[7].header.ack_request);
  rig.ack(107);
  EXPECT_EQ(rig.transmit().size(), 8u);
}

TEST(ReorderRequester, ReadsInFlightStayCountedThroughRepairs) {
  RigOptions options = selective();
  options.max_rd_atomic = 2;
  Rig rig(options);
  for (int i = 0; i < 4; ++i) rig.read(100);
  ASSERT_THAT(psns(rig.transmit()), ElementsAre(100, 101));
  rig.pass(ack_timeout(14));
  EXPECT_THAT(psns(rig.transmit()), ElementsAre(100));
  respond(rig, 100, 100, 1);
  EXPECT_THAT(psns(rig.transmit()), ElementsAre(101, 102)) << "never a third one";
}

}  // namespace
}  // namespace verbena::engine::test::reorder_requester
