// Tables from graphs, and the spread of choices.
#include "fabric/routing.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbena::fabric {
namespace {

// Two leaves (nodes 4, 5), two spines (6, 7); hosts 0, 1 on leaf 4 and 2, 3 on leaf 5.
Graph leaf_spine() {
  Graph graph;
  graph.hosts = 4;
  graph.edges.resize(8);
  auto join = [&](uint32_t a, uint32_t b) {
    graph.edges[a].push_back({b, static_cast<uint16_t>(graph.edges[a].size())});
    graph.edges[b].push_back({a, static_cast<uint16_t>(graph.edges[b].size())});
  };
  join(0, 4), join(1, 4), join(2, 5), join(3, 5);
  for (uint32_t leaf : {4u, 5u})
    for (uint32_t spine : {6u, 7u}) join(leaf, spine);
  return graph;
}

std::vector<uint16_t> ways(const std::vector<RouteTable>& tables, uint32_t s, uint32_t host) {
  auto span = tables[s].toward(host);
  return {span.begin(), span.end()};
}

TEST(Routing, AllShortestWaysAndNoOther) {
  std::vector<RouteTable> tables = compute_routes(leaf_spine());
  using Ways = std::vector<uint16_t>;
  EXPECT_EQ(ways(tables, 0, 0), (Ways{0}));
  EXPECT_EQ(ways(tables, 0, 1), (Ways{1}));
  EXPECT_EQ(ways(tables, 0, 2), (Ways{2, 3}));
  EXPECT_EQ(ways(tables, 0, 3), (Ways{2, 3}));
  EXPECT_EQ(ways(tables, 2, 3), (Ways{1}));
  EXPECT_EQ(ways(tables, 3, 0), (Ways{0}));
}

TEST(Routing, WithoutALinkTheOtherWayRemains) {
  Graph graph = leaf_spine();
  auto gone = [&](uint32_t a, uint32_t b) {
    std::erase_if(graph.edges[a], [b](const Edge& e) { return e.node == b; });
    std::erase_if(graph.edges[b], [a](const Edge& e) { return e.node == a; });
  };
  gone(4, 6);
  std::vector<RouteTable> tables = compute_routes(graph);
  EXPECT_EQ(ways(tables, 0, 2), (std::vector<uint16_t>{3}));
  gone(4, 7);
  tables = compute_routes(graph);
  EXPECT_TRUE(ways(tables, 0, 2).empty());
  EXPECT_EQ(ways(tables, 0, 1), (std::vector<uint16_t>{1}));
}

TEST(Ecmp, SpreadsEvenlyAndDifferentlyAtEverySwitch) {
  constexpr uint32_t kFlows = 40'000, kWays = 4;
  uint32_t first[kWays] = {}, second[kWays] = {}, both = 0;
  for (uint32_t i = 0; i < kFlows; ++i) {
    uint32_t hash = flow_hash(i % 200, 500 + i % 13, static_cast<uint16_t>(0xc000 + i / 200));
    uint32_t a = ecmp_choice(hash, 1, kWays), b = ecmp_choice(hash, 2, kWays);
    ++first[a];
    ++second[b];
    both += a == b;
  }
  for (uint32_t w = 0; w < kWays; ++w) {
    EXPECT_NEAR(first[w], kFlows / kWays, 500);
    EXPECT_NEAR(second[w], kFlows / kWays, 500);
  }
  EXPECT_NEAR(both, kFlows / kWays, 500);
}

}  // namespace
}  // namespace verbena::fabric
