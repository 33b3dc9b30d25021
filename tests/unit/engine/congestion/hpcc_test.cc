// HPCC step by step: use of links and windows computed by hand.
#include "engine/congestion/hpcc.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::engine::hpcc_test {
namespace {

constexpr uint64_t kRate = 100'000'000'000;

// A round trip of 10 us at 100 Gb/s: windows are 125000 bytes at most, 12500 at least; W_AI 500.
HpccSettings plain() {
  HpccSettings s;
  s.base_round_trip = microseconds(10);
  s.min_rate = 10'000'000'000;
  s.additive_bits_per_second = 400'000'000;
  s.eta = 0.5;
  s.max_stage = 2;
  return s;
}

Hop hop(int64_t us, uint64_t transmitted, uint64_t queue, uint32_t port = 1) {
  return {kRate, transmitted, queue, Instant{} + microseconds(us), port};
}

// An acknowledgement of packet `psn` (counted from 1) while `sent` are sent.
void acknowledge(Hpcc& hpcc, uint64_t psn, uint64_t sent, const std::vector<Hop>& hops) {
  hpcc.on_acknowledged({}, {.bytes = 1000, .next_psn = psn, .sent_psn = sent, .hops = hops});
}

TEST(Hpcc, BeginsWithWhatTheLinkHolds) {
  Hpcc hpcc(plain(), {kRate, 1000});
  EXPECT_EQ(hpcc.window(), 125'000u);
  EXPECT_EQ(hpcc.rate({}), kRate);
  acknowledge(hpcc, 1, 100, {hop(10, 0, 50'000)});
  EXPECT_EQ(hpcc.window(), 125'000u) << "the first telemetry has nothing to be compared with";
  EXPECT_EQ(hpcc.utilisation(), 1);
}

// 31250 bytes in 10 us are a quarter of the link, the smaller queue of 62500 bytes a half.
TEST(Hpcc, UseIsWhatWasSentAndTheSmallerQueue) {
  Hpcc hpcc(plain(), {kRate, 1000});
  acknowledge(hpcc, 1, 100, {hop(10, 1000, 100'000)});
  acknowledge(hpcc, 2, 101, {hop(20, 32'250, 62'500)});
  EXPECT_DOUBLE_EQ(hpcc.utilisation(), 0.75);
  // 125000 / (0.75 / 0.5) + 500
  EXPECT_NEAR(hpcc.window_bytes(), 83'833.333, 0.001);
  EXPECT_EQ(hpcc.rate({}), 67'066'666'666u);
}

TEST(Hpcc, TheBusiestLinkCounts) {
  Hpcc hpcc(plain(), {kRate, 1000});
  acknowledge(hpcc, 1, 100, {hop(10, 0, 0, 1), hop(11, 0, 0, 2), hop(12, 0, 0, 3)});
  acknowledge(hpcc, 2, 101, {hop(20, 12'500, 0, 1), hop(21, 100'000, 0, 2), hop(22, 50'000, 0, 3)});
  EXPECT_DOUBLE_EQ(hpcc.utilisation(), 0.8);
}

// 2.5 us are a quarter of a round trip: U = 3/4 * 1 + 1/4 * u. Longer ones count as a whole one.
TEST(Hpcc, UseIsSmoothedOverARoundTrip) {
  Hpcc hpcc(plain(), {kRate, 1000});
  Hop first = hop(10, 0, 0), second = hop(0, 0, 0);
  second.at = first.at + nanoseconds(2500);
  acknowledge(hpcc, 1, 100, {first});
  acknowledge(hpcc, 2, 101, {second});
  EXPECT_DOUBLE_EQ(hpcc.utilisation(), 0.75);
  acknowledge(hpcc, 3, 102, {hop(1012, 0, 0)});
  EXPECT_DOUBLE_EQ(hpcc.utilisation(), 0);
}

// Within a round trip (packets up to 100) each acknowledgement reacts from the same reference.
TEST(Hpcc, TheReferenceIsRenewedOnceInARoundTrip) {
  Hpcc hpcc(plain(), {kRate, 1000});
  acknowledge(hpcc, 1, 100, {hop(10, 0, 0)});
  acknowledge(hpcc, 2, 101, {hop(20, 125'000, 0)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 63'000);
  acknowledge(hpcc, 3, 102, {hop(30, 250'000, 0)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 63'000) << "not cut twice";
  acknowledge(hpcc, 101, 150, {hop(40, 375'000, 0)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 63'000);
  acknowledge(hpcc, 102, 151, {hop(50, 500'000, 0)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 32'000) << "from the reference that packet 101 renewed";
  acknowledge(hpcc, 151, 160, {hop(60, 625'000, 0)});
  acknowledge(hpcc, 152, 161, {hop(70, 750'000, 0)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 16'500);
}

// Below the use it aims at: two additive steps, then one by the ratio.
TEST(Hpcc, AfterMaxStageAdditiveStepsOneGoesByTheRatio) {
  HpccSettings settings = plain();
  Hpcc hpcc(settings, {kRate, 1000});
  acknowledge(hpcc, 1, 1, {hop(10, 0, 0)});
  uint64_t sent = 0, psn = 1;
  int64_t us = 10;
  auto step = [&](uint64_t bytes) {
    acknowledge(hpcc, ++psn, psn, {hop(us += 10, sent += bytes, 0)});
    return hpcc.window_bytes();
  };
  EXPECT_DOUBLE_EQ(step(125'000), 63'000);
  EXPECT_DOUBLE_EQ(step(50'000), 63'500);  // use 0.4
  EXPECT_DOUBLE_EQ(step(50'000), 64'000);
  EXPECT_DOUBLE_EQ(step(50'000), 80'500);  // 64000 * 0.5 / 0.4 + 500
  EXPECT_DOUBLE_EQ(step(50'000), 81'000);
}

TEST(Hpcc, TheWindowKeepsToItsBounds) {
  Hpcc hpcc(plain(), {kRate, 1000});
  acknowledge(hpcc, 1, 1, {hop(10, 0, 10'000'000)});
  acknowledge(hpcc, 2, 2, {hop(20, 125'000, 10'000'000)});
  EXPECT_EQ(hpcc.window(), 12'500u);
  EXPECT_EQ(hpcc.rate({}), 10'000'000'000u);
  for (uint64_t i = 3; i < 10; ++i)
    acknowledge(hpcc, i, i, {hop(static_cast<int64_t>(10 * i), 125'000, 0)});
  EXPECT_EQ(hpcc.window(), 125'000u) << "an idle link";
}

TEST(Hpcc, AnotherWayIsAnotherComparison) {
  Hpcc hpcc(plain(), {kRate, 1000});
  acknowledge(hpcc, 1, 1, {hop(10, 9'000'000, 0, 1)});
  acknowledge(hpcc, 2, 2, {hop(20, 500, 0, 2)});
  EXPECT_EQ(hpcc.window(), 125'000u) << "ports are not compared with others";
  acknowledge(hpcc, 3, 3, {hop(30, 125'500, 0, 2)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 63'000);
  acknowledge(hpcc, 4, 4, {hop(40, 250'500, 0, 2), hop(41, 0, 0, 3)});
  EXPECT_DOUBLE_EQ(hpcc.window_bytes(), 63'000);
}

TEST(Hpcc, OldTelemetryAndNoneChangeNothing) {
  Hpcc hpcc(plain(), {kRate, 1000});
  acknowledge(hpcc, 1, 1, {hop(10, 0, 0)});
  acknowledge(hpcc, 2, 2, {hop(10, 0, 500'000)});
  acknowledge(hpcc, 3, 3, {});
  acknowledge(hpcc, 4, 4, {hop(9, 0, 500'000)});
  hpcc.on_cnp({});
  hpcc.on_loss({}, Loss::kTimeout);
  EXPECT_EQ(hpcc.window(), 125'000u);
  EXPECT_EQ(hpcc.utilisation(), 1);
  EXPECT_EQ(hpcc.next_change({}), kNever);
  EXPECT_FALSE(hpcc.wants_round_trips());
}

}  // namespace
}  // namespace verbena::engine::hpcc_test
