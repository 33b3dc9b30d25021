// The two watchdogs against a storm, against ordinary pauses, and their way back.
#include "fabric/watchdog.h"

#include <gtest/gtest.h>

#include "fabric/network.h"
#include "generator.h"

namespace verbena::fabric {
namespace {

using test::kEndlessCount;
using test::lossless_switch;
using test::plain_link;
using test::Star;

// Host 0 sends to host 1, which storms from 1 ms to 21 ms.
struct Storm {
  explicit Storm(const WatchdogSettings& watchdog, Time until = 21 * kMillisecond) : network(1) {
    SwitchSettings settings = lossless_switch();
    settings.port.watchdog = watchdog;
    HostSettings storm = Star::obeying();
    storm.storm_mask = 1 << 3;
    storm.storm_from = kMillisecond;
    storm.storm_until = until;
    network.add_host(Star::obeying());
    network.add_host(storm);
    network.add_switch(settings);
    for (uint32_t h : {0u, 1u}) network.connect(h, 2, plain_link());
    network.finish();
    for (uint32_t h : {0u, 1u}) {
      hosts.push_back(std::make_unique<test::Generator>(network, h));
      hosts.back()->keep = false;
    }
    hosts[0]->send(1, kEndlessCount);
  }
  const std::vector<WatchdogEvent>& events() { return network.switch_at(0).watchdog_events(); }
  uint64_t dropped() { return network.port(network.port_of(2, 1)).counters.drops[size_t{7}]; }
  Network network;
  std::vector<std::unique_ptr<test::Generator>> hosts;
};

WatchdogSettings sonic(WatchdogSettings::Action action) {
  WatchdogSettings settings;
  settings.machine = WatchdogSettings::kSonic;
  settings.poll = kMillisecond;
  settings.detection = 4 * kMillisecond;
  settings.restoration = 5 * kMillisecond;
  settings.action = action;
  return settings;
}

TEST(Watchdog, SonicDetectsDropsAndRestores) {
  Storm storm(sonic(WatchdogSettings::kDrop));
  storm.network.run(40 * kMillisecond);
  ASSERT_EQ(storm.events().size(), 2u);
  EXPECT_TRUE(storm.events()[0].storm);
  EXPECT_EQ(storm.events()[0].port, 1);
  EXPECT_EQ(storm.events()[0].queue, 3);
  EXPECT_GE(storm.events()[0].at, 5 * kMillisecond);
  EXPECT_LE(storm.events()[0].at, 7 * kMillisecond);
  EXPECT_FALSE(storm.events()[1].storm);
  EXPECT_GE(storm.events()[1].at, 26 * kMillisecond);
  EXPECT_LE(storm.events()[1].at, 28 * kMillisecond);
  EXPECT_GT(storm.dropped(), 1000u);
  // Traffic flows again afterwards.
  uint64_t before = storm.hosts[1]->received_bytes;
  storm.network.run(42 * kMillisecond);
  EXPECT_GT(storm.hosts[1]->received_bytes, before + 20'000'000);
}

TEST(Watchdog, SonicForwardsInSpiteOfThePauses) {
  Storm storm(sonic(WatchdogSettings::kForward));
  storm.network.run(20 * kMillisecond);
  EXPECT_EQ(storm.events().size(), 1u);
  EXPECT_EQ(storm.dropped(), 0u);
  EXPECT_GT(storm.hosts[1]->received_bytes, 150'000'000u);
}

TEST(Watchdog, SonicOnlySaysSo) {
  Storm storm(sonic(WatchdogSettings::kAlert));
  storm.network.run(20 * kMillisecond);
  EXPECT_EQ(storm.events().size(), 1u);
  EXPECT_EQ(storm.dropped(), 0u);
  EXPECT_LT(storm.hosts[1]->received_bytes, 14'000'000u);
}

TEST(Watchdog, CumulusDetectsAfterThreePolls) {
  WatchdogSettings settings;
  settings.machine = WatchdogSettings::kCumulus;
  settings.poll = kMillisecond;
  settings.robustness = 3;
  Storm storm(settings);
  storm.network.run(40 * kMillisecond);
  ASSERT_EQ(storm.events().size(), 2u);
  EXPECT_TRUE(storm.events()[0].storm);
  EXPECT_GE(storm.events()[0].at, 4 * kMillisecond);
  EXPECT_LE(storm.events()[0].at, 5 * kMillisecond);
  EXPECT_FALSE(storm.events()[1].storm);
  EXPECT_LE(storm.events()[1].at, 23 * kMillisecond);
}

TEST(Watchdog, OrdinaryPausesAreNoStorm) {
  SwitchSettings settings = lossless_switch();
  settings.port.watchdog = sonic(WatchdogSettings::kDrop);
  Star star(5, settings);
  for (uint32_t h = 0; h < 5; ++h) star.host(h).keep = false;
  for (uint32_t h = 0; h < 4; ++h) star.host(h).send(4, kEndlessCount);
  star.network.run(30 * kMillisecond);
  EXPECT_GT(star.network.pause_frames(), 1000u);
  EXPECT_TRUE(star.network.switch_at(0).watchdog_events().empty());
}

// It watches priorities; which queue they stop is the port's own matter.
TEST(Watchdog, FollowsThePrioritysQueue) {
  SwitchSettings settings = lossless_switch();
  settings.port.priority_to_queue[3] = 5;
  settings.port.pfc_priority_to_queue[3] = 5;
  settings.port.watchdog = sonic(WatchdogSettings::kDrop);
  settings.port.watchdog.mask = 1 << 3;
  HostSettings storm = Star::obeying();
  storm.storm_mask = 1 << 3;
  Network network(1);
  network.add_host(Star::obeying());
  network.add_host(storm);
  network.add_switch(settings);
  for (uint32_t h : {0u, 1u}) network.connect(h, 2, plain_link());
  network.finish();
  test::Generator sender(network, 0), receiver(network, 1);
  sender.send(1, kEndlessCount);
  network.run(20 * kMillisecond);
  const auto& events = network.switch_at(0).watchdog_events();
  ASSERT_GE(events.size(), 1u);
  EXPECT_EQ(events[0].queue, 5);
}

}  // namespace
}  // namespace verbena::fabric
