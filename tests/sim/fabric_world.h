// Random fabrics: a topology, settings, traffic and hosts drawn from one seed, as the text of a
// scenario, so that a world that fails can be looked at and run by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::sim::test {

struct FabricPlan {
  std::string text;           // TOML
  bool lossless = true;       // nothing may be dropped
  bool ordered = true;        // no path changes: go-back-N has nothing to do
  bool two_classes = false;   // priorities 3 and 4 are lossless
  bool selective = false;     // missing packets are asked for
  bool may_deadlock = false;  // a circle of switches
  bool links_fail = false;
  bool watched = false;  // a watchdog may drop
  int storm_host = -1;   // whose adapter sends pauses without end
};
FabricPlan draw_fabric(uint64_t seed);

struct FabricOutcome {
  std::vector<std::string> wrong;  // one sentence each
  uint64_t hash = 0;               // of the trace
  uint64_t drops = 0, storms = 0;  // frames; queues that a watchdog took for stormed
  bool deadlocked = false;
};
FabricOutcome run_fabric(const FabricPlan& plan);

}  // namespace verbena::sim::test
