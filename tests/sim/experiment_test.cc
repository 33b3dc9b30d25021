// Flows from their start to their end, as scenarios say, where something goes wrong on the way.
#include "sim/experiment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/summary.h"

namespace verbena::sim {
namespace {

scenario::Scenario read(const std::string& text) {
  auto scenario = scenario::parse_scenario("test", text, {});
  EXPECT_TRUE(scenario) << scenario.error().message;
  return *scenario;
}

double value(const Experiment& experiment, const char* name) {
  const Summary summary = summarise(experiment);
  const Value* found = summary.find(name);
  return found ? found->value : -1;
}

// A flow of more than a gigabyte has two work requests under way; both are flushed, and it fails
// once.
TEST(Experiment, AFlowThatFailsFailsOnce) {
  Experiment experiment(read(R"(
[scenario]
duration = "200ms"
[topology]
kind = "star"
hosts = 3
[host]
timeout = 8
retry_count = 1
[[flow]]
name = "long"
bytes = "4GB"
from = 0
to = 1
[[flow]]
from = 0
to = 2
bytes = "1MB"
after = ["long"]
[[event]]
kind = "link-down"
at = "1ms"
a = "h1"
b = "s0"
)"));
  experiment.run();
  EXPECT_TRUE(experiment.flows()[0].failed);
  EXPECT_EQ(experiment.flows()[0].status, engine::WcStatus::kRetryExcErr);
  EXPECT_EQ(experiment.flows()[0].completions, 2u);
  EXPECT_FALSE(experiment.flows()[1].failed);
  EXPECT_GT(experiment.flows()[1].end, 0);
  EXPECT_EQ(experiment.flows_done(), 2u);
}

TEST(Experiment, BytesBeforeTheWarmUpCountForNothing) {
  // One flow is over before, one begins after it; no sample falls on its end.
  Experiment experiment(read(R"(
[scenario]
duration = "2ms"
warm_up = "1ms"
sample = "300us"
[topology]
kind = "star"
hosts = 3
[[flow]]
from = 0
to = 2
bytes = "1MB"
[[flow]]
from = 1
to = 2
bytes = "2MB"
start = "1500us"
)"));
  experiment.run();
  EXPECT_EQ(experiment.flows()[0].received, 1'000'000u);
  EXPECT_EQ(experiment.flows()[0].received_warm, 1'000'000u);
  EXPECT_EQ(experiment.flows()[1].received_warm, 0u);
  // 2 MB from the end of the warm-up to the end of the last flow.
  const double counted = static_cast<double>(experiment.flows()[1].end) / 1e9 - 1;
  EXPECT_NEAR(value(experiment, "goodput_gbps"), 2 * 8 / counted, 0.01);
}

TEST(Experiment, WhatGotNothingCountsInFairness) {
  Experiment experiment(read(R"(
[scenario]
duration = "1ms"
[topology]
kind = "star"
hosts = 4
[host]
timeout = 0
[[flow]]
from = 0
to = 1
[[flow]]
from = 2
to = 3
[[event]]
kind = "link-down"
at = "0s"
a = "h3"
b = "s0"
)"));
  experiment.run();
  EXPECT_EQ(experiment.flows()[1].received, 0u);
  EXPECT_NEAR(value(experiment, "jain"), 0.5, 0.001);
}

}  // namespace
}  // namespace verbena::sim
