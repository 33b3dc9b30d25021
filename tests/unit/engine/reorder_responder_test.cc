// Selective repeat, the responder: what overtakes is held back whole, everything happens in order,
// and a NAK names what is missing once the wait is over.
#include "rig.h"

namespace verbena::engine::test::reorder_responder {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kWait = microseconds(100);

RigOptions holding(uint32_t packets = 16) {
  RigOptions options;
  options.disorder = {packets, kWait};
  return options;
}

std::vector<uint8_t> memory_of(const Rig& rig, size_t offset, size_t length) {
  return {rig.memory + offset, rig.memory + offset + length};
}

TEST(ReorderResponder, PlacesInOrderWhateverCameFirst) {
  Rig rig(holding());
  auto first = bytes(256, 1), middle = bytes(256, 2), last = bytes(10, 3);
  rig.receive(rig.packet(Opcode::kRcWriteLast, 202, true), last);
  rig.receive(rig.packet(Opcode::kRcWriteMiddle, 201), middle);
  EXPECT_EQ(memory_of(rig, 4096, 522), std::vector<uint8_t>(522, 0)) << "nothing out of turn";
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.receive(rig.write_request(Opcode::kRcWriteFirst, 200, 4096, 522), first);
  std::vector<uint8_t> all = first;
  all.insert(all.end(), middle.begin(), middle.end());
  all.insert(all.end(), last.begin(), last.end());
  EXPECT_EQ(memory_of(rig, 4096, 522), all);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  EXPECT_EQ(rig.counters().out_of_sequence, 2u);
  EXPECT_EQ(rig.qp->counters().naks_sent, 0u);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

TEST(ReorderResponder, MessagesCompleteInTheirOrder) {
  Rig rig(holding());
  for (uint64_t id = 1; id <= 3; ++id) rig.post_recv(id, {rig.sge(id * 1000, 100)});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202, true), bytes(30, 3));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(20, 2));
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(10, 1));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS", "2:SUCCESS", "3:SUCCESS"));
  for (size_t i = 0; i < 3; ++i) {
    size_t length = 10 * (i + 1);
    EXPECT_EQ(done[i].byte_len, length);
    EXPECT_EQ(memory_of(rig, 1000 * (i + 1), length), bytes(length, static_cast<uint8_t>(i + 1)));
  }
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 202"));
}

// An atomic and a READ that overtook a WRITE see what it wrote.
TEST(ReorderResponder, AtomicsAndReadsWaitForTheirTurn) {
  Rig rig(holding());
  rig.receive(rig.read_request(202, 4096, 8));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 201, 4096, 5));
  EXPECT_EQ(word(rig, 4096), 0u);
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 4096, 8), {7, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(word(rig, 4096), 12u);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200", "RC_ATOMIC_ACKNOWLEDGE 201",
                                         "RC_READ_RESPONSE_ONLY 202"));
  EXPECT_EQ(sent[1].header.atomic_original, 7u);
  EXPECT_EQ(sent[2].payload, (std::vector<uint8_t>{12, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ReorderResponder, WhatIsMissingTooLongIsNamedThreeTimes) {
  Rig rig(holding());
  Instant begin = rig.now;
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 203, 0, 8), bytes(8));
  EXPECT_EQ(rig.device.next_deadline(), begin + kWait);
  rig.now = begin + (kWait - picoseconds(1));
  rig.device.on_time(rig.now);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  Instant due = begin + kWait;
  for (int factor : {4, 16, 0}) {
    rig.now = due;
    rig.device.on_time(rig.now);
    auto sent = rig.transmit();
    ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
    EXPECT_EQ(sent[0].syndrome(), 0x60);
    EXPECT_EQ(sent[0].header.missing_behind, 2) << "200, 201 and 202";
    due = factor ? rig.now + kWait * factor : kNever;
    EXPECT_EQ(rig.device.next_deadline(), due);
  }
  EXPECT_EQ(rig.qp->counters().naks_sent, 3u);
}

