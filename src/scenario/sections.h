// The sections of a scenario file, one reader each; read.cc calls them in order. All fill one
// Scenario and give the first mistake as an error with its line.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scenario/reader.h"
#include "scenario/topology.h"

namespace verbena::scenario {

// Nodes by name, and hosts by number too.
class NodeNames {
 public:
  explicit NodeNames(const Topology& topology);
  // -1: none. A number is the node of that name, else the host of that number.
  int64_t node(const std::string& name) const;
  int64_t host(const std::string& name) const;
  // Hosts of a list: names, numbers, ranges "0-7", "all". EINVAL names what is none.
  Result<std::vector<uint32_t>> hosts(const std::vector<std::string>& list) const;
  std::vector<std::string_view> words(bool switches) const;  // names, for hints

 private:
  const Topology& topology_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

// A name in [switch.NAME] or [host.NAME]: a node, or the beginning of names with a '*' behind it.
bool name_matches(std::string_view pattern, std::string_view name);

// Tables in [`section`] that are neither a key nor among `tables`: each must be or match one of
// `devices`, names of nodes.
Result<std::vector<std::string_view>> device_names(const Reader& in, const toml::table& table,
                                                   std::string_view section,
                                                   const std::vector<std::string_view>& known,
                                                   const std::vector<std::string_view>& devices);

// A file that the scenario names: relative to the scenario's own folder.
std::string path_beside(const std::string& scenario_file, const std::string& name);

Status read_topology(Reader& in, const toml::table& root, Topology& topology);
// `profile` of [scenario]: "" or "hpcc-ns3".
Status read_switches(Reader& in, const toml::table& root, bool as_hpcc, Scenario& scenario);
Status read_hosts(Reader& in, const toml::table& root, bool as_hpcc, Scenario& scenario);
Status read_traffic(Reader& in, const toml::table& root, Scenario& scenario);
Status read_events(Reader& in, const toml::table& root, Scenario& scenario);
Status read_expectations(Reader& in, const toml::table& root, Scenario& scenario);

}  // namespace verbena::scenario
