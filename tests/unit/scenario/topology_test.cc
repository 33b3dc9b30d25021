// Shapes have the nodes and links that their definitions say, in the order that names and port
// numbers promise.
#include "scenario/topology.h"

#include <gtest/gtest.h>

#include <map>

namespace verbena::scenario {
namespace {

Topology built(const Shape& shape) {
  auto topology = build_topology(shape);
  EXPECT_TRUE(topology) << topology.error().message;
  if (!topology) return {};
  auto good = check_topology(*topology);
  EXPECT_TRUE(good) << good.error().message;
  return *topology;
}

std::string refused(const Shape& shape) {
  auto topology = build_topology(shape);
  return topology ? "no error" : topology.error().message;
}

// Names of the nodes behind a node's ports, in order.
std::vector<std::string> neighbours(const Topology& topology, const std::string& name) {
  std::vector<std::string> names;
  const auto ports = ports_of(topology);
  for (size_t n = 0; n < topology.nodes.size(); ++n)
    if (topology.nodes[n].name == name)
      for (const PortEnd& end : ports[n]) names.push_back(topology.nodes[end.peer].name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Topology, Star) {
  const Topology t = built({.kind = "star", .hosts = 3});
  EXPECT_EQ(t.hosts, 3u);
  EXPECT_EQ(t.nodes.size(), 4u);
  EXPECT_EQ(neighbours(t, "s0"), (Names{"h0", "h1", "h2"}));
  EXPECT_FALSE(t.nodes[0].is_switch);
  EXPECT_TRUE(t.nodes[3].is_switch);
  EXPECT_EQ(t.nodes[3].tier, 1u);
}

TEST(Topology, RowsAndRings) {
  EXPECT_EQ(neighbours(built({.kind = "dumbbell", .hosts = 2}), "s1"), (Names{"h2", "h3", "s0"}));
  const Topology lot = built({.kind = "parking-lot", .hosts = 1, .switches = 3});
  EXPECT_EQ(neighbours(lot, "s1"), (Names{"h1", "s0", "s2"}));
  const Topology ring = built({.kind = "ring"});
  EXPECT_EQ(ring.hosts, 5u);
  EXPECT_EQ(neighbours(ring, "s0"), (Names{"h0", "s1", "s4"}));
  EXPECT_EQ(neighbours(ring, "s4"), (Names{"h4", "s3", "s0"}));
}

TEST(Topology, LeafSpine) {
  const Topology t = built({.kind = "leaf-spine", .hosts = 2, .leaves = 3, .spines = 2});
  EXPECT_EQ(t.hosts, 6u);
  EXPECT_EQ(t.links.size(), 6u + 3 * 2);
  EXPECT_EQ(neighbours(t, "leaf1"), (Names{"h2", "h3", "spine0", "spine1"}));
  EXPECT_EQ(neighbours(t, "spine1"), (Names{"leaf0", "leaf1", "leaf2"}));
}

// The reference's k = 4 fat tree has the same hosts at the same edges, and the same pods.
TEST(Topology, FatTree) {
  const Topology t = built({.kind = "fat-tree", .k = 4});
  EXPECT_EQ(t.hosts, 16u);
  EXPECT_EQ(t.nodes.size(), 16u + 8 + 8 + 4);
  EXPECT_EQ(t.links.size(), 48u);
  EXPECT_EQ(neighbours(t, "edge0"), (Names{"h0", "h1", "agg0", "agg1"}));
  EXPECT_EQ(neighbours(t, "agg0"), (Names{"edge0", "edge1", "core0", "core1"}));
  EXPECT_EQ(neighbours(t, "agg1"), (Names{"edge0", "edge1", "core2", "core3"}));
  EXPECT_EQ(neighbours(t, "core0"), (Names{"agg0", "agg2", "agg4", "agg6"}));
  EXPECT_EQ(t.nodes.back().tier, 3u);
  const Topology crowded = built({.kind = "fat-tree", .hosts = 8, .k = 4});
  EXPECT_EQ(crowded.hosts, 64u);
  EXPECT_EQ(neighbours(crowded, "edge1").size(), 10u);
}

TEST(Topology, ThreeTierIsThe320Hosts) {
  Shape shape{.kind = "three-tier"};
  shape.fabric_link.settings.bits_per_second = 400'000'000'000;
  const Topology t = built(shape);
  EXPECT_EQ(t.hosts, 320u);
  EXPECT_EQ(t.nodes.size(), 320u + 16 + 20 + 20);
  EXPECT_EQ(neighbours(t, "tor19").size(), 20u);
  EXPECT_EQ(neighbours(t, "agg5"),
            (Names{"tor4", "tor5", "tor6", "tor7", "core4", "core5", "core6", "core7"}));
  EXPECT_EQ(neighbours(t, "core0").size(), 5u);
  std::map<uint64_t, int> rates;
  for (const Link& link : t.links) ++rates[link.settings.bits_per_second];
  EXPECT_EQ(rates[100'000'000'000], 320);
  EXPECT_EQ(rates[400'000'000'000], 20 * 4 + 20 * 4);
}

TEST(Topology, Rail) {
  const Topology t =
      built({.kind = "rail", .spines = 2, .servers = 4, .gpus = 3, .rail_switches = 2});
  EXPECT_EQ(t.hosts, 12u);
  // GPU 1 of servers 0 and 1, then the spines.
  EXPECT_EQ(neighbours(t, "rail2"), (Names{"h1", "h4", "spine0", "spine1"}));
  EXPECT_EQ(neighbours(t, "rail3"), (Names{"h7", "h10", "spine0", "spine1"}));
}

TEST(Topology, ParallelLinks) {
  const Topology t = built({.kind = "dumbbell", .hosts = 1, .parallel = 3});
  EXPECT_EQ(neighbours(t, "s0"), (Names{"h0", "s1", "s1", "s1"}));
}

TEST(Topology, Refused) {
  EXPECT_EQ(refused({.kind = "torus"}), "\"torus\" is no kind of topology");
  EXPECT_EQ(refused({.kind = "fat-tree", .k = 5}), "k is 5; it must be even");
  EXPECT_EQ(refused({.kind = "fat-tree", .k = 100}), "k is 100; it may be 2 to 64");
  EXPECT_EQ(refused({.kind = "ring", .switches = 2}), "switches is 2; it may be 3 to 1000");
  EXPECT_EQ(refused({.kind = "three-tier", .tors = 21}),
            "21 tors and 20 aggregations do not divide into 5 pods");
  EXPECT_EQ(refused({.kind = "three-tier", .cores = 3}),
            "3 cores do not divide among the 4 aggregations of a pod");
  EXPECT_EQ(refused({.kind = "leaf-spine", .hosts = 1000, .leaves = 1000}),
            "1000000 hosts and 1002 switches; 20000 nodes are the most");
  EXPECT_EQ(refused({.kind = "leaf-spine", .hosts = 1, .leaves = 1000, .spines = 1000}),
            "1001000 links; 200000 are the most");
  EXPECT_EQ(refused({.kind = "rail", .servers = 2, .rail_switches = 3}),
            "3 rail_switches for 2 servers leave some without any");
}

std::string links_refused(const std::vector<NamedLink>& links, const std::vector<std::string>& sw) {
  auto topology = topology_of_links(links, sw);
  return topology ? "no error" : topology.error().message;
}

// Hosts get numbers in the order in which links name them, whatever they are called.
TEST(Topology, ListOfLinks) {
  const std::vector<NamedLink> victim = {
      {"0", "1", {}}, {"0", "2", {}}, {"0", "3", {}}, {"1", "5", {}}, {"1", "6", {}}};
  const std::vector<std::string> switches = {"0", "1"};
  auto t = topology_of_links(victim, switches);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->hosts, 4u);
  Names names;
  for (const Node& node : t->nodes) names.push_back(node.name);
  EXPECT_EQ(names, (Names{"2", "3", "5", "6", "0", "1"}));
  EXPECT_EQ(neighbours(*t, "0"), (Names{"1", "2", "3"}));
  EXPECT_EQ(t->nodes[4].tier, 1u);
}

TEST(Topology, ListOfLinksRefused) {
  EXPECT_EQ(links_refused({{"a", "s", {}}, {"a", "t", {}}}, {"s", "t"}),
            "host a has 2 links; a host has one");
  EXPECT_EQ(links_refused({{"a", "s", {}}, {"b", "t", {}}}, {"s", "t"}),
            "b cannot be reached from a");
  EXPECT_EQ(links_refused({{"a", "s", {}}, {"s", "s", {}}}, {"s"}), "a link joins s to itself");
  EXPECT_EQ(links_refused({{"a", "s", {}}}, {"s", "s"}), "switch s is named twice");
  EXPECT_EQ(links_refused({{"s", "t", {}}}, {"s", "t"}), "there is no host");
  EXPECT_EQ(links_refused({{"a", "s", {}}}, {"s", "t"}), "t cannot be reached from a");
}

}  // namespace
}  // namespace verbena::scenario
