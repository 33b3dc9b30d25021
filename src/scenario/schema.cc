// [scenario], [topology], [[link]] and [[event]].
#include "scenario/schema.h"

#include <cmath>

namespace verbena::scenario {

const std::vector<Key<ScenarioForm>>& scenario_keys() {
  using F = ScenarioForm;
  static const std::vector<Key<F>> kKeys = {
      text_key("name", &F::name, "of the experiment; else the file's name"),
      text_key("description", &F::description, "a sentence for the report"),
      count_key("seed", &F::seed, 0, 9e15, "of everything that is drawn at random"),
      time_key("duration", &F::duration, 0, "simulated time; 0: until every flow has ended"),
      time_key("warm_up", &F::warm_up, 0, "queue and goodput figures count from here"),
      time_key("sample", &F::sample, 1e3, "between two points of the series in the report"),
      choice_key("profile", &F::profile, {"none", "hpcc-ns3"},
                 "\"hpcc-ns3\": switches, hosts and links as the HPCC simulator has them"),
  };
  return kKeys;
}

const std::vector<Key<TopologyForm>>& topology_keys() {
  using F = TopologyForm;
  static const std::vector<Key<F>> kKeys = [] {
    std::vector<std::string_view> kinds;
    for (const ShapeKind& kind : shape_kinds()) kinds.push_back(kind.name);
    kinds.emplace_back("links");
    std::vector<Key<F>> keys = {
        choice_key("kind", &F::kind, std::move(kinds), "its shape"),
        rate_key("rate", &F::rate, 1e6, "of links"),
        time_key("delay", &F::delay, 0, "of links, one way"),
        real_key("cable", Kind::kLength, &F::cable, 0, 200'000,
                 "instead of delay: 5 ns for each metre"),
        rate_key("fabric_rate", &F::fabric_rate, 1e6, "of links between switches"),
        time_key("fabric_delay", &F::fabric_delay, 0, "of links between switches"),
        real_key("fabric_cable", Kind::kLength, &F::fabric_cable, 0, 200'000,
                 "of links between switches"),
        count_key("gap", &F::gap, 0, 1000, "bytes around each frame: preamble, start, gap"),
    };
    const std::string_view usual[] = {"\"star\"", "\"100G\"", "\"1us\"", "",
                                      "rate",     "delay",    "cable"};
    for (size_t i = 0; i < std::size(usual); ++i) keys[i].usual = usual[i];
    return keys;
  }();
  return kKeys;
}

const std::vector<Key<TopologyForm>>& topology_list_keys() {
  using F = TopologyForm;
  static const std::vector<Key<F>> kKeys = {
      nodes_key("switches", &F::switch_names, "which nodes are switches; the rest are hosts"),
      text_key("file", &F::file, "a CSV file of links, beside the scenario"),
      text_key("name", &F::name, "the rows of the file with this in the column topology"),
  };
  return kKeys;
}

std::vector<Key<Shape>> count_keys(const ShapeKind& kind) {
  std::vector<Key<Shape>> keys;
  for (const ShapeCount& count : kind.counts)
    keys.push_back(count_key(count.name, count.field, count.least, count.most, count.help));
  return keys;
}

const std::vector<Key<LinkForm>>& link_keys() {
  using F = LinkForm;
  static const std::vector<Key<F>> kKeys = [] {
    std::vector<Key<F>> keys = {
        node_key("a", &F::a, "one end"),
        node_key("b", &F::b, "the other"),
        rate_key("rate", &F::rate, 1e6, "each way"),
        time_key("delay", &F::delay, 0, "one way"),
        real_key("cable", Kind::kLength, &F::cable, 0, 200'000, "instead of delay"),
        count_key("gap", &F::gap, 0, 1000, "bytes around each frame"),
        count_key("count", &F::count, 1, 64, "so many links between the two (kind \"links\")"),
    };
    for (size_t i = 0; i < 6; ++i) keys[i].usual = i < 2 ? "" : "that of [topology]";
    return keys;
  }();
  return kKeys;
}

const std::vector<Key<EventForm>>& event_keys() {
  using F = EventForm;
  static const std::vector<Key<F>> kKeys = {
      choice_key("kind", &F::kind, {"link-down", "storm"},
                 "a link fails; a host's adapter sends pauses without end"),
      node_key("a", &F::a, "link-down: one end"),
      node_key("b", &F::b, "link-down: the other"),
      node_key("host", &F::host, "storm: whose adapter"),
      time_key("at", &F::at, 0, "when it begins"),
      or_word(time_key("until", &F::until, 0, "when it is over"), "end", &F::until,
              fabric::kForever),
      priorities_key("priorities", &F::priorities, "storm: that it pauses"),
      time_key("interval", &F::interval, 1e3, "storm: between pause frames"),
  };
  return kKeys;
}

}  // namespace verbena::scenario
