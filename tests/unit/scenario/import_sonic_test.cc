// CONFIG_DB: what each table sets, both styles of references, and what is said with its line.
#include "scenario/import_sonic.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "said.h"
#include "scenario/headroom.h"
#include "scenario/sonic_file.h"

namespace verbena::scenario {
namespace {

using fabric::PortSettings;
using fabric::Trust;
using fabric::WatchdogSettings;
using testing::ElementsAre;
using testing::IsEmpty;

// A switch of two ports as SONiC's own templates set it up.
constexpr char kWhole[] = R"({
  "PORT": {
    "Ethernet0": {"speed": "100000", "mtu": "9100", "lanes": "1,2,3,4"},
    "Ethernet4": {"speed": "400000", "mtu": "9100", "lanes": "5,6,7,8"}
  },
  "DSCP_TO_TC_MAP": {"AZURE": {"3": "3", "26": "3", "48": "6", "0": "1"}},
  "TC_TO_QUEUE_MAP": {"AZURE": {"0": "0", "1": "1", "3": "3", "4": "4", "6": "6"}},
  "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {"0": "0", "1": "0", "3": "3", "4": "4", "6": "0"}},
  "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {"3": "3", "4": "4"}},
  "PORT_QOS_MAP": {
    "Ethernet0,Ethernet4": {
      "dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]",
      "tc_to_queue_map": "[TC_TO_QUEUE_MAP|AZURE]",
      "tc_to_pg_map": "AZURE",
      "pfc_to_queue_map": "AZURE",
      "pfc_enable": "3,4",
      "pfcwd_sw_enable": "3,4"
    }
  },
  "WRED_PROFILE": {
    "AZURE_LOSSLESS": {"ecn": "ecn_all", "wred_green_enable": "true",
      "green_min_threshold": "1048576", "green_max_threshold": "2097152",
      "green_drop_probability": "5", "wred_red_enable": "true"}
  },
  "SCHEDULER": {
    "scheduler.0": {"type": "DWRR", "weight": "14"},
    "scheduler.1": {"type": "DWRR", "weight": "15"},
    "scheduler.2": {"type": "STRICT"}
  },
  "QUEUE": {
    "Ethernet0,Ethernet4|3-4": {"scheduler": "[SCHEDULER|scheduler.1]",
                                "wred_profile": "[WRED_PROFILE|AZURE_LOSSLESS]"},
    "Ethernet0|0-2": {"scheduler": "scheduler.0"},
    "Ethernet4|6": {"scheduler": "scheduler.2"}
  },
  "BUFFER_POOL": {
    "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "26284032"},
    "egress_lossless_pool": {"type": "egress", "mode": "static", "size": "32575488"}
  },
  "BUFFER_PROFILE": {
    "ingress_lossy_profile": {"pool": "[BUFFER_POOL|ingress_lossless_pool]", "size": "0",
                              "dynamic_th": "3"},
    "pg_lossless_100000_40m_profile": {"pool": "ingress_lossless_pool", "size": "1248",
      "xon": "2288", "xoff": "177632", "xon_offset": "2288", "dynamic_th": "-3"},
    "egress_lossy_profile": {"pool": "egress_lossless_pool", "size": "1518", "dynamic_th": "3"}
  },
  "BUFFER_PG": {
    "Ethernet0|0": {"profile": "[BUFFER_PROFILE|ingress_lossy_profile]"},
    "Ethernet0|3-4": {"profile": "pg_lossless_100000_40m_profile"},
    "Ethernet4|3-4": {"profile": "NULL"}
  },
  "BUFFER_QUEUE": {"Ethernet0,Ethernet4|0-2": {"profile": "egress_lossy_profile"}},
  "CABLE_LENGTH": {"AZURE": {"Ethernet0": "40m", "Ethernet4": "5m"}},
  "PFC_WD": {
    "GLOBAL": {"POLL_INTERVAL": "300"},
    "Ethernet0": {"action": "forward", "detection_time": "200", "restoration_time": "500"},
    "Ethernet4": {"detection_time": "400"}
  },
  "VLAN": {"Vlan1000": {"vlanid": "1000"}}
})";

