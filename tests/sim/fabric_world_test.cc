// Random fabrics from seeds: every work request completes once with all its bytes, nothing is lost
// where nothing may be, books and pauses balance, no timer is left, and one seed gives one trace.
// Links fail, adapters storm, watchdogs strike and circles deadlock in some of them.
//   fabric_world_test [--worlds N] [--seed FIRST] [--show]
#include "fabric_world.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

using namespace verbena::sim::test;

int main(int argc, char** argv) {
  uint64_t worlds = 150, first = 1;
  if (const char* more = getenv("VERBENA_SEEDS")) worlds = strtoull(more, nullptr, 10);
  bool show = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view option = argv[i];
    if (option == "--show") show = true;
    if (i + 1 < argc && option == "--worlds") worlds = strtoull(argv[++i], nullptr, 10);
    if (i + 1 < argc && option == "--seed") first = strtoull(argv[++i], nullptr, 10), worlds = 1;
  }
  uint64_t failed = 0, deadlocked = 0, lossy = 0, stormed = 0;
  for (uint64_t seed = first; seed < first + worlds; ++seed) {
    FabricPlan plan = draw_fabric(seed);
    if (show) fmt::print("{}\n", plan.text);
    FabricOutcome outcome = run_fabric(plan);
    if (seed % 10 == 0 && run_fabric(plan).hash != outcome.hash)
      outcome.wrong.emplace_back("the same seed gave another trace");
    deadlocked += outcome.deadlocked;
    lossy += outcome.drops > 0;
    stormed += outcome.storms > 0;
    if (outcome.wrong.empty()) continue;
    ++failed;
    fmt::print("seed {} failed; again: fabric_world_test --seed {} --show\n", seed, seed);
    for (const std::string& text : outcome.wrong) fmt::print("  {}\n", text);
  }
  fmt::print(
      "{} worlds, {} failed; {} deadlocked, {} lost frames, {} with a watchdog that struck\n",
      worlds, failed, deadlocked, lossy, stormed);
  return failed == 0 ? 0 : 1;
}
