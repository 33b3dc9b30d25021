// Frames through switches: exact times, drops by cause, marks, remarks, links that fail, one trace
// for one seed.
#include "fabric/network.h"

#include <gtest/gtest.h>

#include "generator.h"

namespace verbena::fabric {
namespace {

using test::Generator;
using test::kEndlessCount;
using test::lossless_switch;
using test::plain_link;
using test::Star;

uint64_t drops(const Network& network, DropCause cause) {
  uint64_t sum = 0;
  for (PortId id = 0; id < network.ports(); ++id)
    sum += network.port(id).counters.drops[static_cast<size_t>(cause)];
  return sum;
}

TEST(Network, AFrameTakesSerialisationAndDelayAtEveryHop) {
  Star star(2, lossless_switch());
  star.host(0).send(1, 3);
  star.network.run(kMillisecond);
  ASSERT_EQ(star.host(1).arrivals.size(), 3u);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(star.host(1).arrivals[static_cast<size_t>(i)].at,
              2 * (83'840 + kMicrosecond) + i * 83'840);
  EXPECT_EQ(star.network.now(), kMillisecond);
  EXPECT_EQ(star.network.packet_hops(), 6u);
  EXPECT_EQ(star.network.packets_inside(), 0u);
}

TEST(Network, GapsAndLatencyCount) {
  SwitchSettings settings = lossless_switch();
  settings.latency = 500 * kNanosecond;
  LinkSettings link = plain_link();
  link.gap_bytes = 20;
  Star star(2, settings, link);
  star.host(0).send(1, 1, 1048);
  star.network.run(kMillisecond);
  ASSERT_EQ(star.host(1).arrivals.size(), 1u);
  EXPECT_EQ(star.host(1).arrivals[0].at, 2 * (85'440 + kMicrosecond) + 500 * kNanosecond);
}

TEST(Network, AtMostTwoEventsForAHop) {
  Star star(5, lossless_switch());
  for (uint32_t h = 0; h < 4; ++h) star.host(h).send(4, 2000);
  star.network.run(10 * kMillisecond);
  EXPECT_EQ(star.network.packet_hops(), 16'000u);
  EXPECT_LT(static_cast<double>(star.network.events()), 2.05 * 16'000);
}

TEST(Network, OneSeedOneTrace) {
  auto hash = [](uint64_t seed) {
    SwitchSettings settings = lossless_switch();
    for (QueueSettings& queue : settings.port.queues) {
      queue.ecn.mark = true;
      queue.ecn.min_bytes = 5'000;
      queue.ecn.max_bytes = 200'000;
      queue.ecn.probability = 0.1;
    }
    Star star(4, settings, plain_link(), seed);
    for (uint32_t h = 0; h < 3; ++h) star.host(h).send(3, 500);
    star.network.run(kMillisecond);
    EXPECT_GT(star.host(3).marks, 0u);
    return star.network.trace_hash();
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

TEST(Network, ALossyClassDropsAtTheTail) {
  SwitchSettings settings = lossless_switch();
  settings.port.queues[1].max_bytes = 10'480;  // ten frames
  Star star(3, settings);
  star.host(0).send(2, 100, 1048, 1);
  star.host(1).send(2, 100, 1048, 1);
  star.network.run(kMillisecond);
  EXPECT_EQ(star.host(2).arrivals.size() + drops(star.network, DropCause::kTail), 200u);
  EXPECT_NEAR(static_cast<double>(drops(star.network, DropCause::kTail)), 89, 3);
  EXPECT_EQ(star.network.port(star.egress(2)).counters.most_bytes[1], 10'480u);
}

TEST(Network, MarksAboveKmaxAlwaysAndBelowKminNever) {
  SwitchSettings settings = lossless_switch();
  EcnSettings& ecn = settings.port.queues[3].ecn;
  ecn.mark = true;
  ecn.min_bytes = ecn.max_bytes = 20'960;
  ecn.at = EcnSettings::kEnqueue;
  Star star(3, settings);
  star.host(0).send(2, 100);
  star.host(1).send(2, 100);
  star.network.run(kMillisecond);
  // The queue grows by one frame for two that come: the first 20 of it stay unmarked.
  uint64_t unmarked = star.host(2).arrivals.size() - star.host(2).marks;
  EXPECT_EQ(star.host(2).arrivals.size(), 200u);
  EXPECT_NEAR(static_cast<double>(unmarked), 42, 3);
}

TEST(Network, NotEctIsNeverMarkedButDroppedByWred) {
  SwitchSettings settings = lossless_switch();
  EcnSettings& ecn = settings.port.queues[1].ecn;
  ecn.mark = ecn.drop = true;
  ecn.min_bytes = ecn.max_bytes = 10'480;
  Star star(3, settings);
  for (uint32_t h : {0u, 1u}) star.host(h).send(2, 100, 1048, 1, kNotEct);
  star.network.run(kMillisecond);
  EXPECT_EQ(star.host(2).marks, 0u);
  EXPECT_GT(drops(star.network, DropCause::kWred), 80u);
  EXPECT_EQ(star.host(2).arrivals.size() + drops(star.network, DropCause::kWred), 200u);
}

TEST(Network, TtlAndMtuAreChecked) {
  SwitchSettings settings = lossless_switch();
  settings.port.mtu = 1500;
  Star star(2, settings);
  star.host(0).send(1, 1, 1518);
  star.host(0).send(1, 1, 1519);
  star.network.run(kMillisecond);
  EXPECT_EQ(star.host(1).arrivals.size(), 1u);
  EXPECT_EQ(drops(star.network, DropCause::kMtu), 1u);
  star.host(0).ttl = 1;
  star.host(0).send(1, 1);
  star.network.run(2 * kMillisecond);
  EXPECT_EQ(drops(star.network, DropCause::kTtl), 1u);
}

TEST(Network, PriorityByDscpByPcpByPort) {
  for (Trust trust : {Trust::kDscp, Trust::kPcp, Trust::kPort}) {
    SwitchSettings settings;
    settings.port.trust = trust;
    settings.port.default_priority = 2;
    settings.port.dscp_to_priority[5 * 8] = 4;
    settings.port.pcp_to_priority[5] = 6;
    settings.port.remark_dscp[4] = 33;
    Star star(2, settings);
    star.host(0).send(1, 1, 1048, 5);
    star.network.run(kMillisecond);
    ASSERT_EQ(star.host(1).arrivals.size(), 1u);
    const Packet& got = star.host(1).arrivals[0].packet;
    EXPECT_EQ(got.priority, trust == Trust::kDscp ? 4 : trust == Trust::kPcp ? 6 : 2);
    EXPECT_EQ(got.dscp, trust == Trust::kDscp ? 33 : 40);
  }
}

// --- two ways between two switches

struct TwoWays {
  explicit TwoWays(RoutingSettings::Mode mode) : network(7) {
    SwitchSettings settings = lossless_switch();
    settings.routing.mode = mode;
    settings.routing.flowlet_gap = 2 * kMicrosecond;
    for (int h = 0; h < 2; ++h) network.add_host(Star::obeying());
    network.add_switch(settings);
    network.add_switch(settings);
    network.connect(0, 2, plain_link());
    network.connect(1, 3, plain_link());
    first = network.connect(2, 3, plain_link());
    second = network.connect(2, 3, plain_link());
    network.finish();
    for (uint32_t h = 0; h < 2; ++h) hosts.push_back(std::make_unique<Generator>(network, h));
  }
  uint64_t frames(PortId port) const { return network.port(port).counters.tx_packets; }
  Network network;
  PortId first, second;
  std::vector<std::unique_ptr<Generator>> hosts;
};

TEST(Routing, EcmpKeepsAFlowOnOneWayAndSpreadsMany) {
  TwoWays ways(RoutingSettings::kEcmp);
  ways.hosts[0]->send(1, 100);
  ways.network.run(kMillisecond);
  EXPECT_EQ(std::min(ways.frames(ways.first), ways.frames(ways.second)), 0u);
  ways.hosts[0]->new_port_each_time = true;
  ways.hosts[0]->send(1, 1000);
  ways.network.run(2 * kMillisecond);
  EXPECT_GT(std::min(ways.frames(ways.first), ways.frames(ways.second)), 400u);
  EXPECT_EQ(ways.hosts[1]->arrivals.size(), 1100u);
}

TEST(Routing, AdaptiveSpreadsOneFlowByPacket) {
  TwoWays ways(RoutingSettings::kAdaptive);
  ways.hosts[0]->send(1, 1000);
  ways.network.run(kMillisecond);
  EXPECT_NEAR(static_cast<double>(ways.frames(ways.first)), 500, 60);
  EXPECT_EQ(ways.hosts[1]->arrivals.size(), 1000u);
}

TEST(Routing, AFlowletStaysUntilItPauses) {
  TwoWays ways(RoutingSettings::kFlowlet);
  ways.hosts[0]->send(1, 1000);
  ways.network.run(kMillisecond);
  EXPECT_EQ(std::min(ways.frames(ways.first), ways.frames(ways.second)), 0u);
  for (int burst = 0; burst < 200; ++burst) {
    ways.hosts[0]->send(1, 2);
    ways.network.run(ways.network.now() + 10 * kMicrosecond);
  }
  EXPECT_GT(std::min(ways.frames(ways.first), ways.frames(ways.second)), 50u);
}

TEST(Links, WhatIsOnALinkThatFailsIsLostAndTheRestGoesAround) {
  TwoWays ways(RoutingSettings::kEcmp);
  ways.hosts[0]->send(1, 1000);
  ways.network.run(20 * kMicrosecond);
  PortId used = ways.frames(ways.first) > 0 ? ways.first : ways.second;
  PortId other = used == ways.first ? ways.second : ways.first;
  ways.network.set_link(used, false);
  ways.network.run(kMillisecond);
  uint64_t lost = drops(ways.network, DropCause::kLinkDown);
  EXPECT_GE(lost, 10u);  // a microsecond of cable
  EXPECT_LE(lost, 14u);
  EXPECT_EQ(ways.hosts[1]->arrivals.size() + lost, 1000u);
  EXPECT_GT(ways.frames(other), 500u);
  ways.network.set_link(used, true);
  ways.hosts[0]->send(1, 10);
  ways.network.run(2 * kMillisecond);
  EXPECT_EQ(ways.hosts[1]->arrivals.size() + lost, 1010u);
  EXPECT_EQ(ways.network.packets_inside(), 0u);
}

TEST(Links, WithoutAnyWayFramesAreDroppedAsSuch) {
  TwoWays ways(RoutingSettings::kEcmp);
  ways.network.set_link(ways.first, false);
  ways.network.set_link(ways.second, false);
  ways.hosts[0]->send(1, 5);
  ways.network.run(kMillisecond);
  EXPECT_EQ(drops(ways.network, DropCause::kNoRoute), 5u);
}

TEST(Network, WithoutMarksWredDropsEctToo) {
  SwitchSettings settings = lossless_switch();
  EcnSettings& ecn = settings.port.queues[1].ecn;
  ecn.drop = true;
  ecn.min_bytes = ecn.max_bytes = 10'480;
  Star star(3, settings);
  for (uint32_t h : {0u, 1u}) star.host(h).send(2, 100, 1048, 1, kEct0);
  star.network.run(kMillisecond);
  EXPECT_EQ(star.host(2).marks, 0u);
  EXPECT_GT(drops(star.network, DropCause::kWred), 80u);
}

}  // namespace
}  // namespace verbena::fabric
