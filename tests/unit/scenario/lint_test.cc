// Each rule finds its mistake, on the line that makes it and with its words, and finds nothing in a
// fabric that is right.
#include "scenario/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "fabric/dependency.h"

#include "parsed.h"

namespace verbena::scenario {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "RULE LINE severity PLACE,PLACE: what" of each finding.
std::vector<std::string> found(const std::string& text) {
  std::vector<std::string> all;
  for (const Finding& f : lint(parsed(text))) {
    std::string places;
    for (const std::string& place : f.places) places += (places.empty() ? "" : ",") + place;
    all.push_back(std::to_string(f.rule) + " " + std::to_string(f.line) + " " +
                  std::string(severity_name(f.severity)) + " " + places + ": " + f.what);
  }
  return all;
}

// Three hosts on a switch, two send to the third; what follows begins on line 9.
std::string star(const std::string& settings, const std::string& topology = "") {
  return "[topology]\nkind = \"star\"\nhosts = 3\n" + (topology.empty() ? "\n" : topology) +
         "[[workload]]\nkind = \"incast\"\nto = 2\nbytes = \"1MB\"\n" + settings;
}

TEST(Lint, ARightFabricIsClean) {
  EXPECT_THAT(found(star("")), IsEmpty());
  EXPECT_THAT(found("[topology]\nkind = \"leaf-spine\"\n[[workload]]\nkind = \"permutation\"\n"
                    "bytes = \"1MB\"\n"),
              IsEmpty());
  EXPECT_THAT(found("[topology]\nkind = \"fat-tree\"\nk = 4\n[[workload]]\nkind = \"all-to-all\"\n"
                    "bytes = \"1MB\"\n"),
              IsEmpty());
}

TEST(Lint, Rule1PfcWithoutHeadroom) {
  EXPECT_THAT(
      found(star("[switch.group]\nheadroom = 0\n")),
      ElementsAre("1 10 error s0: priority 3 pauses its sender, but group 3 has no headroom"));
}

TEST(Lint, Rule2MixedClasses) {
  EXPECT_THAT(
      found(star("[[flow]]\nfrom = 0\nto = 1\ndscp = 0\npriority = 0\nbytes = \"1MB\"\n")),
      ElementsAre("2 0 warning s0: 1 of 3 flows (first: h0 to h1, DSCP 0) travel in priority "
                  "0, which is lossy; the others are lossless"));
}

TEST(Lint, Rule3NoFlowControl) {
  EXPECT_THAT(found(star("[switch]\nroce = \"off\"\n[host]\ncongestion = \"none\"\n"
                         "pfc.priorities = []\n")),
              ElementsAre("3 12 error : there is neither PFC nor congestion control"));
}

TEST(Lint, Rule4OneWayClass) {
  EXPECT_THAT(
      found(star("[host.h1]\ndscp = 0\npriority = 0\n")),
      testing::Contains("4 10 warning h1: it sends RoCE with DSCP 0, its peer h2 with DSCP 26"));
}

TEST(Lint, Rule5DscpMap) {
  EXPECT_THAT(found(star("[switch]\nprofile = \"sonic\"\n")),
              testing::Contains("5 10 error s0: DSCP 26 becomes priority 1, which is lossy; the "
                                "adapters mean priority 3"));
  EXPECT_THAT(found(star("[switch]\ndscp_to_priority = { 26 = 1 }\n")),
              testing::Contains("5 10 error s0: DSCP 26 becomes priority 1, which is lossy; the "
                                "adapters mean priority 3"));
}

TEST(Lint, Rule6TrustAndEct) {
  EXPECT_THAT(found(star("[switch]\ntrust = \"port\"\n")),
              testing::Contains("6 10 error s0: it does not trust the DSCP, so DSCP 26 travels in "
                                "priority 0, which is lossy"));
  EXPECT_THAT(found(star("[host]\nect = false\n")),
              ElementsAre("6 10 warning h0,h1: its packets are not ECN-capable, so no switch can "
                          "mark them"));
}

TEST(Lint, Rule7NoMarks) {
  EXPECT_THAT(found(star("[switch.queue.3.ecn]\nmark = false\n")),
              ElementsAre("7 10 error s0: queue 3, in which RoCE travels, never marks ECN (queue 0 "
                          "does)"));
}

TEST(Lint, Rule8FewMarks) {
  const auto findings = found(star("[switch.ecn]\nmax = \"1000MB\"\nprobability = \"1%\"\n"));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0], testing::StartsWith("8 10 error s0: queue 3 marks at most 0.00"));
  EXPECT_THAT(findings[1], testing::StartsWith("9 10 warning s0: Kmax of queue 3 is 1000000000 "));
}

