// NVUE commands: what each form sets, what is said about the rest, with its line.
#include "scenario/import_nvue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <climits>

#include "said.h"
#include "scenario/profiles.h"

namespace verbena::scenario {
namespace {

using fabric::PortSettings;
using fabric::Trust;
using fabric::WatchdogSettings;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ImportNvue, NothingIsCumulusDefaults) {
  const Imported imported = import_nvue("# nothing\n\nnv config apply\n");
  EXPECT_THAT(said(imported), IsEmpty());
  const PortSettings& port = imported.settings.port;
  EXPECT_EQ(port.trust, Trust::kPcp);
  EXPECT_EQ(port.pfc.tx_mask, 0);
  EXPECT_TRUE(port.queues[0].ecn.mark);
  EXPECT_FALSE(port.queues[3].ecn.mark);
  EXPECT_EQ(port.queues[0].ecn.min_bytes, 150'000u);
  EXPECT_EQ(port.queues[0].ecn.max_bytes, 1'500'000u);
  EXPECT_EQ(port.queues[4].weight, 12u);
  EXPECT_EQ(port.queues[5].weight, 13u);
  EXPECT_EQ(port.watchdog.machine, WatchdogSettings::kOff);
  EXPECT_THAT(imported.settings.ports, IsEmpty());
}

TEST(ImportNvue, RoceLosslessIsOneLine) {
  const Imported imported = import_nvue("nv set qos roce\n");
  const PortSettings& port = imported.settings.port;
  EXPECT_EQ(port.trust, Trust::kBoth);
  EXPECT_EQ(port.dscp_to_priority[26], 3);
  EXPECT_EQ(port.dscp_to_priority[48], 6);
  EXPECT_THAT(port.priority_to_queue, ElementsAre(0, 0, 0, 3, 0, 0, 6, 0));
  EXPECT_THAT(port.priority_to_group, ElementsAre(0, 0, 0, 3, 0, 0, 6, 0));
  EXPECT_EQ(port.pfc.rx_mask, 1u << 3);
  EXPECT_EQ(port.pfc.tx_mask, 1u << 3);
  EXPECT_TRUE(port.groups[3].lossless);
  EXPECT_FALSE(port.groups[0].lossless);
  EXPECT_TRUE(port.groups[3].dynamic);
  EXPECT_EQ(port.groups[3].headroom_bytes, kAutoHeadroom);
  EXPECT_EQ(port.groups[3].xon_offset_bytes, 2000u);
  EXPECT_TRUE(port.queues[6].strict);
  EXPECT_EQ(port.queues[3].weight, 50u);
  EXPECT_EQ(port.queues[0].weight, 50u);
  for (uint32_t q : {0u, 3u}) {
    EXPECT_TRUE(port.queues[q].ecn.mark);
    EXPECT_FALSE(port.queues[q].ecn.drop);
    EXPECT_EQ(port.queues[q].ecn.min_bytes, 150'000u);
    EXPECT_EQ(port.queues[q].ecn.max_bytes, 1'500'000u);
    EXPECT_EQ(port.queues[q].ecn.probability, 1.0);
  }
  EXPECT_FALSE(port.queues[6].ecn.mark);
  EXPECT_EQ(port.pfc.cable_metres, 100);
  EXPECT_EQ(imported.lines.at("switch.pfc"), 1);
  EXPECT_THAT(complaints(imported), IsEmpty());
}

TEST(ImportNvue, RoceModes) {
  const Imported lossy = import_nvue("nv set qos roce mode lossy");
  EXPECT_EQ(lossy.settings.port.pfc.tx_mask, 0);
  EXPECT_EQ(lossy.settings.port.trust, Trust::kBoth);
  EXPECT_TRUE(lossy.settings.port.queues[3].ecn.mark);
  const Imported off = import_nvue("nv set qos roce\nnv set qos roce enable off\n");
  EXPECT_EQ(off.settings.port.pfc.tx_mask, 0);
  EXPECT_EQ(off.settings.port.trust, Trust::kPcp);
  const Imported unset = import_nvue("nv set qos roce mode lossless\nnv unset qos roce\n");
  EXPECT_EQ(unset.settings.port.pfc.tx_mask, 0);
  const Imported cable = import_nvue(
      "nv set qos roce state enabled\n"
      "nv set qos roce cable-length 300\n");
  EXPECT_EQ(cable.settings.port.pfc.cable_metres, 300);
  EXPECT_EQ(cable.settings.port.groups[3].headroom_bytes, kAutoHeadroom);
}

TEST(ImportNvue, OperatorsNotesAsTheyStand) {
  const Imported imported = import_nvue(
      "nv set interface swp1 qos pfc-watchdog enabled\n"
      "nv set interface swp1 qos roce mode lossless\n"
      "nv set interface swp1 qos ecn threshold min 150000 max 1500000\n");
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_THAT(imported.port_names, ElementsAre(testing::Pair(0, "swp1")));
  const PortSettings& port = imported.settings.ports.at(0);
  EXPECT_EQ(port.pfc.tx_mask, 1u << 3);
  EXPECT_EQ(port.watchdog.machine, WatchdogSettings::kCumulus);
  EXPECT_EQ(port.watchdog.poll, 100 * fabric::kMillisecond);
  EXPECT_EQ(port.watchdog.robustness, 3u);
  EXPECT_EQ(port.watchdog.mask, 1u << 3);
  for (uint32_t q : {0u, 3u}) {
    EXPECT_EQ(port.queues[q].ecn.min_bytes, 150'000u);
    EXPECT_EQ(port.queues[q].ecn.max_bytes, 1'500'000u);
  }
  EXPECT_EQ(imported.lines.at("switch.port.0.queue.3.ecn.min"), 3);
  EXPECT_EQ(imported.lines.at("switch.port.0.watchdog"), 1);
  // Other ports are as they were.
  EXPECT_EQ(imported.settings.port.pfc.tx_mask, 0);
  EXPECT_THAT(
      said(imported),
      testing::Contains(
          "3 note: taken for traffic class 0 and 3, which mark ECN on this port; the documented "
          "form: "
          "nv set qos congestion-control NAME traffic-class TC min-threshold|max-threshold BYTES"));
}

TEST(ImportNvue, CongestionControlProfiles) {
  const Imported imported = import_nvue(
      "nv set qos congestion-control default-global traffic-class 4,5,7 min-threshold 40000\n"
      "nv set qos congestion-control default-global traffic-class 4,5,7 max-threshold 200000\n"
      "nv set qos congestion-control default-global traffic-class 4,5,7 red enable\n"
      "nv set qos congestion-control mine traffic-class 1 probability 20\n"
      "nv set qos congestion-control mine traffic-class 1 min-threshold 150KB\n"
      "nv set interface swp2-3 qos congestion-control profile mine\n");
  EXPECT_THAT(complaints(imported), IsEmpty());
  const PortSettings& port = imported.settings.port;
  EXPECT_FALSE(port.queues[0].ecn.mark);  // the profile names every queue that marks
  for (uint32_t q : {4u, 5u, 7u}) {
    EXPECT_TRUE(port.queues[q].ecn.mark);
    EXPECT_TRUE(port.queues[q].ecn.drop);
    EXPECT_EQ(port.queues[q].ecn.min_bytes, 40'000u);
    EXPECT_EQ(port.queues[q].ecn.max_bytes, 200'000u);
    EXPECT_EQ(port.queues[q].ecn.probability, 1.0);
  }
  for (uint32_t number : {1u, 2u}) {
    const PortSettings& own = imported.settings.ports.at(number);
    EXPECT_FALSE(own.queues[4].ecn.mark);
    EXPECT_TRUE(own.queues[1].ecn.mark);
    EXPECT_EQ(own.queues[1].ecn.probability, 0.2);
    EXPECT_EQ(own.queues[1].ecn.min_bytes, 153'600u);
    EXPECT_EQ(own.queues[1].ecn.max_bytes, 1'500'000u);
  }
  EXPECT_EQ(imported.lines.at("switch.port.1.queue.1.ecn.probability"), 4);
}

TEST(ImportNvue, PfcProfileWithBytesIsStatic) {
  const Imported imported = import_nvue(
      "nv set qos pfc my_pfc switch-priority 3,5\n"
      "nv set qos pfc my_pfc xoff-threshold 100000\n"
      "nv set qos pfc my_pfc port-buffer 180000\n"
      "nv set qos pfc my_pfc xon-threshold 9000\n"
      "nv set qos pfc my_pfc rx disable\n"
      "nv set interface swp1-4,swp6 qos pfc profile my_pfc\n");
  EXPECT_THAT(said(imported), IsEmpty());
  EXPECT_EQ(imported.settings.ports.size(), 5u);
  EXPECT_EQ(imported.settings.port.pfc.tx_mask, 0);
  const PortSettings& port = imported.settings.ports.at(5);
  EXPECT_EQ(port.pfc.tx_mask, (1u << 3) | (1u << 5));
  EXPECT_EQ(port.pfc.rx_mask, 0);
  for (uint32_t g : {3u, 5u}) {
    EXPECT_FALSE(port.groups[g].dynamic);
    EXPECT_EQ(port.groups[g].static_bytes, 100'000u);
    EXPECT_EQ(port.groups[g].headroom_bytes, 80'000u);
    EXPECT_EQ(port.groups[g].xon_offset_bytes, 9'000u);
  }
}

TEST(ImportNvue, HeadroomFollowsTheCable) {
  const Imported imported = import_nvue(
      "nv set qos pfc p switch-priority 4\n"
      "nv set qos pfc p cable-length 50\n"
      "nv set interface swp1,swp2 qos pfc profile p\n"
      "nv set interface swp2 link mtu 4200\n");
  EXPECT_THAT(complaints(imported), IsEmpty());
  const PortSettings& port = imported.settings.ports.at(1);
  EXPECT_TRUE(port.groups[4].lossless);
  EXPECT_EQ(port.groups[4].headroom_bytes, kAutoHeadroom);
  EXPECT_EQ(port.pfc.cable_metres, 50);
  EXPECT_EQ(port.priority_to_group[4], 4);
  EXPECT_EQ(port.mtu, 4200u);
  EXPECT_EQ(imported.settings.ports.at(0).mtu, 9216u);
  EXPECT_EQ(imported.lines.at("switch.port.1.group.headroom"), 2);
}

TEST(ImportNvue, MappingRemarkQueuesScheduler) {
  const Imported imported = import_nvue(
      "nv set qos mapping default-global trust l3\n"
      "nv set qos mapping default-global dscp 10,21,36 switch-priority 4\n"
      "nv set qos mapping default-global pcp 2-3 switch-priority 0\n"
      "nv set qos mapping portwise trust port\n"
      "nv set qos mapping portwise port-default-sp 3\n"
      "nv set interface swp8 qos mapping profile portwise\n"
      "nv set qos remark default-global rewrite l3\n"
      "nv set qos remark default-global switch-priority 1 dscp 40\n"
      "nv set qos egress-queue-mapping default-global switch-priority 2 traffic-class 7\n"
      "nv set qos egress-scheduler default-global traffic-class 2,6 mode dwrr\n"
      "nv set qos egress-scheduler default-global traffic-class 2,6 bw-percent 30\n"
      "nv set qos egress-scheduler default-global traffic-class 0,1,5,7 mode strict\n");
  EXPECT_THAT(complaints(imported), IsEmpty());
  const PortSettings& port = imported.settings.port;
  EXPECT_EQ(port.trust, Trust::kDscp);
  EXPECT_EQ(port.dscp_to_priority[21], 4);
  EXPECT_EQ(port.dscp_to_priority[22], 2);
  EXPECT_THAT(port.pcp_to_priority, ElementsAre(0, 1, 0, 0, 4, 5, 6, 7));
  EXPECT_EQ(port.remark_dscp[1], 40);
  EXPECT_EQ(port.remark_dscp[2], fabric::kNoRemark);
  EXPECT_EQ(port.priority_to_queue[2], 7);
  EXPECT_TRUE(port.queues[7].strict);
  EXPECT_FALSE(port.queues[6].strict);
  EXPECT_EQ(port.queues[6].weight, 30u);
  const PortSettings& own = imported.settings.ports.at(7);
  EXPECT_EQ(own.trust, Trust::kPort);
  EXPECT_EQ(own.default_priority, 3);
}

TEST(ImportNvue, WatchdogTimesAndRanges) {
  const Imported imported = import_nvue(
      "cumulus@switch:~$ nv set qos roce enable on\n"
      "cumulus@switch:~$ nv set qos pfc-watchdog polling-interval 200\n"
      "cumulus@switch:~$ nv set qos pfc-watchdog robustness 5\n"
      "cumulus@switch:~$ nv set interface swp1-8 qos pfc-watchdog state enable\n"
      "cumulus@switch:~$ nv config apply -y\n");
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_EQ(imported.settings.ports.size(), 8u);
  EXPECT_EQ(imported.settings.ports.at(7).watchdog.poll, 200 * fabric::kMillisecond);
  EXPECT_EQ(imported.settings.ports.at(7).watchdog.robustness, 5u);
  EXPECT_EQ(imported.settings.port.watchdog.machine, WatchdogSettings::kOff);
  const Imported without = import_nvue("nv set interface swp1 qos pfc-watchdog state enable\n");
  EXPECT_THAT(complaints(without),
              ElementsAre("1 warning: swp1 has no PFC, so its watchdog watches nothing; enable PFC "
                          "on it: nv set qos roce mode lossless, or a pfc profile"));
}

TEST(ImportNvue, BreakoutPortsAreNumberedInOrder) {
  const Imported imported = import_nvue(
      "nv set qos roce\n"
      "nv set interface swp10s0,swp9s1,swp9s0 qos pfc-watchdog state enable\n");
  EXPECT_THAT(imported.port_names,
              ElementsAre(testing::Pair(0, "swp9s0"), testing::Pair(1, "swp9s1"),
                          testing::Pair(2, "swp10s0")));
}

TEST(ImportNvue, AdaptiveRoutingAndAlpha) {
  const Imported imported = import_nvue(
      "nv set router adaptive-routing enable on\n"
      "nv set interface swp51 router adaptive-routing link-utilization-threshold 60\n"
      "nv set qos roce\n"
      "nv set qos advance-buffer-config default-global ingress-lossless-buffer shared-alpha "
      "alpha_1_16\n"
      "nv set qos advance-buffer-config default-global egress-lossy-buffer traffic-class 0 "
      "shared-alpha alpha_4\n");
  EXPECT_THAT(complaints(imported), IsEmpty());
  EXPECT_EQ(imported.settings.routing.mode, fabric::RoutingSettings::kAdaptive);
  EXPECT_EQ(imported.settings.routing.utilisation_threshold, 0.6);
  EXPECT_EQ(imported.settings.port.groups[3].alpha, 1.0 / 16);
  EXPECT_EQ(imported.settings.port.queues[0].alpha, 4);
}

TEST(ImportNvue, WhatIsWrongIsToldWithItsLine) {
  const Imported imported = import_nvue(
      "nv set qos congestion-control p traffic-class 3 min-treshold 150000\n"
      "nv set qos congestion-control p traffic-class 9 ecn enable\n"
      "nv set qos roce mode losless\n"
      "nv set qos pfc-watchdog robustness 0\n"
      "nv sett qos roce\n"
      "interface swp1\n"
      "nv set interface swp1 qos pfc profile nowhere\n"
      "nv set interface swp1 qos pfc-watchdog\n"
      "nv unset qos rocee\n");
  EXPECT_THAT(
      complaints(imported),
      ElementsAre(
          "1 error: 'nv set qos congestion-control p traffic-class 3 min-treshold 150000' is "
          "unknown; "
          "the nearest known form: nv set qos congestion-control NAME traffic-class TC "
          "min-threshold "
          "BYTES",
          "2 error: '9' is not traffic classes 0-7; the form is: nv set qos congestion-control "
          "NAME "
          "traffic-class TC ecn SWITCH",
          "3 error: mode takes lossless|lossy|lossless-single-ipool|lossy-multi-tc, not 'losless'; "
          "the "
          "form is: nv set qos roce mode lossless|lossy|lossless-single-ipool|lossy-multi-tc",
          "4 error: robustness takes 1-1000, not '0'; the form is: nv set qos pfc-watchdog "
          "robustness "
          "1-1000",
          "5 error: 'nv sett qos roce' is no command that sets anything; commands: nv set ..., nv "
          "unset "
          "...",
          "6 error: 'interface swp1' is no NVUE command; commands begin with: nv set",
          "7 error: pfc profile 'nowhere' is set nowhere; define it: nv set qos pfc nowhere ...",
          "8 warning: 'nv set interface swp1 qos pfc-watchdog' sets nothing by itself; one form "
          "that "
          "does: nv set interface IF qos pfc-watchdog state SWITCH",
          "9 error: 'nv unset qos rocee' is unknown; the nearest known form: nv set qos roce"));
  EXPECT_TRUE(imported.failed());
}

TEST(ImportNvue, ValuesThatCannotWorkTogether) {
  const Imported imported = import_nvue(
      "nv set qos congestion-control default-global traffic-class 3 min-threshold 2000000\n"
      "nv set qos egress-scheduler default-global traffic-class 1,2 mode dwrr\n"
      "nv set qos egress-scheduler default-global traffic-class 1,2 bw-percent 60\n"
      "nv set qos pfc default-global switch-priority 3\n"
      "nv set qos pfc default-global port-buffer 5000\n"
      "nv set qos link-pause default-global tx enable\n");
  EXPECT_THAT(
      complaints(imported),
      ElementsAre(
          "1 error: traffic class 3: min-threshold 2000000 is above max-threshold 1500000; set the "
          "smaller one as min-threshold",
          "3 error: the bw-percent of the DWRR queues sum to 120; make them 100 at most",
          "5 error: xoff-threshold 10000 is above port-buffer 5000; make port-buffer the larger "
          "one by "
          "the headroom",
          "6 error: link pause and PFC are both set on one port; keep one of them: the switch "
          "refuses "
          "both"));
  const Imported kilobytes = import_nvue(
      "nv set qos congestion-control default-global traffic-class 3 min-threshold 150\n"
      "nv set qos congestion-control default-global traffic-class 3 max-threshold 1400\n");
  EXPECT_THAT(complaints(kilobytes), ElementsAre("2 warning: traffic class 3: thresholds of 150 "
                                                 "and 1400 bytes are less than one packet; NVUE "
                                                 "counts bytes, not kilobytes: 150000, not 150"));
}

TEST(ImportNvue, NoEffectAndOtherThingsAreSaid) {
  const Imported imported = import_nvue(
      "nv set system hostname leaf1\n"
      "nv set qos traffic-pool roce-lossless memory-percent 90\n"
      "nv set interface swp1 ip address 10.0.0.1/31\n"
      "nv set router bgp state enabled\n");
  EXPECT_THAT(said(imported),
              ElementsAre("1 note: lines that are not about QoS are not used: 1, 3, 4",
                          "2 note: 'nv set qos traffic-pool roce-lossless memory-percent 90' has "
                          "no effect here: the "
                          "simulated switch has one shared pool; thresholds decide who gets it"));
}

TEST(ImportText, FormatIsGuessed) {
  EXPECT_EQ(format_of(" {\"PORT\": {}}"), Format::kSonic);
  EXPECT_EQ(format_of("# notes\n$ nv set qos roce\n"), Format::kNvue);
  EXPECT_EQ(format_of("sudo mlnx_qos -i eth0 --trust dscp\n"), Format::kLinux);
  EXPECT_EQ(format_of("interface ethernet 1/1\n"), std::nullopt);
  EXPECT_EQ(format_of(""), std::nullopt);
}

TEST(ImportText, WhatIsNoText) {
  using namespace std::string_literals;
  for (Format format : {Format::kNvue, Format::kSonic, Format::kLinux})
    EXPECT_THAT(said(import_text(format,
                                 "nv set qos roce\n\x7f"
                                 "ELF\0\n"s)),
                ElementsAre("2 error: a zero byte: this is no text"));
}

TEST(ImportText, AsManyFindingsAsAPersonReads) {
  std::string text;
  for (size_t i = 0; i < 3 * Diagnostics::kMost; ++i) text += fmt::format("word{}\n", i);
  const std::vector<std::string> all = said(import_nvue(text));
  ASSERT_EQ(all.size(), Diagnostics::kMost + 1);
  EXPECT_EQ(all[0], "1 error: 'word0' is no NVUE command; commands begin with: nv set");
  EXPECT_EQ(all.back(), fmt::format("{} error: there is more to say than 10000 things; mend these "
                                    "first",
                                    INT_MAX));
}

TEST(ImportText, WordsWithoutEnd) {
  const std::string word(3'000'000, 'x');
  const Imported imported = import_nvue("nv set qos " + word + " on\n" + word + "\n");
  ASSERT_EQ(imported.diagnostics.size(), 2u);
  EXPECT_TRUE(imported.failed());
  for (const Diagnostic& one : imported.diagnostics) EXPECT_EQ(one.what.size(), 1004u);
}

TEST(ImportNvue, AsManyPortsAsASwitchHas) {
  const Imported imported = import_nvue(
      "nv set interface swp1-1024 qos roce mode lossless\n"
      "nv set interface swp1025 qos roce mode lossless\n");
  EXPECT_EQ(imported.port_names.size(), 1024u);
  ASSERT_EQ(complaints(imported).size(), 1u);
  EXPECT_EQ(complaints(imported)[0].substr(1), " error: 1025 ports; a switch has 1024 at most");
}

TEST(ImportText, Lists) {
  EXPECT_EQ(interface_list("swp1-3,swp7"),
            (std::vector<std::string>{"swp1", "swp2", "swp3", "swp7"}));
  EXPECT_EQ(interface_list("swp1-swp2"), (std::vector<std::string>{"swp1", "swp2"}));
  EXPECT_EQ(interface_list("swp1s0-1"), (std::vector<std::string>{"swp1s0", "swp1s1"}));
  EXPECT_EQ(interface_list("swp3-1"), std::nullopt);
  EXPECT_EQ(interface_list("swp1-99999"), std::nullopt);
  EXPECT_EQ(interface_list(""), std::nullopt);
  EXPECT_EQ(number_list("0-2,5,1", 7), (std::vector<uint32_t>{0, 1, 2, 5}));
  EXPECT_EQ(number_list("8", 7), std::nullopt);
  EXPECT_EQ(number_list("1-", 7), std::nullopt);
  EXPECT_EQ(bytes_of("150KB"), 153'600u);
  EXPECT_EQ(bytes_of("1.5MB"), std::nullopt);
  EXPECT_EQ(rate_of("400G"), 400'000'000'000u);
  EXPECT_EQ(rate_of("25000"), 25'000'000'000u);
  EXPECT_TRUE(natural_before("swp2", "swp10"));
  EXPECT_FALSE(natural_before("swp10s0", "swp9s1"));
}

}  // namespace
}  // namespace verbena::scenario
