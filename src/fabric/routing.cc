// Breadth-first distances to every host, and the ports that lie on a shortest way.
#include "fabric/routing.h"

#include <algorithm>
#include <map>

namespace verbena::fabric {

namespace {

constexpr uint32_t kFar = UINT32_MAX;

// Links from each node to `host`, through switches only.
std::vector<uint32_t> distances_to(const Graph& graph, uint32_t host) {
  std::vector<uint32_t> distance(graph.edges.size(), kFar);
  std::vector<uint32_t> queue{host};
  distance[host] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    uint32_t node = queue[i];
    if (node < graph.hosts && node != host) continue;
    for (const Edge& edge : graph.edges[node]) {
      if (distance[edge.node] != kFar) continue;
      distance[edge.node] = distance[node] + 1;
      queue.push_back(edge.node);
    }
  }
  return distance;
}

}  // namespace

std::vector<RouteTable> compute_routes(const Graph& graph) {
  const auto switches = static_cast<uint32_t>(graph.edges.size()) - graph.hosts;
  std::vector<RouteTable> tables(switches);
  std::vector<std::map<std::vector<uint16_t>, uint32_t>> known(switches);
  for (RouteTable& table : tables) table.by_host_.assign(graph.hosts, 0);
  for (uint32_t host = 0; host < graph.hosts; ++host) {
    std::vector<uint32_t> distance = distances_to(graph, host);
    for (uint32_t s = 0; s < switches; ++s) {
      uint32_t own = distance[graph.hosts + s];
      if (own == kFar) continue;
      std::vector<uint16_t> ports;
      for (const Edge& edge : graph.edges[graph.hosts + s]) {
        bool forwards = edge.node >= graph.hosts || edge.node == host;
        if (forwards && distance[edge.node] + 1 == own) ports.push_back(edge.port);
      }
      RouteTable& table = tables[s];
      auto [entry, fresh] =
          known[s].try_emplace(ports, static_cast<uint32_t>(table.groups_.size()));
      if (fresh) {
        table.groups_.push_back(
            {static_cast<uint32_t>(table.ports_.size()), static_cast<uint32_t>(ports.size())});
        table.ports_.insert(table.ports_.end(), ports.begin(), ports.end());
      }
      table.by_host_[host] = entry->second;
    }
  }
  return tables;
}

}  // namespace verbena::fabric