TEST(Lint, Rule9ThresholdOrder) {
  EXPECT_THAT(
      found(star("[switch.group]\nstatic = \"100KB\"\n")),
      ElementsAre("9 0 error s0: Kmin of queue 3 is 150000 bytes, but one port's pauses begin "
                  "at 100000"));
  EXPECT_THAT(found(star("[switch.ecn]\nmin = \"50KB\"\n[switch.group]\nstatic = \"100KB\"\n")),
              testing::Contains("9 0 warning s0: Kmax of queue 3 is 1500000 bytes, but one port's "
                                "pauses begin at 100000"));
}

TEST(Lint, Rule10CableLength) {
  const auto findings = found(star("[switch.group]\nheadroom = \"10KB\"\n", "cable = \"300m\"\n"));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0],
              testing::StartsWith("10 10 error s0: headroom of group 3 is 10000 bytes, "
                                  "but 300 m at 100 Gb/s need 39"));
  EXPECT_THAT(found(star("", "cable = \"300m\"\n")), IsEmpty());
}

TEST(Lint, Rule11SharedHeadroom) {
  EXPECT_THAT(
      found(star("[switch]\nheadroom_pool = \"per-port\"\npfc.priorities = [3, 4]\n"
                 "priority_to_group = { 4 = 4 }\n[host.pfc]\npriorities = [3, 4]\n")),
      ElementsAre("11 10 warning s0: 2 lossless groups of a port share the headroom of one"));
}

TEST(Lint, Rule12WatchdogTimes) {
  EXPECT_THAT(
      found(star("[switch.watchdog]\nmachine = \"sonic\"\ndetection = \"200ms\"\n"
                 "poll = \"200ms\"\nrestoration = \"100ms\"\n")),
      ElementsAre("12 11 warning s0: detection takes 200 ms, but the watchdog looks only each "
                  "200 ms",
                  "12 11 warning s0: restoration takes 100 ms, less than detection (200 ms)"));
  EXPECT_THAT(found(star("[switch.watchdog]\nmachine = \"cumulus\"\nrobustness = 1\n")),
              ElementsAre("12 11 warning s0: robustness is 1: one look decides"));
  EXPECT_THAT(
      found(star("[host.h1.storm]\npriorities = [3]\n")),
      ElementsAre("12 10 error s0: h1 sends pauses without end, and no watchdog looks at its "
                  "port"));
}

TEST(Lint, Rule13AsymmetricPfcWithWatchdog) {
  EXPECT_THAT(
      found(star("[switch.pfc]\nrx = [0, 1, 2, 3, 4, 5, 6, 7]\n[switch.watchdog]\n"
                 "machine = \"cumulus\"\n")),
      ElementsAre("13 10 warning s0: PFC is asymmetric (rx and tx differ), and a watchdog is "
                  "on"));
}

TEST(Lint, Rule14Mtu) {
  EXPECT_THAT(
      found(star("[switch]\nmtu = \"1500B\"\n[host]\npath_mtu = \"4096B\"\n")),
      ElementsAre("14 10 error s0: its MTU is 1500, but packets of 4096 bytes of payload are "
                  "4168 bytes with their headers"));
  EXPECT_THAT(found(star("[host.h0]\npath_mtu = \"512B\"\n")),
              ElementsAre("14 10 error h0: its path MTU is 512, its peers have 1024"));
}

TEST(Lint, Rule15CycleIsNamedPortByPort) {
  const std::string ring =
      "[topology]\nkind = \"ring\"\nswitches = 5\n[[workload]]\nkind = \"shift\"\nstep = 2\nbytes "
      "= \"1MB\"\n";
  const auto findings = found(ring);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0],
              testing::MatchesRegex("15 2 error : lossless paths wait for each other in a ring: "
                                    "(port [0-9] of s[0-4] \\(to s[0-4]\\) -> ){5}port [0-9] of "
                                    "s[0-4] \\(to s[0-4]\\)"));
  // Neighbours only: no path passes two links between switches.
  EXPECT_THAT(found("[topology]\nkind = \"ring\"\nswitches = 5\n[[workload]]\nkind = \"shift\"\n"
                    "step = 1\nbytes = \"1MB\"\n"),
              IsEmpty());
}

