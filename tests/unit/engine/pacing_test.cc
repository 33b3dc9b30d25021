// Pacing and windows by packet scripts: when a packet leaves under a given rate, how much is in
// flight under a given window, and what congestion control is told.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// What the test sets, and what the engine said.
struct Script : CongestionControl {
  void on_cnp(Instant) override { ++cnps; }
  void on_acknowledged(Instant, const Acknowledged& what) override { acknowledged.push_back(what); }
  void on_loss(Instant, Loss how) override {
    ++losses;
    timeouts += how == Loss::kTimeout;
  }
  void on_sent(Instant, uint32_t bytes) override { sent.push_back(bytes); }
  uint64_t rate(Instant now) override { return now < changes_at ? before : after; }
  Instant next_change(Instant now) override { return now < changes_at ? changes_at : kNever; }
  uint64_t window() const override { return limit; }
  bool wants_round_trips() const override { return true; }

  uint64_t before = 1'000'000'000, after = 1'000'000'000;
  Instant changes_at = kLongAgo;
  uint64_t limit = UINT64_MAX;
  int cnps = 0, losses = 0, timeouts = 0;
  std::vector<uint32_t> sent;
  std::vector<Acknowledged> acknowledged;
};

RigOptions scripted(uint32_t overhead = 44, RigOptions options = {}) {
  options.control = [] { return std::make_unique<Script>(); };
  options.device.frame_overhead_bytes = overhead;
  return options;
}

Script& script(Rig& rig) {
  return static_cast<Script&>(*rig.qp->congestion());
}

TEST(Pacing, APacketFollowsWhenTheOneBeforeHasPassed) {
  Rig rig(scripted());
  Instant start = rig.now;
  rig.write(3 * 256);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_FIRST 100"));
  EXPECT_EQ(rig.device.next_deadline() - start, nanoseconds(2400)) << "300 bytes at 1 Gb/s";
  EXPECT_EQ(rig.device.lanes_ready(), 0);
  rig.pass(picoseconds(2'399'999));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.pass(picoseconds(1));
  EXPECT_EQ(rig.device.lanes_ready(), 1);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_MIDDLE 101"));
  EXPECT_EQ(rig.device.next_deadline() - start, nanoseconds(4800));
  rig.pass(nanoseconds(2400));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_LAST 102"));
  EXPECT_THAT(script(rig).sent, ElementsAre(300, 300, 300));
}

TEST(Pacing, TimeIsRoundedUpToThePicosecond) {
  Rig rig(scripted(1));
  script(rig).before = script(rig).after = 3'000'000'000;
  Instant start = rig.now;
  rig.write(512);
  rig.transmit();
  EXPECT_EQ((rig.device.next_deadline() - start).ps, 685'334) << "257 bytes: 685333.3 ps";
}

TEST(Pacing, WithoutAnOverheadTheEnginesOwnHeadersCount) {
  Rig rig(scripted(0));
  rig.write(256 + 3);
  rig.transmit();
  rig.pass(microseconds(10));
  rig.transmit();
  // BTH 12, RETH 16, ICRC 4; the last one has a byte of padding and no RETH.
  EXPECT_THAT(script(rig).sent, ElementsAre(256 + 32, 3 + 1 + 16));
}

TEST(Pacing, ARateThatRisesMeanwhileIsUsed) {
  Rig rig(scripted());
  Instant start = rig.now;
  script(rig).before = 1'000'000;  // 300 bytes: 2.4 ms
  script(rig).after = 2'000'000'000;
  script(rig).changes_at = start + microseconds(50);
  rig.write(3 * 256);
  rig.transmit();
  EXPECT_EQ(rig.device.next_deadline() - start, microseconds(50));
  rig.pass(microseconds(50));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_MIDDLE 101"));
  EXPECT_EQ(rig.device.next_deadline() - start, picoseconds(51'200'000));
}

TEST(Pacing, TheRateOfThePortNeedsNone) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1'000'000'000;
  Rig rig(options);
  rig.write(3 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(3));
  EXPECT_EQ(rig.device.next_deadline(), rig.now + ack_timeout(14));
}

