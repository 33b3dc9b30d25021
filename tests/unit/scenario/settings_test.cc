// Switches and hosts: profiles, what names and ports change, what a port's rate decides.
#include <gtest/gtest.h>

#include "scenario/scenario.h"

namespace verbena::scenario {
namespace {

using fabric::kMicrosecond;
using fabric::kMillisecond;
using fabric::PortSettings;

Scenario with(const std::string& text) {
  auto scenario =
      parse_scenario("x.toml", text + "\n[[flow]]\nfrom = 0\nto = 1\nbytes = \"1KB\"\n", {});
  EXPECT_TRUE(scenario) << scenario.error().message;
  return scenario ? *scenario : Scenario{};
}
PortSettings port_with(const std::string& text) {
  return with(text).switches.at(0).port;
}

TEST(Settings, Lossy) {
  const PortSettings p = port_with("[switch]\nroce = \"lossy\"");
  EXPECT_EQ(p.pfc.tx_mask, 0);
  EXPECT_FALSE(p.groups[3].lossless);
  EXPECT_EQ(p.groups[3].headroom_bytes, 0u);
  EXPECT_EQ(p.queues[3].alpha, 1);
  EXPECT_TRUE(p.queues[3].ecn.mark);
  EXPECT_EQ(p.priority_to_queue[3], 3);
}

TEST(Settings, Off) {
  const PortSettings p = port_with("[switch]\nroce = \"off\"");
  EXPECT_EQ(p.pfc.tx_mask, 0);
  EXPECT_TRUE(p.queues[0].ecn.mark);
  EXPECT_FALSE(p.queues[3].ecn.mark);
  EXPECT_EQ(p.priority_to_queue, (std::array<uint8_t, 8>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Settings, Sonic) {
  const PortSettings p = port_with("[switch]\nprofile = \"sonic\"");
  EXPECT_EQ(p.trust, fabric::Trust::kDscp);
  EXPECT_EQ(p.dscp_to_priority[26], 1);
  EXPECT_EQ(p.dscp_to_priority[3], 3);
  EXPECT_EQ(p.dscp_to_priority[46], 5);
  EXPECT_EQ(p.priority_to_group, (std::array<uint8_t, 8>{0, 0, 0, 3, 4, 0, 0, 7}));
  EXPECT_EQ(p.pfc.tx_mask, 0x18);
  EXPECT_TRUE(p.groups[4].lossless);
  EXPECT_FALSE(p.groups[7].lossless);
  EXPECT_EQ(p.groups[3].headroom_bytes % 1024, 0u);
  EXPECT_EQ(p.queues[4].ecn.min_bytes, 1u << 20);
  EXPECT_EQ(p.queues[4].ecn.probability, 0.05);
  EXPECT_TRUE(p.queues[4].ecn.drop);
  EXPECT_EQ(p.queues[3].weight, 15u);
  EXPECT_EQ(p.queues[1].weight, 14u);
}

// params.csv of the reference: 12 MiB would be clos40's; 400G ports have four times the thresholds.
TEST(Settings, HpccNs3) {
  const Scenario s = with(
      "[scenario]\nprofile = \"hpcc-ns3\"\n[topology]\nkind = \"three-tier\"\nfabric_rate = "
      "\"400G\"");
  const fabric::SwitchSettings& tor = s.switches[0];
  EXPECT_EQ(tor.headroom, fabric::SwitchSettings::kPerPort);
  EXPECT_EQ(tor.port.groups[3].headroom_bytes, 37'500u);
  EXPECT_EQ(tor.port.groups[3].reserved_bytes, 4096u);
  EXPECT_EQ(tor.port.groups[3].xon_offset_bytes, 3072u);
  EXPECT_EQ(tor.port.groups[3].alpha, 0.125);
  EXPECT_FALSE(tor.port.pfc.expires);
  EXPECT_EQ(tor.port.queues[3].ecn.min_bytes, 400'000u);
  EXPECT_EQ(tor.port.queues[3].ecn.max_bytes, 1'600'000u);
  EXPECT_EQ(tor.port.queues[3].ecn.probability, 0.2);
  const PortSettings& up = tor.ports.at(16);
  EXPECT_EQ(up.groups[3].headroom_bytes, 150'000u);
  EXPECT_EQ(up.groups[3].alpha, 0.5);
  EXPECT_EQ(up.queues[3].ecn.min_bytes, 1'600'000u);
  EXPECT_EQ(up.queues[3].ecn.max_bytes, 6'400'000u);
  EXPECT_EQ(s.topology.links[0].settings.gap_bytes, 0u);
  const Adapter& a = s.hosts[0].adapter;
  EXPECT_EQ(a.path_mtu, 1000u);
  EXPECT_EQ(a.header_bytes, 48u);
  EXPECT_EQ(a.ack_bytes, 60u);
  EXPECT_EQ(a.ack_every, 1u);
  EXPECT_EQ(a.timeout, 0);
  EXPECT_TRUE(a.congestion.np.echo_in_acknowledgements);
  EXPECT_EQ(a.congestion.dcqcn.order, engine::DcqcnSettings::kHpccNs3);
  EXPECT_EQ(a.congestion.dcqcn.rpg_ai_rate, 20'000'000u);
  EXPECT_FALSE(s.hosts[0].port.pfc.expires);
  EXPECT_EQ(s.hosts[0].port.pfc.tx_mask, 0);
}

// Priorities that pause become lossless, with headroom; those that no longer do, lossy.
TEST(Settings, PfcDecidesClasses) {
  const PortSettings p = port_with(
      "[switch]\npriority_to_group = { 0-7 = 0, 5 = 5 }\npriority_to_queue = { 5 = 5 }\n"
      "[switch.pfc]\npriorities = [5]");
  EXPECT_FALSE(p.groups[3].lossless);
  EXPECT_EQ(p.groups[3].alpha, 8);
  EXPECT_TRUE(p.groups[5].lossless);
  EXPECT_EQ(p.groups[5].headroom_bytes, 98'368u);
  EXPECT_EQ(p.queues[5].alpha, 0);
  EXPECT_EQ(p.queues[3].alpha, 1);
}

TEST(Settings, PfcKeys) {
  const PortSettings p = port_with(
      "[switch.pfc]\nrx = [3]\ntx = [3, 4]\nquanta = 1000\nexpires = false\nrefresh = \"25%\"\n"
      "response = \"1us\"\ncable = \"40m\"");
  EXPECT_EQ(p.pfc.rx_mask, 8);
  EXPECT_EQ(p.pfc.tx_mask, 0x18);
  EXPECT_EQ(p.pfc.quanta, 1000);
  EXPECT_FALSE(p.pfc.expires);
  EXPECT_EQ(p.pfc.refresh, 0.25);
  EXPECT_EQ(p.pfc.response, kMicrosecond);
  EXPECT_EQ(p.groups[3].headroom_bytes, 63'808u);  // of 40 m, not of the link's 200
}

TEST(Settings, GroupsAndQueues) {
  const PortSettings p = port_with(
      "[switch.group]\nalpha = 0.0625\nreserved = \"10KB\"\n[switch.group.3]\nheadroom = \"1KB\"\n"
      "[switch.group.0]\nstatic = \"2MB\"\n[switch.ecn]\nmin = \"5KB\"\nmax = \"200KB\"\n"
      "probability = \"1%\"\nat = \"enqueue\"\n[switch.queue.3]\nweight = "
      "80\n[switch.queue.0.ecn]\n"
      "mark = false\n[switch.queue.5]\nmax = \"1MB\"\n[switch.queue.5.ecn]\nmax = \"2MB\"");
  EXPECT_EQ(p.groups[3].alpha, 0.0625);
  EXPECT_EQ(p.groups[3].reserved_bytes, 10'000u);
  EXPECT_EQ(p.groups[3].headroom_bytes, 1'000u);
  EXPECT_EQ(p.groups[0].reserved_bytes, 0u);
  EXPECT_FALSE(p.groups[0].dynamic);
  EXPECT_EQ(p.groups[0].static_bytes, 2'000'000u);
  EXPECT_EQ(p.queues[3].ecn.min_bytes, 5'000u);
  EXPECT_EQ(p.queues[3].ecn.probability, 0.01);
  EXPECT_EQ(p.queues[3].ecn.at, fabric::EcnSettings::kEnqueue);
  EXPECT_EQ(p.queues[3].weight, 80u);
  EXPECT_FALSE(p.queues[0].ecn.mark);
  EXPECT_EQ(p.queues[5].max_bytes, 1'000'000u);
  EXPECT_TRUE(p.queues[5].ecn.mark);
  EXPECT_FALSE(p.queues[6].ecn.mark);
}

TEST(Settings, MapsRoutingWatchdog) {
  const fabric::SwitchSettings s =
      with(
          "[switch]\ntrust = \"dscp\"\nbuffer = \"16MiB\"\nlatency = \"600ns\"\n"
          "dscp_to_priority = { 24-31 = 4, 26 = 5, default = 1 }\nremark_dscp = { 3 = 10 }\n"
          "[switch.routing]\nmode = \"flowlet\"\nflowlet_gap = \"100us\"\n[switch.watchdog]\n"
          "machine = \"sonic\"\npriorities = [3]\ndetection = \"400ms\"\naction = \"alert\"")
          .switches[0];
  EXPECT_EQ(s.buffer_bytes, 16u << 20);
  EXPECT_EQ(s.latency, 600'000);
  EXPECT_EQ(s.port.dscp_to_priority[24], 4);
  EXPECT_EQ(s.port.dscp_to_priority[0], 1);
  EXPECT_EQ(s.port.remark_dscp[3], 10);
  EXPECT_EQ(s.port.remark_dscp[4], fabric::kNoRemark);
  EXPECT_EQ(s.routing.mode, fabric::RoutingSettings::kFlowlet);
  EXPECT_EQ(s.routing.flowlet_gap, 100 * kMicrosecond);
  EXPECT_EQ(s.port.watchdog.machine, fabric::WatchdogSettings::kSonic);
  EXPECT_EQ(s.port.watchdog.mask, 8);
  EXPECT_EQ(s.port.watchdog.detection, 400 * kMillisecond);
  EXPECT_EQ(s.port.watchdog.action, fabric::WatchdogSettings::kAlert);
}

// Names begin where [switch] ends; a port where its switch ends.
TEST(Settings, NamedSwitchesAndPorts) {
  const Scenario s = with(
      "[topology]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 2\n"
      "[switch]\nmtu = \"4000B\"\n[switch.\"leaf*\"]\nmtu = \"3000B\"\nlatency = \"1us\"\n"
      "[switch.leaf1]\nmtu = \"2000B\"\n[switch.leaf1.port.0]\nlink_pause = true\n"
      "[switch.leaf1.port.spine1.pfc]\nrx = []\n");
  EXPECT_EQ(s.switches[0].port.mtu, 3000u);
  EXPECT_EQ(s.switches[1].port.mtu, 2000u);
  EXPECT_EQ(s.switches[1].latency, kMicrosecond);
  EXPECT_EQ(s.switches[2].port.mtu, 4000u);
  EXPECT_EQ(s.switches[2].latency, 0);
  ASSERT_EQ(s.switches[1].ports.size(), 2u);
  EXPECT_TRUE(s.switches[1].ports.at(0).link_pause);
  EXPECT_EQ(s.switches[1].ports.at(0).mtu, 2000u);
  EXPECT_EQ(s.switches[1].ports.at(0).groups[3].headroom_bytes,
            s.switches[1].port.groups[3].headroom_bytes);
  EXPECT_EQ(s.switches[1].ports.at(3).pfc.rx_mask, 0);
  EXPECT_EQ(s.switches[1].ports.at(3).pfc.tx_mask, 8);
  EXPECT_TRUE(s.switches[0].ports.empty());
  EXPECT_EQ(s.lines.at("switch.leaf1.mtu"), 12);
}

TEST(Settings, Hosts) {
  const Scenario s = with(
      "[topology]\nhosts = 12\n[host]\npath_mtu = \"4096B\"\ndscp = 10\nwindow = \"64KiB\"\n"
      "[host.\"h1*\"]\ncongestion = \"swift\"\n[host.h11.receive]\nrate = \"40G\"\n"
      "[host.h0.dcqcn]\nprofile = \"paper\"\nrpg_gd = 10\nrpg_max_rate = \"50G\"\n"
      "[host.h0.np]\ncnp_dscp = 40\n[host.h2.storm]\npriorities = [3]\nfrom = \"5us\"");
  EXPECT_EQ(s.hosts[5].adapter.path_mtu, 4096u);
  EXPECT_EQ(s.hosts[5].adapter.dscp, 10);
  EXPECT_EQ(s.hosts[5].adapter.window_bytes, 65'536u);
  using C = engine::CongestionSettings;
  EXPECT_EQ(s.hosts[5].adapter.congestion.algorithm, C::kDcqcn);
  EXPECT_EQ(s.hosts[1].adapter.congestion.algorithm, C::kSwift);
  EXPECT_EQ(s.hosts[11].adapter.congestion.algorithm, C::kSwift);
  EXPECT_EQ(s.hosts[11].port.receive_bits_per_second, 40'000'000'000u);
  EXPECT_EQ(s.hosts[10].port.receive_bits_per_second, 0u);
  const C& first = s.hosts[0].adapter.congestion;
  EXPECT_EQ(first.dcqcn.order, engine::DcqcnSettings::kPaper);
  EXPECT_EQ(first.dcqcn.rpg_gd, 10u);
  EXPECT_EQ(first.dcqcn.rpg_max_rate, 50'000'000'000u);
  EXPECT_EQ(first.dcqcn.rpg_byte_reset, 10'000'000u);
  EXPECT_EQ(first.np.min_time_between_cnps, microseconds(50));
  EXPECT_EQ(first.np.cnp_dscp, 40);
  EXPECT_EQ(s.hosts[2].port.storm_mask, 8);
  EXPECT_EQ(s.hosts[2].port.storm_from, 5 * kMicrosecond);
  EXPECT_EQ(s.hosts[2].port.storm_until, fabric::kForever);
}

TEST(Settings, LinksEventsExpectations) {
  const Scenario s = with(
      "[topology]\nkind = \"dumbbell\"\ncable = \"100m\"\nfabric_rate = \"40G\"\nfabric_delay = "
      "\"10us\"\n[[link]]\na = \"h0\"\nb = \"s0\"\nrate = \"25G\"\n"
      "[[event]]\na = \"s0\"\nb = \"s1\"\nat = \"2us\"\nuntil = \"3us\"\n"
      "[[event]]\nkind = \"storm\"\nhost = \"h1\"\nat = \"1us\"\n"
      "[expect]\ndrops = \"<= 5\"\ndeadlock = true\njain = \"0.9..1\"\npauses = 3");
  EXPECT_EQ(s.topology.links[0].settings.bits_per_second, 25'000'000'000u);
  EXPECT_EQ(s.topology.links[1].settings.bits_per_second, 100'000'000'000u);
  EXPECT_EQ(s.topology.links[1].settings.delay, 500'000);
  EXPECT_EQ(s.topology.links[1].cable_metres, 100);
  const Link& trunk = s.topology.links.back();
  EXPECT_EQ(trunk.settings.bits_per_second, 40'000'000'000u);
  EXPECT_EQ(trunk.settings.delay, 10 * kMicrosecond);
  EXPECT_EQ(trunk.cable_metres, 0);
  ASSERT_EQ(trunk.changes.size(), 2u);
  EXPECT_EQ(trunk.changes[0].at, 2 * kMicrosecond);
  EXPECT_FALSE(trunk.changes[0].up);
  EXPECT_TRUE(trunk.changes[1].up);
  EXPECT_EQ(s.hosts[1].port.storm_mask, 8);
  ASSERT_EQ(s.expectations.size(), 4u);  // by name
  EXPECT_EQ(s.expectations[0].key, "deadlock");
  EXPECT_EQ(s.expectations[0].least, 1);
  EXPECT_EQ(s.expectations[1].key, "drops");
  EXPECT_EQ(s.expectations[1].most, 5);
  EXPECT_EQ(s.expectations[1].text, "<= 5");
  EXPECT_EQ(s.expectations[2].least, 0.9);
  EXPECT_EQ(s.expectations[3].least, 3);
  EXPECT_EQ(s.expectations[3].most, 3);
  EXPECT_EQ(s.expectations[3].line, 23);
}

TEST(Settings, FlowsWaitForFlows) {
  const Scenario s = with(
      "[[flow]]\nname = \"a\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"1MB\"\n"
      "[[flow]]\nfrom = 1\nto = 0\nbytes = \"2KB\"\nverb = \"read\"\nafter = [\"a\"]\n"
      "start = \"5us\"\ndscp = 3\ngroup = \"g\"");
  ASSERT_EQ(s.flows.size(), 3u);
  EXPECT_EQ(s.flows[0].group, "a");
  EXPECT_EQ(s.flows[0].dscp, 0xff);
  EXPECT_EQ(s.flows[1].after, std::vector<uint32_t>{0});
  EXPECT_EQ(s.flows[1].start, 5 * kMicrosecond);
  EXPECT_EQ(s.flows[1].verb, Verb::kRead);
  EXPECT_EQ(s.flows[1].dscp, 3);
  EXPECT_EQ(s.flows[1].group, "g");
}

// A workload that is added leaves the flows before it as they were.
TEST(Settings, WorkloadsHaveSeedsOfTheirOwn) {
  const std::string one =
      "[scenario]\nduration = \"1ms\"\n[topology]\nhosts = 4\n[[workload]]\n"
      "kind = \"poisson\"\ncdf = \"FbHdp\"\n";
  const Scenario alone = with(one);
  const Scenario both = with(one + "[[workload]]\nkind = \"permutation\"\n");
  ASSERT_EQ(both.flows.size(), alone.flows.size() + 4);
  for (size_t i = 0; i < alone.flows.size(); ++i) {
    EXPECT_EQ(both.flows[i].start, alone.flows[i].start);
    EXPECT_EQ(both.flows[i].bytes, alone.flows[i].bytes);
  }
  const Scenario other =
      with("[scenario]\nduration = \"1ms\"\nseed = 2\n" + one.substr(one.find("[topology]")));
  EXPECT_NE(other.flows[1].start, alone.flows[1].start);
}

}  // namespace
}  // namespace verbena::scenario
