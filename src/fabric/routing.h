// Shortest paths and the choice among equal ones. Tables are computed from the links that are up;
// a switch knows for every host the ports that bring a frame nearer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fabric/settings.h"

namespace verbena::fabric {

using PortId = uint32_t;

// The graph that routes are computed on: nodes are hosts first, then switches.
struct Edge {
  uint32_t node = 0;  // where it leads
  uint16_t port = 0;  // number at the node it leaves
};
struct Graph {
  uint32_t hosts = 0;
  std::vector<std::vector<Edge>> edges;  // by node, in port order; only links that are up
};

// Ports of one switch toward each host.
class RouteTable {
 public:
  // Empty when there is no way.
  std::span<const uint16_t> toward(uint32_t host) const {
    const Group& group = groups_[by_host_[host]];
    return {ports_.data() + group.first, group.count};
  }

 private:
  friend std::vector<RouteTable> compute_routes(const Graph&);
  struct Group {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  std::vector<uint32_t> by_host_;  // index into groups_
  std::vector<Group> groups_{1};   // group 0 is empty
  std::vector<uint16_t> ports_;
};

// One table for each switch, in order. Hosts do not forward.
std::vector<RouteTable> compute_routes(const Graph& graph);

// A hash of `flow_hash` for one switch: which of `count` equal ways. Different at every switch, or
// the second tier would only ever use one of its ways.
inline uint32_t ecmp_choice(uint32_t flow_hash, uint32_t seed, uint32_t count) {
  uint64_t x = (uint64_t{flow_hash} << 32 | seed) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 32;
  return static_cast<uint32_t>((x & 0xffffffff) * count >> 32);
}

// The 5-tuple of a RoCE v2 packet; protocol and destination port are always the same.
inline uint32_t flow_hash(uint32_t source, uint32_t destination, uint16_t source_port) {
  uint64_t x = (uint64_t{source} << 32 | destination) * 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x = (x + source_port) * 0xc4ceb9fe1a85ec53ull;
  return static_cast<uint32_t>(x >> 32);
}

}  // namespace verbena::fabric