TEST(ReorderResponder, TheNextGapIsAsOldAsWhatStandsBehindIt) {
  Rig rig(holding());
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 201, 0, 8), bytes(8));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 204, 0, 8), bytes(8));
  rig.pass(kWait);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 200"));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 202"));
  EXPECT_EQ(sent[0].syndrome(), 0x60);
  EXPECT_EQ(sent[0].header.missing_behind, 1);
  // What fills a gap before its wait is over leaves the next one its own.
  Rig young(holding());
  young.receive(young.write_request(Opcode::kRcWriteOnly, 201, 0, 8), bytes(8));
  young.pass(microseconds(40));
  Instant later = young.now;
  young.receive(young.write_request(Opcode::kRcWriteOnly, 203, 0, 8), bytes(8));
  young.receive(young.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  EXPECT_THAT(summary(young.transmit()), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(young.device.next_deadline(), later + kWait);
}

TEST(ReorderResponder, HoldsNoMoreThanAgreed) {
  Rig rig(holding(4));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 204, 0, 8), bytes(8));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 205, 1000, 8), bytes(8));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x60);
  EXPECT_EQ(sent[0].header.missing_behind, 3);
  for (uint32_t psn = 200; psn < 204; ++psn)
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, psn, 0, 8), bytes(8));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 204"));
  EXPECT_EQ(rig.memory[1000], 0) << "205 was dropped";
}

TEST(ReorderResponder, TheFirstCopyCounts) {
  Rig rig(holding());
  auto request = rig.write_request(Opcode::kRcWriteOnly, 201, 0, 8);
  rig.receive(request, bytes(8, 1));
  rig.receive(request, bytes(8, 100));
  EXPECT_EQ(rig.counters().duplicate_request, 1u);
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 512, 8), bytes(8));
  EXPECT_EQ(memory_of(rig, 0, 8), bytes(8, 1));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 201"));
  // A late one answers what the requester may have missed, and writes nothing.
  rig.receive(request, bytes(8, 100));
  EXPECT_EQ(memory_of(rig, 0, 8), bytes(8, 1));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 201"));
}

TEST(ReorderResponder, ARefusedMessageComesAgainWhole) {
  Rig rig(holding());
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(8, 2));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(8, 1));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x20 | 12);
  EXPECT_EQ(rig.device.next_deadline(), kNever) << "the requester knows where to begin";
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202, true), bytes(8, 3));
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  for (uint64_t id = 1; id <= 3; ++id) rig.post_recv(id, {rig.sge(id * 1000, 100)});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(8, 1));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS"));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 202, true), bytes(8, 3));
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(8, 2));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("2:SUCCESS", "3:SUCCESS"));
  EXPECT_EQ(memory_of(rig, 3000, 8), bytes(8, 3));
}

// A request that claims a PSN of a READ's answer is nobody's, and is not kept for another lap.
TEST(ReorderResponder, PsnsOfAnAnswerHaveNoTurn) {
  Rig rig(holding(4));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 201, 1000, 8), bytes(8));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 203, 2000, 8), bytes(8));
  rig.receive(rig.read_request(200, 0, 600));
  EXPECT_EQ(rig.memory[1000], 0);
  EXPECT_EQ(rig.memory[2000], 1);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 205, 3000, 8), bytes(8));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 204, 0, 8), bytes(8));
  EXPECT_EQ(rig.memory[3000], 1);
}

TEST(ReorderResponder, AnErrorForgetsWhatIsHeld) {
  Rig rig(holding());
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 201, 1000, 8), bytes(8));
  auto bad = rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8);
  bad.reth.rkey ^= 1;
  rig.receive(bad, bytes(8));
  EXPECT_EQ(rig.transmit().back().syndrome(), 0x62);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_EQ(rig.memory[1000], 0);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

// What is not agreed, or not needed, changes nothing.
TEST(ReorderResponder, GoBackNAnswersAtOnce) {
  RigOptions local = holding();
  local.path = Path::kLocal;
  for (const RigOptions& options : {RigOptions{}, local}) {
    Rig rig(options);
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, 202, 1000, 8), bytes(8));
    auto sent = rig.transmit();
    ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 200"));
    EXPECT_EQ(sent[0].syndrome(), 0x60);
    EXPECT_EQ(sent[0].header.missing_behind, 0);
    EXPECT_EQ(rig.device.next_deadline(), kNever);
  }
}

}  // namespace
}  // namespace verbena::engine::test::reorder_responder