TEST(ImportSonic, MapsAndPfc) {
  const Imported imported = import_sonic(kWhole, {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_THAT(imported.port_names,
              ElementsAre(testing::Pair(0, "Ethernet0"), testing::Pair(1, "Ethernet4")));
  for (uint32_t number : {0u, 1u}) {
    const PortSettings& port = imported.settings.ports.at(number);
    EXPECT_EQ(port.trust, Trust::kDscp);
    EXPECT_EQ(port.dscp_to_priority[26], 3);
    EXPECT_EQ(port.dscp_to_priority[48], 6);
    EXPECT_EQ(port.dscp_to_priority[0], 1);
    EXPECT_EQ(port.dscp_to_priority[46], 0);  // what the map does not name is class 0
    EXPECT_THAT(port.priority_to_queue, ElementsAre(0, 1, 0, 3, 4, 0, 6, 0));
    EXPECT_THAT(port.priority_to_group, ElementsAre(0, 0, 0, 3, 4, 0, 0, 0));
    EXPECT_EQ(port.pfc.rx_mask, 0x18);
    EXPECT_EQ(port.pfc.tx_mask, 0x18);
    EXPECT_EQ(port.mtu, 9100u);
  }
  EXPECT_EQ(imported.lines.at("switch.port.1.dscp.26"), 6);
}

TEST(ImportSonic, QueuesAndMarks) {
  const Imported imported = import_sonic(kWhole, {});
  const PortSettings& port = imported.settings.ports.at(0);
  for (uint32_t q : {3u, 4u}) {
    EXPECT_TRUE(port.queues[q].ecn.mark);
    EXPECT_TRUE(port.queues[q].ecn.drop);
    EXPECT_EQ(port.queues[q].ecn.min_bytes, 1'048'576u);
    EXPECT_EQ(port.queues[q].ecn.max_bytes, 2'097'152u);
    EXPECT_EQ(port.queues[q].ecn.probability, 0.05);
    EXPECT_EQ(port.queues[q].weight, 15u);
  }
  EXPECT_FALSE(port.queues[0].ecn.mark);
  EXPECT_EQ(port.queues[0].weight, 14u);
  EXPECT_EQ(port.queues[0].alpha, 8);
  EXPECT_TRUE(imported.settings.ports.at(1).queues[6].strict);
  EXPECT_EQ(imported.lines.at("switch.port.0.queue.3.ecn.max"), 22);
}

TEST(ImportSonic, BuffersGivenAndComputed) {
  const Imported imported = import_sonic(kWhole, {});
  const PortSettings& given = imported.settings.ports.at(0);
  EXPECT_TRUE(given.groups[3].lossless);
  EXPECT_TRUE(given.groups[3].dynamic);
  EXPECT_EQ(given.groups[3].alpha, 0.125);
  EXPECT_EQ(given.groups[3].headroom_bytes, 177'632u);
  EXPECT_EQ(given.groups[3].reserved_bytes, 1'248u);
  EXPECT_EQ(given.groups[3].xon_offset_bytes, 2'288u);
  EXPECT_FALSE(given.groups[0].lossless);
  EXPECT_EQ(given.groups[0].alpha, 8);
  const uint64_t computed = sonic_headroom(400'000'000'000, 5, 9100).xoff_bytes;
  const PortSettings& port = imported.settings.ports.at(1);
  EXPECT_EQ(port.groups[4].headroom_bytes, computed);
  EXPECT_EQ(imported.settings.buffer_bytes, 26'284'032 + 2 * 177'632 + 2 * computed);
  EXPECT_EQ(port.pfc.cable_metres, 5);
}

TEST(ImportSonic, Watchdog) {
  const Imported imported = import_sonic(kWhole, {});
  const WatchdogSettings& first = imported.settings.ports.at(0).watchdog;
  EXPECT_EQ(first.machine, WatchdogSettings::kSonic);
  EXPECT_EQ(first.action, WatchdogSettings::kForward);
  EXPECT_EQ(first.detection, 200 * fabric::kMillisecond);
  EXPECT_EQ(first.restoration, 500 * fabric::kMillisecond);
  EXPECT_EQ(first.poll, 300 * fabric::kMillisecond);
  EXPECT_EQ(first.mask, 0x18);
  const WatchdogSettings& second = imported.settings.ports.at(1).watchdog;
  EXPECT_EQ(second.action, WatchdogSettings::kDrop);
  EXPECT_EQ(second.restoration, 800 * fabric::kMillisecond);  // twice the detection
}

TEST(ImportSonic, WhatIsNotUsedIsSaid) {
  const Imported imported = import_sonic(kWhole, {});
  EXPECT_THAT(
      said(imported),
      testing::IsSupersetOf(
          {"3 note: PORT: lanes has no effect: it does not change how packets are queued",
           "23 note: WRED_PROFILE: wred_red_enable has no effect: every packet is green here",
           "59 note: tables that are not about queues and buffers are not used: VLAN"}));
}

TEST(ImportSonic, DefaultMapsSendDscp26ToClass1) {
  const Imported imported = import_sonic(
      R"({"PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "AZURE", "tc_to_pg_map": "AZURE",
          "tc_to_queue_map": "AZURE", "pfc_to_queue_map": "AZURE", "pfc_enable": "3,4"}}})",
      {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  const PortSettings& port = imported.settings.ports.at(0);
  EXPECT_EQ(port.dscp_to_priority[26], 1);
  EXPECT_EQ(port.dscp_to_priority[3], 3);
  EXPECT_EQ(port.dscp_to_priority[46], 5);
  EXPECT_EQ(port.dscp_to_priority[8], 0);
  EXPECT_THAT(port.priority_to_group, ElementsAre(0, 0, 0, 3, 4, 0, 0, 7));
  EXPECT_THAT(port.priority_to_queue, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(port.groups[3].headroom_bytes, 0u);  // no BUFFER_PG: lint says what comes of it
}

TEST(ImportSonic, OversubscribedHeadroomAndAsymmetricPfc) {
  const Imported imported = import_sonic(R"({
    "PORT": {"Ethernet0": {"speed": "100000", "pfc_asym": "on"}, "Ethernet4": {}},
    "PORT_QOS_MAP": {"Ethernet0,Ethernet4": {"pfc_enable": "3"}},
    "BUFFER_POOL": {"pool": {"type": "ingress", "size": "1000000", "xoff": "100000"}},
    "BUFFER_PROFILE": {"p": {"xoff": "200000", "size": "0", "static_th": "50000"}},
    "BUFFER_PG": {"Ethernet0,Ethernet4|3": {"profile": "p"}}})",
                                         {});
  EXPECT_EQ(imported.settings.ports.at(0).pfc.rx_mask, 0xff);
  EXPECT_EQ(imported.settings.ports.at(0).pfc.tx_mask, 0x08);
  EXPECT_EQ(imported.settings.ports.at(1).pfc.rx_mask, 0x08);
  EXPECT_FALSE(imported.settings.ports.at(0).groups[3].dynamic);
  EXPECT_EQ(imported.settings.ports.at(0).groups[3].static_bytes, 50'000u);
  EXPECT_THAT(
      complaints(imported),
      ElementsAre(
          "4 warning: headroom is oversubscribed 4.0 to 1: 400000 bytes of profiles share a pool "
          "of "
          "100000, so some pauses at once lose lossless packets (here each group has all of its "
          "headroom); set the pool's xoff to 400000"));
  EXPECT_EQ(imported.diagnostics.back().rule, 11);
}

TEST(ImportSonic, OwnThresholdsOfMarks) {
  const Imported imported = import_sonic(R"({
    "PORT": {"Ethernet0": {}}, "PORT_QOS_MAP": {"global": {"dot1p_to_tc_map": "AZURE"}},
    "WRED_PROFILE": {"W": {"ecn": "ecn_green", "green_min_threshold": "1", "green_max_threshold":
      "2", "ecn_green_min_threshold": "262144", "ecn_green_max_threshold": "524288",
      "ecn_green_mark_probability": "7"}},
    "QUEUE": {"Ethernet0|3": {"wred_profile": "W"}}})",
                                         {});
  EXPECT_THAT(complaints(imported), IsEmpty());
  const fabric::EcnSettings& ecn = imported.settings.ports.at(0).queues[3].ecn;
  EXPECT_TRUE(ecn.mark);
  EXPECT_FALSE(ecn.drop);
  EXPECT_EQ(ecn.min_bytes, 262'144u);
  EXPECT_EQ(ecn.max_bytes, 524'288u);
  EXPECT_EQ(ecn.probability, 0.07);
  EXPECT_EQ(imported.settings.ports.at(0).trust, Trust::kPcp);
}

TEST(ImportSonic, WhatIsWrongIsToldWithItsLine) {
  const Imported imported = import_sonic(R"({
"PORT": {"Ethernet0": {"speed": "fast"}},
"BUFER_PG": {"Ethernet0|3": {"profile": "x"}},
"PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "MINE",
  "pfc_enable": "3,9"}},
"QUEUE": {"Ethernet0|3": {"scheduler": "s", "wred_profle": "w"},
  "Ethernet8|3": {},
  "Ethernet0:3": {"scheduler": "s"}},
"SCHEDULER": {"s": {"type": "DWRR", "weight": "200"}},
"BUFFER_PROFILE": {"p": {"dynamic_th": "12"}},
"BUFFER_PG": {"Ethernet0|3": {"profile": "p"}, "Ethernet0|4": {"profile": "q"}},
"PFC_WD": {"Ethernet0": {"detection_time": "50", "action": "explode"}}
})",
                                         {});
  EXPECT_THAT(
      complaints(imported),
      testing::UnorderedElementsAre(
          "2 error: PORT|Ethernet0: speed 'fast' is no rate in Mb/s; 100G is 100000",
          "3 error: table BUFER_PG is unknown; did you mean BUFFER_PG?",
          "4 error: dscp_to_tc_map: there is no DSCP_TO_TC_MAP|MINE; add it to DSCP_TO_TC_MAP",
          "5 error: PORT_QOS_MAP|Ethernet0: pfc_enable takes priorities 0-7, not '3,9'; for "
          "example "
          "\"3,4\"",
          "6 error: QUEUE|Ethernet0|3: field 'wred_profle' is unknown; did you mean wred_profile?",
          "7 error: QUEUE: there is no port Ethernet8 in PORT; add it to PORT, or take it out of "
          "the "
          "key",
          "8 error: QUEUE: there is no port Ethernet0:3 in PORT; add it to PORT, or take it out of "
          "the "
          "key",
          "9 error: SCHEDULER|s: weight takes a number up to 100, not '200'",
          "10 error: BUFFER_PROFILE|p: dynamic_th takes -8 to 8 (alpha is 2 to it), not '12'",
          "11 error: profile: there is no BUFFER_PROFILE|q; add it to BUFFER_PROFILE",
          "12 error: PFC_WD|Ethernet0: detection_time is 100 to 5000 ms, not 50",
          "12 error: PFC_WD|Ethernet0: action is drop, forward or alert, not 'explode'",
          "12 warning: the watchdog of Ethernet0 watches no priority; set pfc_enable and "
          "pfcwd_sw_enable in PORT_QOS_MAP"));
}

TEST(ImportSonic, NoCableNoHeadroom) {
  const Imported imported = import_sonic(R"({
"PORT": {"Ethernet0": {"speed": "100000"}},
"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}},
"BUFFER_PG": {"Ethernet0|3": {"profile": "NULL"}}
})",
                                         {});
  EXPECT_EQ(imported.settings.ports.at(0).groups[3].headroom_bytes, 0u);
  EXPECT_THAT(complaints(imported), ElementsAre("4 warning: Ethernet0 has no cable length, so its "
                                                "headroom cannot be computed and is 0; add "
                                                "the port to CABLE_LENGTH"));
}

