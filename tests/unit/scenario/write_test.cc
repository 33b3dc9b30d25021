// What is written is read back as the same settings.
#include "scenario/write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parsed.h"

namespace verbena::scenario {
namespace {

using fabric::PortSettings;

constexpr char kStar[] =
    "[topology]\nkind = \"star\"\nhosts = 4\ncable = \"100m\"\n\n"
    "[[workload]]\nkind = \"incast\"\nto = 0\nbytes = \"1MB\"\n\n";

// Reads what was written, writes that, and reads again: from the second time on it is the same
// text.
Scenario round_trip(const Imported& imported) {
  Scenario first = parsed(kStar + import_toml(imported, "s0"));
  if (first.switches.empty()) return first;
  const std::string text =
      switch_toml(first.switches[0], imported.formula, "s0") + "\n" + host_toml(first.hosts[0]);
  const Scenario second = parsed(kStar + text);
  if (second.switches.empty()) return second;
  EXPECT_EQ(text, switch_toml(second.switches[0], imported.formula, "s0") + "\n" +
                      host_toml(second.hosts[0]));
  return first;
}

TEST(Write, NvueRoce) {
  const Imported imported = import_text(Format::kNvue, "nv set qos roce\n");
  EXPECT_EQ(import_toml(imported, "s0"),
            "[switch]\n"
            "profile = \"none\"\n"
            "headroom_formula = \"sonic\"\n"
            "priority_to_queue = { 1-2 = 0, 4-5 = 0, 7 = 0 }\n"
            "priority_to_group = { 1-2 = 0, 4-5 = 0, 7 = 0 }\n"
            "\n"
            "[switch.pfc]\n"
            "priorities = [3]\n"
            "cable = \"100m\"\n"
            "\n"
            "[switch.queue.0]\n"
            "weight = 50\n"
            "\n"
            "[switch.queue.0.ecn]\n"
            "mark = true\n"
            "\n"
            "[switch.queue.3]\n"
            "weight = 50\n"
            "\n"
            "[switch.queue.3.ecn]\n"
            "mark = true\n"
            "\n"
            "[switch.queue.6]\n"
            "strict = true\n");
  const Scenario scenario = round_trip(imported);
  ASSERT_EQ(scenario.switches.size(), 1u);
  const PortSettings& port = scenario.switches[0].port;
  EXPECT_EQ(port.pfc.tx_mask, 1u << 3);
  EXPECT_TRUE(port.groups[3].lossless);
  EXPECT_EQ(port.groups[3].headroom_bytes, sonic_headroom(100'000'000'000, 100, 9216).xoff_bytes);
  EXPECT_EQ(port.groups[3].xon_offset_bytes, 2000u);
  EXPECT_TRUE(port.queues[3].ecn.mark);
  EXPECT_TRUE(port.queues[6].strict);
}

TEST(Write, PortsThatDiffer) {
  const Imported imported =
      import_text(Format::kNvue,
                  "nv set qos roce\n"
                  "nv set interface swp1-3 qos pfc-watchdog state enable\n"
                  "nv set qos pfc other switch-priority 4\n"
                  "nv set qos pfc other xoff-threshold 60000\n"
                  "nv set qos pfc other port-buffer 160000\n"
                  "nv set qos congestion-control cc traffic-class 4 min-threshold 40000\n"
                  "nv set qos congestion-control cc traffic-class 4 probability 20\n"
                  "nv set interface swp2 qos pfc profile other\n"
                  "nv set interface swp2 qos congestion-control profile cc\n");
  EXPECT_FALSE(imported.failed());
  EXPECT_THAT(import_toml(imported, "s0"), testing::HasSubstr("[switch.s0.port.1]  # swp2\n"));
  const Scenario scenario = round_trip(imported);
  ASSERT_EQ(scenario.switches.size(), 1u);
  const fabric::SwitchSettings& settings = scenario.switches[0];
  EXPECT_EQ(settings.port.watchdog.machine, fabric::WatchdogSettings::kOff);
  EXPECT_EQ(settings.ports.at(0).watchdog.machine, fabric::WatchdogSettings::kCumulus);
  EXPECT_EQ(settings.ports.at(0).watchdog.mask, 1u << 3);
  const PortSettings& port = settings.ports.at(1);
  EXPECT_EQ(port.pfc.tx_mask, 1u << 4);
  EXPECT_FALSE(port.groups[3].lossless);
  EXPECT_FALSE(port.groups[4].dynamic);
  EXPECT_EQ(port.groups[4].static_bytes, 60'000u);
  EXPECT_EQ(port.groups[4].headroom_bytes, 100'000u);
  EXPECT_FALSE(port.queues[3].ecn.mark);
  EXPECT_TRUE(port.queues[4].ecn.mark);
  EXPECT_EQ(port.queues[4].ecn.min_bytes, 40'000u);
  EXPECT_EQ(port.queues[4].ecn.probability, 0.2);
}

TEST(Write, SonicAndHosts) {
  Imported imported =
      import_text(Format::kSonic,
                  R"({"PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet4": {"speed": "100000"}},
          "PORT_QOS_MAP": {"Ethernet0,Ethernet4": {"dscp_to_tc_map": "AZURE", "tc_to_pg_map":
            "AZURE", "tc_to_queue_map": "AZURE", "pfc_to_queue_map": "AZURE",
            "pfc_enable": "3,4"}},
          "BUFFER_PROFILE": {"p": {"xoff": "170000", "size": "1248", "xon_offset": "2288",
            "dynamic_th": "-3"}},
          "BUFFER_PG": {"Ethernet0,Ethernet4|3-4": {"profile": "p"}},
          "PFC_WD": {"Ethernet4": {"action": "alert", "detection_time": "400"}}})");
  const Imported host = import_text(Format::kLinux,
                                    "mlnx_qos -i eth0 --trust dscp --pfc 0,0,0,1,0,0,0,0\n"
                                    "cma_roce_tos -d mlx5_0 -t 14\n"
                                    "echo 20 > /sys/class/net/eth0/ecn/roce_rp/rpg_ai_rate\n");
  imported.host = host.host;
  imported.has_host = true;
  const Scenario scenario = round_trip(imported);
  ASSERT_EQ(scenario.switches.size(), 1u);
  const PortSettings& port = scenario.switches[0].port;
  EXPECT_EQ(port.trust, fabric::Trust::kDscp);
  EXPECT_EQ(port.dscp_to_priority[26], 1);
  EXPECT_EQ(port.groups[4].headroom_bytes, 170'000u);
  EXPECT_EQ(port.groups[4].reserved_bytes, 1'248u);
  EXPECT_EQ(port.groups[3].alpha, 0.125);
  const PortSettings& watched = scenario.switches[0].ports.at(1);
  EXPECT_EQ(watched.watchdog.action, fabric::WatchdogSettings::kAlert);
  EXPECT_EQ(watched.watchdog.detection, 400 * fabric::kMillisecond);
  EXPECT_EQ(scenario.hosts[0].adapter.dscp, 3);
  EXPECT_EQ(scenario.hosts[0].adapter.congestion.dcqcn.rpg_ai_rate, 20'000'000u);
}

TEST(Write, SectionsAreReplaced) {
  const std::string text =
      "[scenario]\nseed = 2\n\n[switch]\nbuffer = \"1MiB\"\n[switch.s0.port.1]\nmtu = 1\n"
      "[[flow]]\nfrom = 0\n[switches]\n";
  EXPECT_EQ(replace_sections(text, "switch", "[switch]\nnew = 1\n"),
            "[scenario]\nseed = 2\n\n[[flow]]\nfrom = 0\n[switches]\n\n[switch]\nnew = 1\n");
  EXPECT_EQ(replace_sections("", "host", "[host]\n"), "[host]\n");
}

}  // namespace
}  // namespace verbena::scenario
