// Every file in scenarios/ is a scenario, with a description and expectations.
#include <gtest/gtest.h>

#include <filesystem>

#include "scenario/scenario.h"

namespace verbena::scenario {
namespace {

TEST(Files, EveryScenarioReads) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SCENARIOS)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    const auto scenario = read_scenario(entry.path(), {});
    ASSERT_TRUE(scenario) << scenario.error().message;
    EXPECT_EQ(scenario->name, entry.path().stem());
    EXPECT_FALSE(scenario->description.empty()) << entry.path();
    EXPECT_FALSE(scenario->flows.empty()) << entry.path();
    EXPECT_FALSE(scenario->expectations.empty()) << entry.path();
  }
  EXPECT_GE(files, 18);
}

Scenario read(const std::string& name) {
  auto scenario = read_scenario(std::string(SCENARIOS "/") + name, {});
  EXPECT_TRUE(scenario) << scenario.error().message;
  return scenario ? *scenario : Scenario{};
}

// The reference's numbers of nodes are their names.
TEST(Files, Victim) {
  const Scenario s = read("victim.toml");
  EXPECT_EQ(s.topology.hosts, 9u);
  EXPECT_EQ(s.topology.nodes[0].name, "2");
  EXPECT_EQ(s.topology.nodes[9].name, "0");
  EXPECT_EQ(s.flows[4].source, 2u);       // node 4
  EXPECT_EQ(s.flows[4].destination, 4u);  // node 6
  EXPECT_EQ(s.flows[4].group, "victim");
}

TEST(Files, ListAndOwnSizes) {
  const Scenario s = read("flow-list.toml");
  ASSERT_GE(s.flows.size(), 5u);
  EXPECT_EQ(s.flows[0].bytes, 184'834u);
  EXPECT_EQ(s.flows[0].start, 962'000);
  EXPECT_EQ(s.flows[3].source, 2u);
  EXPECT_EQ(s.flows[3].destination, 3u);
  for (size_t i = 4; i < s.flows.size(); ++i) {
    EXPECT_EQ(s.flows[i].group, "background");
    EXPECT_LE(s.flows[i].bytes, 65'536u);
  }
}

TEST(Files, ThreeTier) {
  const Scenario s = read("three-tier-320.toml");
  EXPECT_EQ(s.topology.hosts, 320u);
  EXPECT_EQ(s.switches.size(), 56u);
  EXPECT_GT(s.flows.size(), 1'000u);
  // A tor's uplinks are faster: they have headroom of their own.
  EXPECT_EQ(s.switches[0].ports.size(), 4u);
  EXPECT_EQ(s.switches[0].port.groups[3].headroom_bytes, 98'368u);
  EXPECT_EQ(s.switches[0].ports.at(16).groups[3].headroom_bytes, 318'268u);
}

}  // namespace
}  // namespace verbena::scenario
