// The same file and seed give the same run, in every kind of build: the hashes here are those of a
// release build, and debug and sanitizer builds run this too. A change of the simulation's
// behaviour changes them; then they are printed, to be looked at and put here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scenario/scenario.h"
#include "sim/experiment.h"

namespace verbena::sim {
namespace {

struct Golden {
  const char* file;
  uint64_t hash;
};

constexpr Golden kGolden[] = {
    {"incast.toml", 0x8a2f976c39396a52},
    {"link-failure.toml", 0xcd5dbf189d1dc097},
    {"ring-deadlock.toml", 0x4f4cd2a44b92691a},
    {"mistakes/05-dscp-map.toml", 0x6cd2fb2f6bff2719},
};

TEST(Trace, IsTheSameInEveryBuild) {
  for (const Golden& golden : kGolden) {
    const std::string path = fmt::format("{}/{}", SCENARIOS, golden.file);
    auto scenario = scenario::read_scenario(path, {});
    ASSERT_TRUE(scenario) << scenario.error().message;
    Experiment experiment(*scenario);
    experiment.run();
    const uint64_t hash = experiment.network().trace_hash();
    EXPECT_EQ(hash, golden.hash) << fmt::format("{}: {:#x}", golden.file, hash);
  }
}

TEST(Trace, AnotherSeedIsAnotherRun) {
  const std::string path = fmt::format("{}/incast.toml", SCENARIOS);
  auto scenario = scenario::read_scenario(path, {{"scenario.seed", "2"}});
  ASSERT_TRUE(scenario) << scenario.error().message;
  Experiment experiment(*scenario);
  experiment.run();
  EXPECT_NE(experiment.network().trace_hash(), kGolden[0].hash);
}

}  // namespace
}  // namespace verbena::sim
