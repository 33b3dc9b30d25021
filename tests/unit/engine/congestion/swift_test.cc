// Swift step by step: windows, targets and paces computed by hand.
#include "engine/congestion/swift.h"

#include <gtest/gtest.h>

namespace verbena::engine::swift_test {
namespace {

constexpr FlowShape kShape{100'000'000'000, 1000};

// A target of 10 us and 1 us for each switch; no flow scaling unless a test wants it.
SwiftSettings plain() {
  SwiftSettings s;
  s.base_target = microseconds(10);
  s.flow_scale_range_us = 0;
  s.initial_window = 10;
  s.max_window = 100;
  return s;
}

Instant at(int64_t us) {
  return Instant{} + microseconds(us);
}

Acknowledged packets(uint32_t count, Duration delay, uint8_t switches = 0) {
  return {.bytes = count * 1000, .round_trip = delay, .switches = switches};
}

TEST(Swift, BelowTheTargetTheWindowGrowsByAPacketInARoundTrip) {
  Swift swift(plain(), kShape);
  EXPECT_EQ(swift.window(), 10'000u);
  swift.on_acknowledged(at(1), packets(1, microseconds(5)));
  EXPECT_DOUBLE_EQ(swift.packets(), 10.1);
  swift.on_acknowledged(at(2), packets(2, nanoseconds(9999)));
  EXPECT_DOUBLE_EQ(swift.packets(), 10.1 + 2 / 10.1);
  EXPECT_EQ(swift.window(), 10'298u);
  EXPECT_EQ(swift.rate(at(2)), kShape.port_rate) << "a window of packets needs no pace";
}

TEST(Swift, AtTheTargetItIsCutByNothingAndAboveByTheExcess) {
  Swift swift(plain(), kShape);
  swift.on_acknowledged(at(1), packets(1, microseconds(10)));
  EXPECT_DOUBLE_EQ(swift.packets(), 10);
  // 12.5 us are a fifth too long; beta 0.8 makes that 16 %.
  swift.on_acknowledged(at(2), packets(1, nanoseconds(12'500)));
  EXPECT_DOUBLE_EQ(swift.packets(), 8.4);
}

TEST(Swift, OneCutInARoundTrip) {
  Swift swift(plain(), kShape);
  swift.on_acknowledged(at(100), packets(1, microseconds(20)));  // half too long: 40 % less
  EXPECT_DOUBLE_EQ(swift.packets(), 6);
  swift.on_acknowledged(at(101), packets(1, microseconds(20)));
  swift.on_acknowledged(at(119), packets(1, microseconds(20)));
  EXPECT_DOUBLE_EQ(swift.packets(), 6);
  swift.on_acknowledged(at(120), packets(1, microseconds(20)));
  EXPECT_DOUBLE_EQ(swift.packets(), 3.6);
}

TEST(Swift, ACutIsMaxDecreaseAtMost) {
  Swift swift(plain(), kShape);
  swift.on_acknowledged(at(1), packets(1, microseconds(1000)));
  EXPECT_DOUBLE_EQ(swift.packets(), 5) << "0.8 * 0.99 is more than a half";
}

TEST(Swift, TheTargetGrowsWithTheWay) {
  SwiftSettings settings = plain();
  EXPECT_EQ(Swift(settings, kShape).target(3), microseconds(13));
  settings.hops = 5;
  EXPECT_EQ(Swift(settings, kShape).target(3), microseconds(15));
  Swift swift(plain(), kShape);
  swift.on_acknowledged(at(1), packets(1, microseconds(12), 3));
  EXPECT_DOUBLE_EQ(swift.packets(), 10.1) << "12 us are too long for 2 switches, not for 3";
}

// With windows 0.25 and 4: 1/sqrt is 2 and 1/2, so the whole range of 15 us is 10 us * (2 - 1/2).
TEST(Swift, TheTargetGrowsWithTheNumberOfFlows) {
  SwiftSettings settings = plain();
  settings.flow_scale_range_us = 15;
  settings.flow_scale_min_window = 0.25;
  settings.flow_scale_max_window = 4;
  const std::pair<double, int64_t> expected[] = {
      {0.0625, 25}, {0.25, 25}, {1, 15}, {4, 10}, {64, 10}};
  for (auto [window, target] : expected) {
    settings.initial_window = window;
    EXPECT_EQ(Swift(settings, kShape).target(0), microseconds(target)) << window;
  }
}

TEST(Swift, BelowOnePacketThePaceIsTheWindow) {
  SwiftSettings settings = plain();
  settings.initial_window = 0.5;
  Swift swift(settings, kShape);
  EXPECT_EQ(swift.window(), 1000u) << "one packet may go";
  EXPECT_EQ(swift.rate(at(0)), kShape.port_rate) << "no round trip is known";
  swift.on_sent(at(0), 1250);
  swift.on_acknowledged(at(20), packets(1, microseconds(20)));  // half too long: 0.3 packets
  EXPECT_DOUBLE_EQ(swift.packets(), 0.3);
  // A packet of 10^4 bits every 20 us / 0.3.
  EXPECT_NEAR(static_cast<double>(swift.rate(at(20))), 150'000'000.0, 1.0);
  swift.on_acknowledged(at(90), packets(1, microseconds(5)));
  EXPECT_DOUBLE_EQ(swift.packets(), 1.3) << "below one packet a whole one is added";
}

TEST(Swift, LossesCutAndTimeoutsInARowStartOver) {
  SwiftSettings settings = plain();
  settings.retransmit_reset = 3;
  Swift swift(settings, kShape);
  swift.on_acknowledged(at(0), packets(0, microseconds(5)));
  swift.on_loss(at(10), Loss::kReported);
  EXPECT_DOUBLE_EQ(swift.packets(), 5);
  swift.on_loss(at(12), Loss::kTimeout);
  EXPECT_DOUBLE_EQ(swift.packets(), 5) << "within a round trip of 5 us";
  swift.on_loss(at(20), Loss::kTimeout);
  EXPECT_DOUBLE_EQ(swift.packets(), 2.5);
  swift.on_loss(at(30), Loss::kTimeout);
  EXPECT_DOUBLE_EQ(swift.packets(), 0.01) << "the third";
  Swift other(settings, kShape);
  other.on_loss(at(10), Loss::kTimeout);
  other.on_loss(at(20), Loss::kTimeout);
  other.on_acknowledged(at(25), {});
  other.on_loss(at(30), Loss::kTimeout);
  EXPECT_DOUBLE_EQ(other.packets(), 1.25) << "what is acknowledged between ends the row";
}

TEST(Swift, TheWindowKeepsToItsBounds) {
  SwiftSettings settings = plain();
  settings.min_window = 0.4;
  settings.max_window = 10.5;
  Swift swift(settings, kShape);
  for (int i = 0; i < 10; ++i) swift.on_acknowledged(at(i), packets(1, microseconds(1)));
  EXPECT_DOUBLE_EQ(swift.packets(), 10.5);
  for (int i = 1; i < 20; ++i) swift.on_acknowledged(at(i * 1000), packets(1, microseconds(900)));
  EXPECT_DOUBLE_EQ(swift.packets(), 0.4);
}

TEST(Swift, WithoutAMeasuredDelayNothingMoves) {
  Swift swift(plain(), kShape);
  swift.on_acknowledged(at(1), packets(8, {}));
  swift.on_cnp(at(1));
  EXPECT_DOUBLE_EQ(swift.packets(), 10);
  EXPECT_TRUE(swift.wants_round_trips());
  EXPECT_EQ(swift.next_change(at(1)), kNever);
}

}  // namespace
}  // namespace verbena::engine::swift_test
