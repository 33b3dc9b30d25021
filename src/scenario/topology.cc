// Each shape is one short function that adds its switches and says which are joined. Hosts exist
// from the start, since their numbers come first.
#include "scenario/topology.h"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/nearest.h"

namespace verbena::scenario {
namespace {

struct Builder {
  const Shape& shape;
  Topology topology;

  explicit Builder(const Shape& of) : shape(of) { topology.kind = of.kind; }

  void hosts(uint32_t count) {
    topology.hosts = count;
    topology.nodes.reserve(count);
    for (uint32_t i = 0; i < count; ++i)
      topology.nodes.push_back({fmt::format("h{}", i), false, 0});
  }
  // The number of the first.
  uint32_t switches(std::string_view name, uint32_t count, uint32_t tier) {
    const auto first = static_cast<uint32_t>(topology.nodes.size());
    for (uint32_t i = 0; i < count; ++i)
      topology.nodes.push_back({fmt::format("{}{}", name, i), true, tier});
    return first;
  }
  void host_link(uint32_t host, uint32_t at) { add(shape.host_link, host, at); }
  void fabric_link(uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < shape.parallel; ++i) add(shape.fabric_link, a, b);
  }

 private:
  void add(Link link, uint32_t a, uint32_t b) {
    link.a = a;
    link.b = b;
    topology.links.push_back(std::move(link));
  }
};

void star(Builder& to) {
  to.hosts(to.shape.hosts);
  const uint32_t hub = to.switches("s", 1, 1);
  for (uint32_t h = 0; h < to.shape.hosts; ++h) to.host_link(h, hub);
}

// Switches in a row or a circle, each with its hosts.
void row(Builder& to, uint32_t switches, bool closed) {
  const uint32_t each = to.shape.hosts;
  to.hosts(switches * each);
  const uint32_t first = to.switches("s", switches, 1);
  for (uint32_t h = 0; h < switches * each; ++h) to.host_link(h, first + h / each);
  for (uint32_t s = 0; s + 1 < switches; ++s) to.fabric_link(first + s, first + s + 1);
  if (closed) to.fabric_link(first + switches - 1, first);
}

void dumbbell(Builder& to) {
  row(to, 2, false);
}
void parking_lot(Builder& to) {
  row(to, to.shape.switches, false);
}
void ring(Builder& to) {
  row(to, to.shape.switches, true);
}

void leaf_spine(Builder& to) {
  const Shape& s = to.shape;
  to.hosts(s.leaves * s.hosts);
  const uint32_t leaf = to.switches("leaf", s.leaves, 1);
  const uint32_t spine = to.switches("spine", s.spines, 2);
  for (uint32_t h = 0; h < s.leaves * s.hosts; ++h) to.host_link(h, leaf + h / s.hosts);
  for (uint32_t l = 0; l < s.leaves; ++l)
    for (uint32_t p = 0; p < s.spines; ++p) to.fabric_link(leaf + l, spine + p);
}

// Pods of lower and upper switches, all joined within a pod; the i-th upper switch of every pod
// goes to the i-th share of the cores.
struct Pods {
  uint32_t pods, lower, upper, hosts, cores;  // lower, upper: in a pod; hosts: at a lower switch
};
void pods(Builder& to, const Pods& p, std::string_view lowest) {
  to.hosts(p.pods * p.lower * p.hosts);
  const uint32_t low = to.switches(lowest, p.pods * p.lower, 1);
  const uint32_t up = to.switches("agg", p.pods * p.upper, 2);
  const uint32_t core = to.switches("core", p.cores, 3);
  const uint32_t share = p.cores / p.upper;
  for (uint32_t h = 0; h < p.pods * p.lower * p.hosts; ++h) to.host_link(h, low + h / p.hosts);
  for (uint32_t pod = 0; pod < p.pods; ++pod)
    for (uint32_t u = 0; u < p.upper; ++u) {
      for (uint32_t l = 0; l < p.lower; ++l)
        to.fabric_link(low + pod * p.lower + l, up + pod * p.upper + u);
      for (uint32_t c = 0; c < share; ++c)
        to.fabric_link(up + pod * p.upper + u, core + u * share + c);
    }
}

void fat_tree(Builder& to) {
  const uint32_t k = to.shape.k, half = k / 2;
  pods(to, {k, half, half, to.shape.hosts, half * half}, "edge");
}

void three_tier(Builder& to) {
  const Shape& s = to.shape;
  pods(to, {s.pods, s.tors / s.pods, s.aggregations / s.pods, s.hosts, s.cores}, "tor");
}

void rail(Builder& to) {
  const Shape& s = to.shape;
  to.hosts(s.servers * s.gpus);
  const uint32_t first = to.switches("rail", s.gpus * s.rail_switches, 1);
  const uint32_t spine = to.switches("spine", s.spines, 2);
  const uint32_t each = (s.servers + s.rail_switches - 1) / s.rail_switches;
  for (uint32_t server = 0; server < s.servers; ++server)
    for (uint32_t gpu = 0; gpu < s.gpus; ++gpu)
      to.host_link(server * s.gpus + gpu, first + gpu * s.rail_switches + server / each);
  for (uint32_t r = 0; r < s.gpus * s.rail_switches; ++r)
    for (uint32_t p = 0; p < s.spines; ++p) to.fabric_link(first + r, spine + p);
}

struct Maker {
  std::string_view kind;
  void (*make)(Builder&);
};
constexpr Maker kMakers[] = {
    {"star", star},
    {"dumbbell", dumbbell},
    {"parking-lot", parking_lot},
    {"ring", ring},
    {"leaf-spine", leaf_spine},
    {"fat-tree", fat_tree},
    {"three-tier", three_tier},
    {"rail", rail},
};

Result<void> fit(const Shape& s) {
  if (s.kind == "fat-tree" && s.k % 2 != 0)
    return fail(EINVAL, fmt::format("k is {}; it must be even", s.k));
  if (s.kind == "three-tier") {
    if (s.tors % s.pods != 0 || s.aggregations % s.pods != 0)
      return fail(EINVAL, fmt::format("{} tors and {} aggregations do not divide into {} pods",
                                      s.tors, s.aggregations, s.pods));
    if (s.cores % (s.aggregations / s.pods) != 0)
      return fail(EINVAL, fmt::format("{} cores do not divide among the {} aggregations of a pod",
                                      s.cores, s.aggregations / s.pods));
  }
  if (s.kind == "rail" && s.rail_switches > s.servers)
    return fail(EINVAL, fmt::format("{} rail_switches for {} servers leave some without any",
                                    s.rail_switches, s.servers));
  return {};
}

// Hosts, switches, links: before anything is built.
Result<void> small_enough(const Shape& s) {
  const auto n = [](uint64_t a, uint64_t b) { return a * b; };
  uint64_t hosts = s.hosts, links = 0, switches = 1;
  if (s.kind == "dumbbell") hosts = 2 * hosts;
  if (s.kind == "parking-lot" || s.kind == "ring") {
    switches = links = s.switches;
    hosts = n(s.switches, s.hosts);
  } else if (s.kind == "leaf-spine") {
    hosts = n(s.leaves, s.hosts);
    switches = s.leaves + s.spines;
    links = n(s.leaves, s.spines);
  } else if (s.kind == "fat-tree") {
    hosts = n(n(s.k, s.k / 2), s.hosts);
    switches = n(s.k, s.k) * 5 / 4;
    links = n(n(s.k, s.k), s.k) / 2;
  } else if (s.kind == "three-tier") {
    hosts = n(s.tors, s.hosts);
    switches = s.tors + s.aggregations + s.cores;
    links = n(s.tors, s.aggregations) / s.pods + n(s.pods, s.cores);
  } else if (s.kind == "rail") {
    hosts = n(s.servers, s.gpus);
    switches = n(s.gpus, s.rail_switches) + s.spines;
    links = n(n(s.gpus, s.rail_switches), s.spines);
  }
  if (hosts + switches > kMaxNodes)
    return fail(EINVAL, fmt::format("{} hosts and {} switches; {} nodes are the most", hosts,
                                    switches, kMaxNodes));
  links = links * s.parallel + hosts;
  if (links > kMaxLinks)
    return fail(EINVAL, fmt::format("{} links; {} are the most", links, kMaxLinks));
  return {};
}

Result<void> take_counts(const ShapeKind& kind, Shape& shape) {
  for (const ShapeCount& count : kind.counts) {
    uint32_t& value = shape.*(count.field);
    if (value == 0) value = count.usual;
    if (count.name == "hosts" && kind.name == "fat-tree" && value == 0) value = shape.k / 2;
    if (value < count.least || value > count.most)
      return fail(EINVAL, fmt::format("{} is {}; it may be {} to {}", count.name, value,
                                      count.least, count.most));
  }
  if (shape.parallel == 0) shape.parallel = 1;
  return {};
}

}  // namespace

