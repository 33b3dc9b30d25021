// Topologies that are a list of links, and what holds for every topology.
#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "scenario/topology.h"

namespace verbena::scenario {
namespace {

// How far a switch is from the nearest host, for drawing: 1 next to one.
void set_tiers(Topology& topology) {
  const auto ports = ports_of(topology);
  std::vector<uint32_t> line;
  for (uint32_t h = 0; h < topology.hosts; ++h) line.push_back(h);
  std::vector<bool> seen(topology.nodes.size());
  std::fill_n(seen.begin(), topology.hosts, true);
  for (size_t at = 0; at < line.size(); ++at)
    for (const PortEnd& end : ports[line[at]]) {
      if (seen[end.peer]) continue;
      seen[end.peer] = true;
      topology.nodes[end.peer].tier = std::min(topology.nodes[line[at]].tier + 1, 3u);
      line.push_back(end.peer);
    }
}

}  // namespace

Result<Topology> topology_of_links(std::span<const NamedLink> links,
                                   std::span<const std::string> switches) {
  Topology topology;
  topology.kind = "links";
  if (links.size() > kMaxLinks)
    return fail(EINVAL, fmt::format("{} links; {} are the most", links.size(), kMaxLinks));
  std::unordered_map<std::string, uint32_t> number;
  for (const std::string& name : switches)
    if (!number.emplace(name, 0).second)
      return fail(EINVAL, fmt::format("switch {} is named twice", name));
  for (const NamedLink& link : links)
    for (const std::string* name : {&link.a, &link.b})
      if (number.emplace(*name, topology.hosts).second) {
        topology.nodes.push_back({*name, false, 0});
        ++topology.hosts;
      }
  for (const std::string& name : switches) {
    number[name] = static_cast<uint32_t>(topology.nodes.size());
    topology.nodes.push_back({name, true, 1});
  }
  for (const NamedLink& link : links) {
    topology.links.push_back(link.link);
    topology.links.back().a = number[link.a];
    topology.links.back().b = number[link.b];
  }
  if (auto good = check_topology(topology); !good) return tl::unexpected(good.error());
  set_tiers(topology);
  return topology;
}

Result<void> check_topology(const Topology& topology) {
  if (topology.nodes.size() > kMaxNodes)
    return fail(EINVAL, fmt::format("{} nodes; {} are the most", topology.nodes.size(), kMaxNodes));
  if (topology.hosts == 0) return fail(EINVAL, "there is no host");
  for (const Link& link : topology.links)
    if (link.a == link.b)
      return fail(EINVAL, fmt::format("a link joins {} to itself", topology.nodes[link.a].name));
  const auto ports = ports_of(topology);
  for (uint32_t h = 0; h < topology.hosts; ++h)
    if (ports[h].size() != 1)
      return fail(EINVAL, fmt::format("host {} has {} links; a host has one",
                                      topology.nodes[h].name, ports[h].size()));
  uint64_t pairs = 0;
  for (uint32_t n = topology.hosts; n < topology.nodes.size(); ++n) {
    if (ports[n].size() > kMaxPorts)
      return fail(EINVAL, fmt::format("switch {} has {} links; {} are the most",
                                      topology.nodes[n].name, ports[n].size(), kMaxPorts));
    pairs += uint64_t{ports[n].size()} * ports[n].size();
  }
  if (pairs > kMaxPortPairs)
    return fail(EINVAL,
                fmt::format("the switches have too many ports: their squares sum up to {}; {} is "
                            "the most",
                            pairs, kMaxPortPairs));
  std::vector<uint32_t> line{0};
  std::vector<bool> seen(topology.nodes.size());
  seen[0] = true;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] < topology.hosts && at != 0) continue;  // hosts do not forward
    for (const PortEnd& end : ports[line[at]])
      if (!seen[end.peer]) {
        seen[end.peer] = true;
        line.push_back(end.peer);
      }
  }
  for (uint32_t n = 0; n < topology.nodes.size(); ++n)
    if (!seen[n])
      return fail(EINVAL, fmt::format("{} cannot be reached from {}", topology.nodes[n].name,
                                      topology.nodes[0].name));
  return {};
}

std::vector<std::vector<PortEnd>> ports_of(const Topology& topology) {
  std::vector<std::vector<PortEnd>> ports(topology.nodes.size());
  for (uint32_t i = 0; i < topology.links.size(); ++i) {
    const Link& link = topology.links[i];
    ports[link.a].push_back({i, link.b});
    ports[link.b].push_back({i, link.a});
  }
  return ports;
}

namespace {

uint64_t ends(int64_t a, int64_t b) {
  return static_cast<uint64_t>(std::min(a, b)) << 32 | static_cast<uint32_t>(std::max(a, b));
}

}  // namespace

LinksBetween::LinksBetween(const Topology& topology) {
  for (uint32_t i = 0; i < topology.links.size(); ++i)
    by_ends_[ends(topology.links[i].a, topology.links[i].b)].push_back(i);
}

const std::vector<uint32_t>& LinksBetween::find(int64_t a, int64_t b) const {
  static const std::vector<uint32_t> kNone;
  const auto found = a < 0 || b < 0 ? by_ends_.end() : by_ends_.find(ends(a, b));
  return found == by_ends_.end() ? kNone : found->second;
}

}  // namespace verbena::scenario