TEST(Pacing, ReadResponsesArePaced) {
  Rig rig(scripted());
  Instant start = rig.now;
  rig.receive(rig.read_request(200, 0, 512));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_RESPONSE_FIRST 200"));
  EXPECT_EQ(rig.device.next_deadline() - start, nanoseconds(2400));
  rig.write(4);
  EXPECT_THAT(rig.transmit(), IsEmpty()) << "a request goes the same way";
  rig.pass(nanoseconds(2400));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_RESPONSE_LAST 201"));
  rig.pass(nanoseconds(2400));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_ONLY 100"));
}

TEST(Pacing, AcknowledgementsAreNot) {
  Rig rig(scripted());
  rig.write(512);
  rig.transmit();
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_ACKNOWLEDGE 200"));
}

TEST(Pacing, TheWindowBoundsPayloadBytes) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  Rig rig(options);
  script(rig).limit = 600;
  rig.write(5 * 256 + 100);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_WRITE_FIRST 100", "RC_WRITE_MIDDLE 101"));
  EXPECT_FALSE(sent[0].header.ack_request);
  EXPECT_TRUE(sent[1].header.ack_request) << "or nobody would open the window again";
  rig.ack(100);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_MIDDLE 102"));
  rig.ack(102);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_MIDDLE 103", "RC_WRITE_MIDDLE 104"));
  script(rig).limit = 1;
  rig.ack(103);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.ack(104);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_LAST 105")) << "one may always go";
}

TEST(Pacing, TheOnlyPacketOfAWindowAsks) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  Rig rig(options);
  script(rig).limit = 256;
  rig.write(3 * 256);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_WRITE_FIRST 100"));
  EXPECT_TRUE(sent[0].header.ack_request);
}

// Five packets that do not ask are in flight when the window becomes one: without another that asks
// they would wait for the timeout.
TEST(Pacing, AWindowThatShrinksUnderPacketsThatDoNotAskLetsOneGo) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  options.device.ack_interval = 8;
  Rig rig(options);
  script(rig).limit = 20 * 256;
  rig.write(12 * 256);
  rig.sink.room = 5;
  auto sent = rig.transmit();
  ASSERT_THAT(sent, SizeIs(5));
  for (const Sent& s : sent) EXPECT_FALSE(s.header.ack_request);
  rig.sink.room = UINT32_MAX;
  script(rig).limit = 256;
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_WRITE_MIDDLE 105"));
  EXPECT_TRUE(sent[0].header.ack_request);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.ack(105);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_MIDDLE 106"));
}

// The pace may be slower than the timeout.
TEST(Pacing, TheTimeoutRunsFromWhenTheRepeatedPacketLeaves) {
  RigOptions options = scripted();
  Rig rig(options);
  script(rig).before = script(rig).after = 10'000;  // 300 bytes take 240 ms
  rig.write(256);
  EXPECT_THAT(rig.transmit(), SizeIs(1));
  rig.pass(ack_timeout(14));  // 67 ms
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 1u);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  rig.pass(ack_timeout(14));
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 1u) << "nothing has left since";
  rig.pass(ack_timeout(14));
  rig.pass(ack_timeout(14));
  EXPECT_THAT(rig.transmit(), SizeIs(1));
  rig.pass(ack_timeout(14));
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 2u);
}

TEST(Pacing, GoingBackCountsTheFlightAnew) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  Rig rig(options);
  script(rig).limit = 4 * 256;
  rig.write(8 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(4));
  rig.ack(101, 0x60);
  EXPECT_EQ(script(rig).losses, 1);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_MIDDLE 101", "RC_WRITE_MIDDLE 102",
                                                   "RC_WRITE_MIDDLE 103", "RC_WRITE_MIDDLE 104"));
}

TEST(Pacing, AcknowledgementsAreTold) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  Rig rig(options);
  rig.write(256 + 10);
  rig.write(20);
  rig.transmit();
  rig.ack(100);
  wire::Packet p = rig.packet(Opcode::kRcAcknowledge, 102);
  p.aeth = {0x1f, 0};
  p.becn = true;
  rig.receive(p);
  rig.receive(p);  // acknowledges nothing new and is behind the window
  const auto& told = script(rig).acknowledged;
  ASSERT_THAT(told, SizeIs(3));
  EXPECT_EQ(told[0].bytes, 256u);
  EXPECT_FALSE(told[0].ecn_echo);
  EXPECT_EQ(told[0].next_psn, 1u);
  EXPECT_EQ(told[0].sent_psn, 3u);
  EXPECT_EQ(told[1].bytes, 30u);
  EXPECT_TRUE(told[1].ecn_echo);
  EXPECT_EQ(told[1].next_psn, 3u);
  EXPECT_EQ(told[1].sent_psn, 3u);
  EXPECT_EQ(told[2].bytes, 0u);
  EXPECT_TRUE(told[2].ecn_echo);
}

