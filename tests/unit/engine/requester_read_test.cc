// READ requests by packet scripts: what each response places, and how a lost one is repaired.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Requester, ReadOfSeveralPacketsPlacesEachAndCompletesOnce) {
  Rig rig;
  ASSERT_EQ(rig.read(600), 0);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 100"));
  EXPECT_EQ(sent[0].header.reth.address, 0x10000u);
  EXPECT_EQ(sent[0].header.reth.rkey, 0x77u);
  EXPECT_EQ(sent[0].header.reth.length, 600u);
  EXPECT_TRUE(sent[0].header.ack_request);
  auto data = bytes(600);
  rig.read_response(Opcode::kRcReadResponseFirst, 100, {data.begin(), data.begin() + 256});
  rig.read_response(Opcode::kRcReadResponseMiddle, 101, {data.begin() + 256, data.begin() + 512});
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  rig.read_response(Opcode::kRcReadResponseLast, 102, {data.begin() + 512, data.end()});
  auto done = rig.poll_send();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].opcode, WcOpcode::kRdmaRead);
  EXPECT_EQ(done[0].byte_len, 600u);
  EXPECT_EQ(std::memcmp(rig.memory + 0x80000, data.data(), 600), 0);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_EQ(rig.counters().implied_nak_seq_err, 0u);
}

TEST(Requester, GapInReadResponsesIsAskedForAtOnce) {
  Rig rig;
  rig.read(600);
  rig.transmit();
  rig.read_response(Opcode::kRcReadResponseFirst, 100, bytes(256));
  rig.read_response(Opcode::kRcReadResponseLast, 102, bytes(88));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 101"));
  EXPECT_EQ(sent[0].header.reth.address, 0x10100u);
  EXPECT_EQ(sent[0].header.reth.length, 344u);
  EXPECT_EQ(rig.counters().implied_nak_seq_err, 1u);
  // What is still on its way from before is stale, and no new reason to go back.
  rig.read_response(Opcode::kRcReadResponseLast, 102, bytes(88));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.read_response(Opcode::kRcReadResponseFirst, 101, bytes(256, 9));
  rig.read_response(Opcode::kRcReadResponseLast, 102, bytes(88));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(rig.memory[0x80000 + 256], 9);
}

TEST(Requester, RepeatedReadResponseIsIgnored) {
  Rig rig;
  rig.read(600);
  rig.transmit();
  rig.read_response(Opcode::kRcReadResponseFirst, 100, bytes(256, 1));
  rig.read_response(Opcode::kRcReadResponseFirst, 100, bytes(256, 2));
  EXPECT_EQ(rig.memory[0x80000], 1);
  EXPECT_THAT(rig.transmit(), IsEmpty());
}

TEST(Requester, AcknowledgementBeyondAnUnansweredReadImpliesItsLoss) {
  Rig rig;
  rig.send(10);
  rig.read(600);
  rig.send(10);
  ASSERT_THAT(summary(rig.transmit()),
              ElementsAre("RC_SEND_ONLY 100", "RC_READ_REQUEST 101", "RC_SEND_ONLY 104"));
  rig.ack(104);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_REQUEST 101", "RC_SEND_ONLY 104"));
  EXPECT_EQ(rig.counters().implied_nak_seq_err, 1u);
}

TEST(Requester, ReadResponseAcknowledgesTheSendsBeforeIt) {
  Rig rig;
  rig.send(10);
  rig.read(10);
  rig.transmit();
  rig.read_response(Opcode::kRcReadResponseOnly, 101, bytes(10));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
}

TEST(Requester, LongReadIsAskedForInPiecesAndRepairedWithinThem) {
  Rig rig;
  rig.read(100 * 256);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 100", "RC_READ_REQUEST 164"));
  EXPECT_EQ(sent[0].header.reth.length, 64u * 256);
  EXPECT_EQ(sent[1].header.reth.address, 0x10000u + 64 * 256);
  EXPECT_EQ(sent[1].header.reth.length, 36u * 256);
  for (uint32_t psn = 100; psn < 200; ++psn) {
    if (psn == 111) continue;
    rig.read_response(Opcode::kRcReadResponseMiddle, psn, bytes(256));
  }
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 111", "RC_READ_REQUEST 164"));
  EXPECT_EQ(sent[0].header.reth.address, 0x10000u + 11 * 256);
  EXPECT_EQ(sent[0].header.reth.length, 53u * 256);
  for (uint32_t psn = 111; psn < 200; ++psn)
    rig.read_response(Opcode::kRcReadResponseMiddle, psn, bytes(256));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

TEST(Requester, ReadResponseOfAWrongLengthEndsTheQueuePair) {
  Rig rig;
  rig.read(600);
  rig.transmit();
  rig.read_response(Opcode::kRcReadResponseFirst, 100, bytes(512));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:BAD_RESP_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

}  // namespace
}  // namespace verbena::engine::test
