// Every section of a scenario with its table of keys. A section that has no struct of its own in
// scenario.h fills a form, which its reader turns into what it stands for.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "scenario/keys.h"
#include "scenario/scenario.h"
#include "scenario/topology.h"
#include "scenario/workload.h"

namespace verbena::scenario {

struct ScenarioForm {
  std::string name, description;
  uint64_t seed = 1;
  fabric::Time duration = 0, warm_up = 0, sample = 10 * fabric::kMicrosecond;
  enum Profile : uint8_t { kNone, kHpccNs3 } profile = kNone;
};
const std::vector<Key<ScenarioForm>>& scenario_keys();

struct TopologyForm {
  uint32_t kind = 0;  // index of shape_kinds(), then "links"
  uint64_t rate = 0, fabric_rate = 0;
  fabric::Time delay = -1, fabric_delay = -1;  // -1, and -1 metres: not given
  double cable = -1, fabric_cable = -1;
  uint32_t gap = fabric::LinkSettings{}.gap_bytes;
  std::vector<std::string> switch_names;
  std::string file, name;
  Shape shape;
};
const std::vector<Key<TopologyForm>>& topology_keys();       // the kind first
const std::vector<Key<TopologyForm>>& topology_list_keys();  // of kind "links"
std::vector<Key<Shape>> count_keys(const ShapeKind& kind);

struct LinkForm {
  std::string a, b;
  uint64_t rate = 0;
  fabric::Time delay = -1;
  double cable = -1;
  uint32_t gap = UINT32_MAX;  // not given
  uint32_t count = 1;
};
const std::vector<Key<LinkForm>>& link_keys();

struct FlowForm {
  std::string from, to, name, group;
  std::vector<std::string> after;
  Flow flow;  // bytes, start, verb, dscp, priority
};
const std::vector<Key<FlowForm>>& flow_form_keys();
const std::vector<Key<Flow>>& flow_keys();

struct WorkloadForm {
  uint32_t kind = 0;  // Workload::Kind
  std::string name, cdf = "WebSearch", file;
  std::vector<std::string> from{"all"}, to{"all"};
  double load = 0.3;
};
struct WorkloadKind {
  std::string_view name;
  std::string_view help;
  std::vector<Key<WorkloadForm>> form;  // beside name and kind
  std::vector<Key<Workload>> keys;      // beside those of every kind
};
const std::vector<WorkloadKind>& workload_kinds();           // in the order of Workload::Kind
const std::vector<Key<WorkloadForm>>& workload_form_keys();  // of every kind; the kind first
const std::vector<Key<Workload>>& workload_keys();           // of every kind

struct EventForm {
  enum Kind : uint8_t { kLinkDown, kStorm } kind = kLinkDown;
  std::string a, b, host;
  fabric::Time at = 0, until = fabric::kForever;
  uint8_t priorities = 1 << 3;
  fabric::Time interval = fabric::HostSettings{}.storm_interval;
};
const std::vector<Key<EventForm>>& event_keys();

}  // namespace verbena::scenario
