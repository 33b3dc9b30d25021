// A scenario from its text, which has to be right.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "scenario/scenario.h"

namespace verbena::scenario {

inline Scenario parsed(std::string_view text, const std::vector<Override>& overrides = {}) {
  auto scenario = parse_scenario("x.toml", text, overrides);
  EXPECT_TRUE(scenario) << scenario.error().message << "\n" << text;
  return scenario ? *scenario : Scenario{};
}

}  // namespace verbena::scenario
