// Random fabrics: a topology, settings, traffic and hosts drawn from one seed, as the text of a
// scenario, so that a world that fails can be looked at and run by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::sim::test {

struct FabricPlan {
  std::string text;      // TOML
  bool lossless = true;  // nothing may be dropped
  bool ordered = true;   // no path changes: go-back-N has nothing to do
};
FabricPlan draw_fabric(uint64_t seed);

// Runs the world; what was wrong, one sentence each. `hash`: of its trace.
std::vector<std::string> run_fabric(const FabricPlan& plan, uint64_t& hash);

}  // namespace verbena::sim::test