const std::vector<ShapeKind>& shape_kinds() {
  using S = Shape;
  constexpr uint32_t kMost = 10'000;
  static const ShapeCount kParallel{
      "parallel", &S::parallel, 1, 64, 1, "links between two switches that are joined"};
  static const std::vector<ShapeKind> kKinds = {
      {"star", "all hosts at one switch", {{"hosts", &S::hosts, 1, kMost, 2, "all of them"}}},
      {"dumbbell",
       "two switches with hosts, one link between them",
       {{"hosts", &S::hosts, 1, kMost, 2, "on each side"}, kParallel}},
      {"parking-lot",
       "switches in a row",
       {{"switches", &S::switches, 1, 1000, 3, "in the row"},
        {"hosts", &S::hosts, 1, 1000, 1, "at each switch"},
        kParallel}},
      {"ring",
       "switches in a circle",
       {{"switches", &S::switches, 3, 1000, 5, "in the circle"},
        {"hosts", &S::hosts, 1, 1000, 1, "at each switch"},
        kParallel}},
      {"leaf-spine",
       "every leaf joined to every spine",
       {{"leaves", &S::leaves, 1, 1000, 4, "switches with hosts"},
        {"spines", &S::spines, 1, 1000, 2, "switches above them"},
        {"hosts", &S::hosts, 1, 1000, 4, "at each leaf"},
        kParallel}},
      {"fat-tree",
       "three tiers of k-port switches: k pods, (k/2)^2 cores",
       {{"k", &S::k, 2, 64, 4, "ports of a switch, even"},
        {"hosts", &S::hosts, 1, 1000, 0, "at each edge switch; more than k/2 oversubscribes"},
        kParallel}},
      {"three-tier",
       "three tiers by counts; the usual ones are the 320 hosts of the HPCC paper",
       {{"pods", &S::pods, 1, 1000, 5, "groups of tors and aggregations"},
        {"tors", &S::tors, 1, kMost, 20, "top-of-rack switches in all pods"},
        {"aggregations", &S::aggregations, 1, kMost, 20, "aggregation switches in all pods"},
        {"cores", &S::cores, 1, kMost, 16, "core switches"},
        {"hosts", &S::hosts, 1, 1000, 16, "at each tor"},
        kParallel}},
      {"rail",
       "servers with several GPUs; the adapters of one GPU index share a rail",
       {{"servers", &S::servers, 1, kMost, 4, "with gpus adapters each"},
        {"gpus", &S::gpus, 1, 64, 8, "of a server: as many rails"},
        {"rail_switches", &S::rail_switches, 1, 1000, 1, "of each rail"},
        {"spines", &S::spines, 1, 1000, 2, "that join the rails"},
        kParallel}},
  };
  return kKinds;
}

Result<Topology> build_topology(const Shape& wanted) {
  Shape shape = wanted;
  const auto& kinds = shape_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const ShapeKind& k) { return k.name == shape.kind; });
  if (kind == kinds.end())
    return fail(EINVAL, fmt::format("\"{}\" is no kind of topology", shape.kind));
  if (auto taken = take_counts(*kind, shape); !taken) return tl::unexpected(taken.error());
  if (auto fits = fit(shape); !fits) return tl::unexpected(fits.error());
  if (auto small = small_enough(shape); !small) return tl::unexpected(small.error());
  Builder builder(shape);
  for (const Maker& maker : kMakers)
    if (maker.kind == shape.kind) maker.make(builder);
  return std::move(builder.topology);
}

}  // namespace verbena::scenario