TEST(Lint, Rule16ControlClass) {
  EXPECT_THAT(found(star("[host.np]\ncnp_dscp = 26\n")),
              ElementsAre("16 10 warning s0: CNPs (DSCP 26) travel in queue 3, as the data does"));
}

TEST(Lint, Rule17RoceV1) {
  const auto findings = found(star("[host]\ndscp = 0\nect = false\n"));
  EXPECT_THAT(findings, testing::Contains(testing::StartsWith(
                            "17 10 warning h0,h1: its packets carry neither DSCP nor ECT")));
}

TEST(Lint, Rule18Alpha) {
  const auto findings = found(
      "[topology]\nkind = \"leaf-spine\"\nleaves = 4\n[[workload]]\n"
      "kind = \"permutation\"\nbytes = \"1MB\"\n[switch.leaf1.group]\n"
      "alpha = 0.03125\n");
  EXPECT_THAT(findings,
              testing::Contains("18 8 warning leaf1: alpha of a lossless group is 0.03125, "
                                "0.125 on other ports of its tier"));
  EXPECT_THAT(
      found(star("[host.h2.receive]\nrate = \"20G\"\n")),
      ElementsAre("18 10 warning h2: the adapter takes in 20 Gb/s of a link of 100 and pauses "
                  "the switch"));
}

TEST(Lint, Rule19UnheardPauses) {
  EXPECT_THAT(found(star("[host.h0.pfc]\nrx = []\n")),
              ElementsAre("19 10 error h0: it does not obey pauses of priority 3, which its switch "
                          "sends"));
}

TEST(Lint, FindingsSayWhatComesOfItAndTheFix) {
  const auto findings = lint(parsed(star("[switch.group]\nheadroom = 0\n")));
  ASSERT_EQ(findings.size(), 1u);
  const std::string text = text_of("x.toml", findings[0]);
  EXPECT_THAT(text, testing::StartsWith("x.toml:10: error: s0: priority 3 pauses its sender, but "
                                        "group 3 has no headroom [1 pfc-without-headroom]\n"
                                        "  then: up to "));
  EXPECT_THAT(text,
              testing::EndsWith("  fix: headroom = \"auto\" in [switch.group], or a number of "
                                "bytes\n"));
}

// scenarios/mistakes/NN-name.toml makes the mistake of rule NN, and each of its findings has a
// line.
TEST(Lint, EveryMistakeIsFoundInItsScenario) {
  std::set<int> made;
  for (const auto& entry : std::filesystem::directory_iterator(SCENARIOS "/mistakes")) {
    const auto scenario = read_scenario(entry.path(), {});
    ASSERT_TRUE(scenario) << scenario.error().message;
    const int number = std::stoi(entry.path().stem().string().substr(0, 2));
    made.insert(number);
    const std::vector<Finding> findings = lint(*scenario);
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.rule == number;
    })) << entry.path();
  }
  for (int number = 1; number <= 18; ++number) EXPECT_TRUE(made.contains(number)) << number;
}

TEST(Lint, RulesAreNumberedAndSourced) {
  int number = 0;
  for (const LintRule& rule : lint_rules()) {
    EXPECT_EQ(rule.number, ++number);
    EXPECT_FALSE(rule.name.empty());
    EXPECT_FALSE(rule.about.empty());
    EXPECT_FALSE(rule.evidence.empty());
  }
  EXPECT_GE(number, 18);
}

TEST(Dependency, RingsAndTrees) {
  fabric::DependencyGraph tree;
  tree.add(std::vector<uint32_t>{0, 4, 5});
  tree.add(std::vector<uint32_t>{1, 4, 6});
  EXPECT_THAT(tree.cycle(), IsEmpty());
  EXPECT_THAT(fabric::DependencyGraph().cycle(), IsEmpty());

  fabric::DependencyGraph ring;
  ring.add(std::vector<uint32_t>{9, 2, 3});  // 9 leads in, and is not part of it
  ring.add(std::vector<uint32_t>{3, 7});
  ring.add(std::vector<uint32_t>{7, 2});
  EXPECT_THAT(ring.cycle(), ElementsAre(2, 3, 7));
  ring.add(std::vector<uint32_t>{3, 2});  // a shorter one
  EXPECT_THAT(ring.cycle(), ElementsAre(2, 3));
  ring.add(std::vector<uint32_t>{1, 1});
  EXPECT_THAT(ring.cycle(), ElementsAre(1));
}

}  // namespace
}  // namespace verbena::scenario