TEST(ImportSonic, NotJson) {
  for (const char* text : {"", "{", "[]", "nv set qos roce", "{\"PORT\": 3}"}) {
    const Imported imported = import_sonic(text, {});
    EXPECT_TRUE(imported.failed()) << text;
  }
  EXPECT_THAT(
      said(import_sonic("{", {})),
      ElementsAre(
          "0 error: this is no JSON object of tables; save one: sonic-cfggen -d --print-data > "
          "config_db.json"));
}

TEST(SonicFile, KeysThatNameVeryManyPorts) {
  std::string text = "{\"QUEUE\": {";
  for (int i = 0; i < 100; ++i)
    text +=
        fmt::format("{}\n\"Ethernet{}-{}|3\": {{}}", i == 0 ? "" : ",", i * 1000, i * 1000 + 999);
  EXPECT_THAT(said(import_sonic(text + "}}", {})),
              ElementsAre(testing::MatchesRegex(
                  "[0-9]+ error: the keys up to here name 51000 ports together; 50000 are the "
                  "most")));
}

TEST(SonicFile, LinesSurviveBracesInStrings) {
  Diagnostics diagnostics;
  const auto file = SonicFile::parse(
      "{\"A\": {\"k\": {\"f\": \"}{\\\":\"}},\n\"B\": {\"k\":\n"
      "{\"g\": 7}}}",
      diagnostics);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->line_of("A"), 1);
  EXPECT_EQ(file->line_of("B"), 2);
  EXPECT_EQ(file->table("B")[0].line, 2);
  EXPECT_EQ(file->table("B")[0].find("g")->line, 3);
  EXPECT_EQ(file->table("B")[0].text("g"), "7");
  EXPECT_EQ(sonic_name("[BUFFER_POOL|ingress]"), "ingress");
  EXPECT_EQ(sonic_name("ingress"), "ingress");
}

}  // namespace
}  // namespace verbena::scenario
