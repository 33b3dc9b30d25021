// The usual shapes of a fabric from a few numbers. A topology is data: nodes (hosts first), links,
// and nothing that moves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

// What a shape is made of. A count that its kind does not use stays 0; kShapes says which it does.
struct Shape {
  std::string kind = "star";
  uint32_t hosts = 0;     // star: all; dumbbell: on each side; else on each lowest switch
  uint32_t switches = 0;  // parking-lot, ring
  uint32_t leaves = 0, spines = 0;
  uint32_t k = 0;  // fat-tree: ports of a switch; an even number
  uint32_t pods = 0, cores = 0, aggregations = 0, tors = 0;  // three-tier: of the whole fabric
  uint32_t servers = 0, gpus = 0;  // rail: adapters of a server, one for each GPU
  uint32_t rail_switches = 0;      // rail: of each rail; servers are dealt to them in order
  uint32_t parallel = 0;           // links between two switches that are joined at all
  Link host_link, fabric_link;     // settings and cable; the nodes are not looked at
};

// One count of a shape: its name in a scenario, its range and what it is when not given.
struct ShapeCount {
  std::string_view name;
  uint32_t Shape::* field;
  uint32_t least, most, usual;
  std::string_view help;
};
struct ShapeKind {
  std::string_view name;
  std::string_view help;
  std::vector<ShapeCount> counts;
};
// Every kind but "links", which has no counts.
const std::vector<ShapeKind>& shape_kinds();

// Fabrics of more nodes or links than these are refused.
inline constexpr uint32_t kMaxNodes = 20'000;
inline constexpr uint32_t kMaxLinks = 200'000;
// A switch keeps a number for each pair of its ports.
inline constexpr uint32_t kMaxPorts = 4096;
inline constexpr uint64_t kMaxPortPairs = uint64_t{1} << 28;  // of all switches: 1 GiB

// Counts that are 0 get their usual value. EINVAL: unknown kind, a count out of range or one that
// the kind does not have, counts that do not fit together, too large.
//
// Names: hosts h0.., then
//   star, dumbbell, parking-lot, ring  s0..
//   leaf-spine                         leaf0.., spine0..
//   fat-tree                           edge0.., agg0.., core0..   (Al-Fares 2008; edges by pod)
//   three-tier                         tor0.., agg0.., core0..    (tors and aggregations by pod)
//   rail                               rail0.., spine0..          (switches of rail 0 first)
// Hosts are numbered along their switches; in "rail" along their servers: GPU g of server s is
// host s * gpus + g.
Result<Topology> build_topology(const Shape& shape);

// "links": nodes are what the links join. `switches` names which are switches; the rest are hosts,
// in the order in which the links name them. EINVAL as below, and a switch named twice.
struct NamedLink {
  std::string a, b;
  Link link;
};
Result<Topology> topology_of_links(std::span<const NamedLink> links,
                                   std::span<const std::string> switches);

// EINVAL: a host without a link or with more than one, hosts that cannot reach each other, a link
// from a node to itself, too many nodes or links, a switch of too many ports.
Result<void> check_topology(const Topology& topology);

// Ports of a node are numbered in the order of its links.
struct PortEnd {
  uint32_t link = 0;
  uint32_t peer = 0;  // node
};
std::vector<std::vector<PortEnd>> ports_of(const Topology& topology);

// Which links join two nodes, found at once.
class LinksBetween {
 public:
  explicit LinksBetween(const Topology& topology);
  // Numbers of links; either order. Empty for nodes that are not joined or are none (-1).
  const std::vector<uint32_t>& find(int64_t a, int64_t b) const;

 private:
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_ends_;
};

}  // namespace verbena::scenario