TEST(Pacing, RoundTripsAreMeasuredWhereTheyAreWanted) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  options.device.ack_interval = 1;
  Rig rig(options);
  const auto& told = script(rig).acknowledged;
  rig.write(3 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(3));
  rig.pass(microseconds(7));
  rig.write(2 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(2));
  rig.pass(microseconds(3));
  rig.ack(101);  // of the second packet; the first one's is not waited for any more
  wire::Packet p = rig.packet(Opcode::kRcAcknowledge, 103);
  p.aeth = {0x1f, 0};
  rig.receive({.header = p, .source = gid(2), .destination = gid(1), .hop_limit = 61}, {});
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].round_trip, microseconds(10));
  EXPECT_EQ(told[0].switches, 0);
  EXPECT_EQ(told[1].round_trip, microseconds(3)) << "sent with the second request";
  EXPECT_EQ(told[1].switches, 3);
}

TEST(Pacing, WhatWasSentTwiceHasNoRoundTrip) {
  RigOptions options = scripted();
  options.device.port_bits_per_second = 1;
  options.device.ack_interval = 1;
  Rig rig(options);
  rig.write(3 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(3));
  rig.pass(microseconds(5));
  rig.ack(101, 0x60);  // 101 did not come: it and 102 go again
  EXPECT_THAT(rig.transmit(), SizeIs(2));
  EXPECT_EQ(script(rig).timeouts, 0);
  rig.pass(microseconds(5));
  rig.ack(102);
  rig.write(256);
  EXPECT_THAT(rig.transmit(), SizeIs(1));
  rig.pass(microseconds(4));
  rig.ack(103);
  const auto& told = script(rig).acknowledged;
  ASSERT_THAT(told, SizeIs(3));
  EXPECT_EQ(told[1].round_trip, Duration{}) << "which of the two was acknowledged?";
  EXPECT_EQ(told[2].round_trip, microseconds(4));
  rig.write(256);
  rig.transmit();
  rig.pass(ack_timeout(14));
  EXPECT_EQ(script(rig).losses, 2);
  EXPECT_EQ(script(rig).timeouts, 1);
}

TEST(Pacing, ResetTakesTheControlAway) {
  Rig rig(scripted());
  EXPECT_NE(rig.qp->congestion(), nullptr);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kReset));
  EXPECT_EQ(rig.qp->congestion(), nullptr);
}

// --- windows and acknowledgements as the device's options say

TEST(DeviceWindow, MayHoldMegabytes) {
  RigOptions options{.mtu = 3};
  options.device.wire_window_bytes = UINT32_MAX;
  options.device.max_window_packets = 1u << 22;
  Rig rig(options);
  for (int i = 0; i < 16; ++i) rig.write(1 << 20);
  EXPECT_THAT(rig.transmit(), SizeIs(16 << 10));
}

TEST(DeviceWindow, AsksAsOftenAsToldTo) {
  RigOptions options;
  options.device.ack_interval = 1;
  Rig rig(options);
  rig.write(3 * 256);
  for (const Sent& s : rig.transmit()) EXPECT_TRUE(s.header.ack_request);
}

TEST(DeviceWindow, LossesLeaveItAloneIfToldTo) {
  RigOptions options;
  options.device.max_window_packets = 64;
  options.device.loss_window = false;
  Rig rig(options);
  rig.write(100 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(64));
  rig.ack(100, 0x60);
  EXPECT_THAT(rig.transmit(), SizeIs(64));
  rig.pass(ack_timeout(14));
  EXPECT_THAT(rig.transmit(), SizeIs(64));
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 1u);
}

}  // namespace
}  // namespace verbena::engine::test
