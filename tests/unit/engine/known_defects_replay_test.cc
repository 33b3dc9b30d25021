// Defects known from other stacks, family replay: duplicates of atomics, READs, SENDs and WRITEs,
// and repeated answers. The table of all families is in known_defects_test.cc.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

void set_word(Rig& rig, size_t offset, uint64_t value) {
  std::memcpy(rig.memory + offset, &value, 8);
}

// --- atomics

TEST(KnownReplay, AtomicReplayReadsTheMemoryAgain) {
  Rig rig;
  set_word(rig, 64, 40);
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 2));
  rig.transmit();
  set_word(rig, 64, 1000);  // the application goes on
  for (int i = 0; i < 3; ++i) {
    rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 2));
    auto sent = rig.transmit();
    ASSERT_THAT(summary(sent), ElementsAre("RC_ATOMIC_ACKNOWLEDGE 200"));
    EXPECT_EQ(sent[0].header.atomic_original, 40u);
    EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
    EXPECT_EQ(sent[0].header.aeth.msn, 1u);
    EXPECT_EQ(word(rig, 64), 1000u);
  }
}

TEST(KnownReplay, CompareSwapReplaySwapsAgain) {
  Rig rig;
  rig.receive(rig.atomic(Opcode::kRcCompareSwap, 200, 64, 7, 0));
  rig.transmit();
  EXPECT_EQ(word(rig, 64), 7u);
  set_word(rig, 64, 0);  // somebody released the lock
  rig.receive(rig.atomic(Opcode::kRcCompareSwap, 200, 64, 7, 0));
  auto sent = rig.transmit();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].header.atomic_original, 0u);
  EXPECT_EQ(word(rig, 64), 0u);
}

TEST(KnownReplay, OnlyTheNewestAtomicIsRemembered) {
  Rig rig({.max_dest_rd_atomic = 4});
  for (uint32_t i = 0; i < 4; ++i) {
    rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200 + i, 64, 5));
    rig.transmit();
  }
  for (uint32_t i : {2u, 0u, 3u, 1u}) {
    rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200 + i, 64, 5));
    auto sent = rig.transmit();
    ASSERT_THAT(sent, SizeIs(1)) << i;
    EXPECT_EQ(sent[0].psn(), 200 + i);
    EXPECT_EQ(sent[0].header.atomic_original, 5u * i);
  }
  EXPECT_EQ(word(rig, 64), 20u);
}

TEST(KnownReplay, ReplayAsAnotherOperationIsAnswered) {
  Rig rig;
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  rig.transmit();
  rig.receive(rig.atomic(Opcode::kRcCompareSwap, 200, 64, 9, 5));
  rig.receive(rig.read_request(200, 64, 8));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(word(rig, 64), 5u);
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(KnownReplay, AtomicReplayFailsWhenItsKeyIsGone) {
  Rig rig;
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5));
  auto again = rig.atomic(Opcode::kRcFetchAdd, 200, 64, 5);
  rig.transmit();
  rig.device.keys().remove(rig.region.key);
  rig.receive(again);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ATOMIC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].header.atomic_original, 0u);
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(KnownReplay, ReplayAcrossThePsnWrapIsForgotten) {
  Rig rig({.rq_psn = 0xffffff});
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 0xffffff, 64, 5));
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 0, 64, 5));
  rig.transmit();
  rig.receive(rig.atomic(Opcode::kRcFetchAdd, 0xffffff, 64, 5));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ATOMIC_ACKNOWLEDGE 16777215"));
  EXPECT_EQ(sent[0].header.atomic_original, 0u);
  EXPECT_EQ(word(rig, 64), 10u);
}

TEST(KnownReplay, AtomicWriteAndFlushReplayWriteAgain) {
  Rig rig;
  rig.receive(rig.write_request(Opcode::kRcAtomicWrite, 200, 64, 8), bytes(8));
  rig.receive(rig.write_request(Opcode::kRcFlush, 201, 64, 8));
  rig.transmit();
  set_word(rig, 64, 3);
  rig.receive(rig.write_request(Opcode::kRcAtomicWrite, 200, 64, 8), bytes(8));
  rig.receive(rig.write_request(Opcode::kRcFlush, 201, 64, 8));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_RESPONSE_ONLY 200", "RC_READ_RESPONSE_ONLY 201"));
  EXPECT_THAT(sent[0].payload, IsEmpty());
  EXPECT_EQ(sent[1].header.aeth.msn, 2u);
  EXPECT_EQ(word(rig, 64), 3u);
}

