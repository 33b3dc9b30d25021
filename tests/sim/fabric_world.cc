// Drawing a fabric; see fabric_world.h.
#include "fabric_world.h"

#include <fmt/format.h>

#include "base/prng.h"

namespace verbena::sim::test {

namespace {

template <size_t N>
const char* one_of(Prng& prng, const char* const (&words)[N]) {
  return words[prng.below(N)];
}

// A circle of switches and flows two hops round it: the waits can close.
std::string ring(Prng& trouble, FabricPlan& plan) {
  plan.may_deadlock = true;
  return fmt::format("[topology]\nkind = \"ring\"\nswitches = {}\n\n", trouble.between(5, 7));
}

bool has_many_ways(const std::string& kind) {
  return kind == "leaf-spine" || kind == "fat-tree" || kind == "three-tier";
}

std::string topology(Prng& prng, std::string& name) {
  std::string counts;
  const char* kind = one_of(
      prng, {"star", "dumbbell", "parking-lot", "leaf-spine", "fat-tree", "three-tier", "rail"});
  name = kind;
  if (name == "star") counts = fmt::format("hosts = {}\n", prng.between(2, 12));
  if (name == "dumbbell") counts = fmt::format("hosts = {}\n", prng.between(1, 5));
  if (name == "parking-lot") counts = fmt::format("switches = {}\n", prng.between(2, 5));
  if (name == "leaf-spine")
    counts = fmt::format("leaves = {}\nspines = {}\nhosts = {}\n", prng.between(2, 4),
                         prng.between(1, 3), prng.between(1, 4));
  if (name == "three-tier") counts = "pods = 2\ntors = 4\naggregations = 4\ncores = 4\nhosts = 2\n";
  if (name == "rail") counts = "servers = 3\ngpus = 2\n";
  return fmt::format(
      "[topology]\nkind = \"{}\"\n{}rate = \"{}\"\nfabric_rate = \"{}\"\ndelay ="
      " \"{}ns\"\ngap = {}\n\n",
      kind, counts, one_of(prng, {"10G", "25G", "56G", "100G", "400G"}),
      one_of(prng, {"25G", "40G", "100G", "400G"}), prng.between(50, 5000), prng.below(2) * 20);
}

// A second lossless class beside the usual one: what DSCP 34 has.
std::string second_class(Prng& trouble) {
  std::string text = "[host.pfc]\npriorities = [3, 4]\n\n";
  for (const char* kind : {"incast", "permutation"})
    text +=
        fmt::format("[[workload]]\nkind = \"{}\"\n{}bytes = \"{}B\"\ndscp = 34\npriority = 4\n\n",
                    kind, kind[0] == 'i' ? "to = 0\n" : "", trouble.between(1, 200'000));
  return text;
}

std::string round_the_ring(Prng& trouble) {
  return fmt::format("[[workload]]\nkind = \"shift\"\nstep = 2\nbytes = \"{}MB\"\n\n",
                     trouble.between(1, 20));
}

std::string switches(Prng& prng, bool many_ways, FabricPlan& plan) {
  plan.lossless = prng.below(4) != 0;
  plan.two_classes &= plan.lossless;
  std::string text =
      fmt::format("[switch]\nroce = \"{}\"\nbuffer = \"{}MiB\"\nlatency = \"{}ns\"\n",
                  plan.lossless ? "lossless" : "lossy",
                  prng.between(8, 32) * (plan.two_classes ? 2 : 1) / (plan.may_deadlock ? 4 : 1),
                  prng.below(800));
  if (prng.below(3) == 0) text += fmt::format("headroom_formula = \"sonic\"\n");
  if (plan.two_classes)
    for (const char* map : {"priority_to_queue", "priority_to_group"})
      text += fmt::format("{} = {{ 0-2 = 0, 3 = 3, 4 = 4, 5 = 0, 6 = 6, 7 = 0 }}\n", map);
  text += fmt::format(
      "\n[switch.ecn]\nmin = \"{}KB\"\nmax = \"{}KB\"\nprobability = \"{}%\"\nat ="
      " \"{}\"\n\n",
      prng.between(5, 200), prng.between(200, 2000), prng.between(1, 100),
      one_of(prng, {"dequeue", "enqueue"}));
  if (plan.lossless)
    text += fmt::format("[switch.group]\nalpha = {}\nreserved = \"{}KB\"\n\n",
                        one_of(prng, {"0.0625", "0.125", "0.3", "1"}), prng.below(5));
  std::string pfc;
  if (plan.lossless && prng.below(2) == 0)
    pfc = fmt::format("quanta = {}\nrefresh = \"{}%\"\n", prng.between(2000, 65535),
                      prng.between(10, 60));
  if (plan.two_classes) pfc += "priorities = [3, 4]\n";
  if (!pfc.empty()) text += "[switch.pfc]\n" + pfc + "\n";
  if (many_ways && prng.below(3) == 0) {
    plan.ordered = false;
    text += fmt::format("[switch.routing]\nmode = \"{}\"\nflowlet_gap = \"{}us\"\n\n",
                        one_of(prng, {"adaptive", "flowlet"}), prng.between(1, 60));
  }
  return text;
}

std::string hosts(Prng& prng, Prng& extra, const char* congestion, FabricPlan& plan) {
  std::string text = fmt::format(
      "[host]\npath_mtu = \"{}\"\ncongestion = \"{}\"\nack_every = {}\nwindow = \"{}\"\n"
      "timeout = {}\nretry_count = 7\n",
      one_of(prng, {"256B", "512B", "1KiB", "2KiB", "4KiB"}), congestion, prng.below(20),
      one_of(prng, {"none", "64KiB", "1MiB"}), prng.between(10, 12));
  plan.selective = extra.below(3) == 0;
  if (plan.selective)
    text += fmt::format("selective_repeat = true\nreorder_packets = {}\nreorder_wait = \"{}us\"\n",
                        one_of(extra, {"1", "16", "128", "512", "4096"}), extra.between(5, 300));
  if (extra.below(3) == 0) text += "payload = true\n";
  text += "\n";
  // More than the longest way takes without queues, or Swift slows down until next to nothing
  // moves.
  text += fmt::format("[host.swift]\nbase_target = \"{}us\"\n\n", prng.between(80, 200));
  if (prng.below(4) == 0)
    text += fmt::format("[host.h0.receive]\nrate = \"{}G\"\n\n", prng.between(2, 9));
  return text;
}

// `reads`: whether the congestion control of the hosts can slow READ responses.
std::string traffic(Prng& prng, bool reads) {
  std::string text =
      fmt::format("[[flow]]\nfrom = 0\nto = 1\nbytes = \"{}B\"\n\n", prng.between(1, 999));
  for (uint64_t w = 0, count = prng.between(1, 3); w < count; ++w) {
    const char* kind = one_of(prng, {"incast", "permutation", "shift", "poisson", "ring-allreduce",
                                     "tree-allreduce", "all-to-all", "storage-read"});
    std::string name = kind;
    if (name == "storage-read" && !reads) continue;
    text += fmt::format("[[workload]]\nkind = \"{}\"\n", kind);
    if (name == "poisson")
      text += fmt::format("cdf = \"{}\"\nload = \"{}%\"\nuntil = \"{}us\"\n",
                          one_of(prng, {"WebSearch", "FbHdp", "AliStorage"}), prng.between(5, 60),
                          prng.between(10, 60));
    else
      text += fmt::format("bytes = \"{}B\"\n", prng.between(1, 200'000));
    if (name == "incast") text += "to = 0\n";
    bool verbs = name == "incast" || name == "permutation" || name == "shift" || name == "poisson";
    if (verbs)
      text +=
          fmt::format("verb = \"{}\"\n", one_of(prng, {"write", reads ? "read" : "write", "send"}));
    text += "\n";
  }
  return text;
}

// What goes wrong on purpose, and what watches.
std::string mishaps(Prng& extra, const std::string& kind, FabricPlan& plan) {
  std::string text;
  const char* edge = kind == "leaf-spine" ? "leaf" : kind == "fat-tree" ? "edge" : "tor";
  const char* above = kind == "leaf-spine" ? "spine" : "agg";
  if (extra.below(4) == 0) {
    const char* machine = one_of(extra, {"sonic", "cumulus"});
    plan.watched = true;
    text += fmt::format(
        "[switch.watchdog]\nmachine = \"{}\"\npoll = \"{}us\"\ndetection = \"{}us\"\n"
        "restoration = \"{}us\"\naction = \"{}\"\nrobustness = {}\n\n",
        machine, extra.between(50, 300), extra.between(400, 2000), extra.between(400, 2000),
        one_of(extra, {"drop", "forward", "alert"}), extra.between(1, 4));
  }
  if (extra.below(4) == 0) {
    uint64_t at = extra.below(200);
    plan.storm_host = static_cast<int>(extra.below(2));
    text += fmt::format(
        "[[event]]\nkind = \"storm\"\nhost = {}\nat = \"{}us\"\nuntil = \"{}us\"\n"
        "interval = \"{}us\"\n\n",
        plan.storm_host, at, at + extra.between(10, 3000), extra.between(1, 100));
  }
  if (has_many_ways(kind) && extra.below(4) == 0) {
    plan.links_fail = true;
    for (uint64_t e = 0, count = extra.between(1, 3); e < count; ++e) {
      uint64_t at = extra.below(300);
      text += fmt::format(
          "[[event]]\nkind = \"link-down\"\na = \"{}0\"\nb = \"{}0\"\nat = \"{}us\"\n"
          "until = \"{}us\"\n\n",
          edge, extra.below(3) == 0 ? "h" : above, at, at + extra.between(1, 3000));
    }
  }
  return text;
}

}  // namespace

FabricPlan draw_fabric(uint64_t seed) {
  Prng prng(seed * 0x9e3779b97f4a7c15ull + 77);
  // What was added later has draws of its own: those of a seed stay what they were.
  Prng extra(seed ^ 0x6578747261ull), trouble(seed ^ 0x74726f75626c65ull);
  FabricPlan plan;
  std::string kind;
  plan.text = fmt::format("[scenario]\nseed = {}\n\n", prng.between(1, 1'000'000));
  std::string shape = topology(prng, kind);
  if (trouble.below(12) == 0) {
    kind = "ring";
    shape = ring(trouble, plan);
  }
  plan.text += shape;
  plan.two_classes = trouble.below(4) == 0;
  plan.text += switches(prng, has_many_ways(kind), plan);
  std::string congestion = one_of(prng, {"none", "dcqcn", "dcqcn", "swift", "hpcc"});
  plan.text += hosts(prng, extra, congestion.c_str(), plan);
  plan.text += traffic(prng, congestion != "swift" && congestion != "hpcc");
  if (plan.two_classes) plan.text += second_class(trouble);
  if (kind == "ring") plan.text += round_the_ring(trouble);
  plan.text += mishaps(trouble, kind, plan);
  return plan;
}

}  // namespace verbena::sim::test
