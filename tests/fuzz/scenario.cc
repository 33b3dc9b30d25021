// Fuzz: a scenario file of unknown origin. It is a scenario that fits together, or one sentence.
#include "scenario/scenario.h"

#include <string_view>

#include "base/check.h"

using namespace verbena::scenario;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scenario = parse_scenario("fuzz.toml", text, {});
  if (!scenario) {
    CHECK(scenario.error().code != 0 && !scenario.error().message.empty());
    return 0;
  }
  const Topology& topology = scenario->topology;
  CHECK(scenario->hosts.size() == topology.hosts);
  CHECK(scenario->switches.size() + topology.hosts == topology.nodes.size());
  for (size_t i = 0; i < scenario->flows.size(); ++i) {
    const Flow& flow = scenario->flows[i];
    CHECK(flow.source < topology.hosts && flow.destination < topology.hosts);
    CHECK(flow.source != flow.destination && flow.bytes > 0);
    for (uint32_t before : flow.after) CHECK(before < i);
  }
  return 0;
}
