// Exact times, the order of events, turns of queues.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "base/prng.h"
#include "fabric/event_queue.h"
#include "fabric/packet.h"
#include "fabric/scheduler.h"
#include "fabric/units.h"

namespace verbena::fabric {
namespace {

TEST(Serialiser, IsExactAtCommonRates) {
  EXPECT_EQ(Serialiser(100'000'000'000).take(1048), 83'840);
  EXPECT_EQ(Serialiser(40'000'000'000).take(1048), 209'600);
  EXPECT_EQ(Serialiser(400'000'000'000).take(1048), 20'960);
  EXPECT_EQ(Serialiser(800'000'000'000).take(1), 10);
}

TEST(Serialiser, KeepsTheRemainderOfOddRates) {
  Serialiser wire(56'000'000'000);  // a byte is 142 6/7 ps
  Time sum = 0;
  for (int i = 0; i < 7'000'000; ++i) sum += wire.take(1);
  EXPECT_EQ(sum, kMillisecond);
}

TEST(EventQueue, ComesInOrderOfTimeThenOfMaking) {
  EventQueue queue;
  queue.push(30, EventKind::kArrival, 1);
  queue.push(10, EventKind::kPortFree, 2);
  queue.push(10, EventKind::kControl, 3);
  queue.push(20, EventKind::kHostTimer, (1u << EventQueue::kIndexBits) - 1);
  Event event;
  EXPECT_FALSE(queue.pop(9, event));
  ASSERT_TRUE(queue.pop(10, event));
  EXPECT_EQ(event.kind, EventKind::kPortFree);
  EXPECT_EQ(event.index, 2u);
  ASSERT_TRUE(queue.pop(10, event));
  EXPECT_EQ(event.index, 3u);
  EXPECT_FALSE(queue.pop(10, event));
  ASSERT_TRUE(queue.pop(kForever, event));
  EXPECT_EQ(event.kind, EventKind::kHostTimer);
  EXPECT_EQ(event.index, (1u << EventQueue::kIndexBits) - 1);
  ASSERT_TRUE(queue.pop(kForever, event));
  EXPECT_EQ(event.at, 30);
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.pop(kForever, event));
}

// Pushes and pops in any mixture, from within a bucket to far beyond the wheel.
RC_GTEST_PROP(EventQueue, GivesTheLeastOfWhatItHolds,
              (std::vector<std::pair<uint8_t, uint32_t>> steps)) {
  EventQueue queue;
  std::set<std::pair<Time, uint32_t>> held;
  Time now = 0;
  uint32_t made = 0;
  auto take = [&] {
    Event event;
    RC_ASSERT(queue.pop(kForever, event));
    RC_ASSERT(event.at == held.begin()->first);
    RC_ASSERT(event.index == held.begin()->second);
    held.erase(held.begin());
    now = event.at;
  };
  for (auto [what, distance] : steps) {
    if (what % 3 == 0 && !held.empty()) {
      take();
      continue;
    }
    Time at = now + (distance >> (what % 32));
    queue.push(at, EventKind::kControl, made);
    held.insert({at, made++});
  }
  while (!held.empty()) take();
  RC_ASSERT(queue.empty());
}

RC_GTEST_PROP(EventQueue, SortsLikeAStableSort, (std::vector<uint8_t> times)) {
  EventQueue queue;
  std::vector<std::pair<Time, uint32_t>> expected;
  for (uint32_t i = 0; i < times.size(); ++i) {
    queue.push(times[i], EventKind::kControl, i);
    expected.emplace_back(times[i], i);
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [at, index] : expected) {
    Event event;
    RC_ASSERT(queue.pop(kForever, event));
    RC_ASSERT(event.at == at);
    RC_ASSERT(event.index == index);
  }
  RC_ASSERT(queue.empty());
}

TEST(PacketPool, GivesNumbersBackAndTheirContentsAway) {
  PacketPool pool;
  PacketId a = pool.take();
  pool[a].bytes = 77;
  PacketId b = pool.take();
  EXPECT_NE(a, b);
  pool.give(a);
  EXPECT_EQ(pool.used(), 1u);
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(pool[a].bytes, 0u);
  EXPECT_EQ(pool.most(), 2u);
}

// --- scheduling

std::array<uint64_t, kPriorities> serve(Scheduler& scheduler, uint8_t ready, int rounds,
                                        uint32_t bytes) {
  std::array<uint64_t, kPriorities> served{};
  for (int i = 0; i < rounds; ++i)
    served[scheduler.pick(ready, [&](uint32_t) { return bytes; })] += bytes;
  return served;
}

TEST(Scheduler, StrictQueuesFirstTheHigherBeforeTheLower) {
  std::array<QueueSettings, kPriorities> queues{};
  queues[2].strict = queues[6].strict = true;
  Scheduler scheduler(queues);
  auto head = [](uint32_t) { return 1000u; };
  EXPECT_EQ(scheduler.pick(0xff, head), 6u);
  EXPECT_EQ(scheduler.pick(0xff & ~(1 << 6), head), 2u);
  EXPECT_NE(scheduler.pick(0xff & ~(1 << 6) & ~(1 << 2), head), 2u);
}

TEST(Scheduler, SharesByWeight) {
  std::array<QueueSettings, kPriorities> queues{};
  queues[0].weight = 14;
  queues[3].weight = 15;
  queues[4].weight = 60;
  Scheduler scheduler(queues);
  auto served = serve(scheduler, 1 << 0 | 1 << 3 | 1 << 4, 89'000, 1048);
  double sum = 89'000.0 * 1048;
  EXPECT_NEAR(static_cast<double>(served[0]) / sum, 14.0 / 89, 0.001);
  EXPECT_NEAR(static_cast<double>(served[3]) / sum, 15.0 / 89, 0.001);
  EXPECT_NEAR(static_cast<double>(served[4]) / sum, 60.0 / 89, 0.001);
}

TEST(Scheduler, SharesBytesNotFrames) {
  std::array<QueueSettings, kPriorities> queues{};
  Scheduler scheduler(queues);
  uint64_t small = 0, large = 0;
  for (int i = 0; i < 100'000; ++i) {
    uint32_t q = scheduler.pick(0b11, [](uint32_t queue) { return queue == 0 ? 64u : 4200u; });
    (q == 0 ? small : large) += q == 0 ? 64 : 4200;
  }
  EXPECT_NEAR(static_cast<double>(small) / static_cast<double>(large), 1.0, 0.01);
}

TEST(Scheduler, AQueueAloneOwesNothing) {
  Scheduler scheduler{std::array<QueueSettings, kPriorities>{}};
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(scheduler.pick(1 << 5, [](uint32_t) { return 9000u; }), 5u);
  auto served = serve(scheduler, 1 << 5 | 1 << 1, 1000, 1000);
  EXPECT_NEAR(static_cast<double>(served[5]), 500'000, 8'000);
}

}  // namespace
}  // namespace verbena::fabric