// --- SEND, WRITE, READ

TEST(KnownReplay, DuplicateFirstPacketRestartsTheMessageInProgress) {
  Rig rig;
  rig.post_recv(1, {rig.sge(0, 1000)});
  rig.post_recv(2, {rig.sge(2000, 1000)});
  auto data = bytes(600);
  auto part = [&](size_t from, size_t to) {
    return std::vector<uint8_t>(data.begin() + static_cast<long>(from),
                                data.begin() + static_cast<long>(to));
  };
  rig.receive(rig.packet(Opcode::kRcSendFirst, 200, true), part(0, 256));
  rig.receive(rig.packet(Opcode::kRcSendMiddle, 201, true), part(256, 512));
  rig.transmit();
  rig.receive(rig.packet(Opcode::kRcSendFirst, 200, true), bytes(256, 99));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201")) << "the newest one";
  EXPECT_EQ(sent[0].header.aeth.msn, 0u);
  rig.receive(rig.packet(Opcode::kRcSendLast, 202, true), part(512, 600));
  EXPECT_EQ(rig.transmit()[0].header.aeth.msn, 1u);
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 600u);
  EXPECT_EQ(std::memcmp(rig.memory, data.data(), 600), 0);
  EXPECT_EQ(rig.memory[2000], 0);
}

TEST(KnownReplay, EveryDuplicateDrawsAnAcknowledgementOfItsOwn) {
  Rig rig;
  for (uint32_t psn = 200; psn < 220; ++psn)
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, psn, 0, 4), bytes(4));
  rig.transmit();
  for (uint32_t psn = 200; psn < 220; ++psn)
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, psn, 0, 4), bytes(4));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 219"));
  EXPECT_EQ(sent[0].header.aeth.msn, 20u);
}

TEST(KnownReplay, DuplicateReadWhoseAddressWrapsIsRead) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 600));
  rig.transmit();
  for (uint64_t address : {~0ull, ~0ull - 343, rig.address(0) + (1ull << 32) + 256}) {
    wire::Packet p = rig.read_request(201, 0, 344);
    p.reth.address = address;
    rig.receive(p);
  }
  wire::Packet longest = rig.read_request(202, 512, 0xffffffffu);
  rig.receive(longest);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(KnownReplay, BadDuplicateIsRefusedInsteadOfDropped) {
  Rig rig;
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 4), bytes(4));
  rig.transmit();
  wire::Packet p = rig.write_request(Opcode::kRcWriteOnly, 200, 0, 999);
  p.reth.rkey = 0xdead;
  p.ack_request = false;
  rig.receive(p, bytes(4));
  rig.receive(rig.read_request(199, 0, 8));  // never was there
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  EXPECT_THAT(rig.take_async(), IsEmpty());
}

// --- requester

TEST(KnownReplay, RepeatedAtomicAnswerOverwritesTheResult) {
  Rig rig;
  rig.post(rig.remote(WrOpcode::kAtomicFetchAndAdd, {rig.sge(64, 8)}, 0x10000, 0x77));
  rig.send(4);
  rig.transmit();
  wire::Packet answer = rig.packet(Opcode::kRcAtomicAcknowledge, 100);
  answer.aeth = {0x1f, 1};
  answer.atomic_original = 17;
  rig.receive(answer);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(word(rig, 64), 17u);
  set_word(rig, 64, 1);
  answer.atomic_original = 99;
  rig.receive(answer);
  EXPECT_EQ(word(rig, 64), 1u);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
}

TEST(KnownReplay, LostAtomicAnswerIsTakenAsDone) {
  Rig rig;
  SendRequest add = rig.remote(WrOpcode::kAtomicFetchAndAdd, {rig.sge(64, 8)}, 0x10000, 0x77);
  add.compare_add = 5;
  rig.post(add);
  rig.send(4);
  auto first = rig.transmit();
  ASSERT_THAT(summary(first), ElementsAre("RC_FETCH_ADD 100", "RC_SEND_ONLY 101"));
  rig.ack(101);
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  auto again = rig.transmit();
  ASSERT_THAT(summary(again), ElementsAre("RC_FETCH_ADD 100", "RC_SEND_ONLY 101"));
  EXPECT_EQ(again[0].header.atomic.swap_add, 5u);
  EXPECT_EQ(again[0].header.atomic.address, first[0].header.atomic.address);
}

}  // namespace
}  // namespace verbena::engine::test
