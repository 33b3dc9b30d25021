// Drawing a fabric and checking what came out of it; see fabric_world.h.
#include "fabric_world.h"

#include <fmt/format.h>

#include "base/prng.h"
#include "sim/experiment.h"

namespace verbena::sim::test {

namespace {

using fabric::Time;

template <size_t N>
const char* one_of(Prng& prng, const char* const (&words)[N]) {
  return words[prng.below(N)];
}

std::string topology(Prng& prng, bool& many_ways) {
  std::string counts;
  const char* kind = one_of(
      prng, {"star", "dumbbell", "parking-lot", "leaf-spine", "fat-tree", "three-tier", "rail"});
  std::string name = kind;
  many_ways = name == "leaf-spine" || name == "fat-tree" || name == "three-tier";
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

std::string switches(Prng& prng, bool many_ways, FabricPlan& plan) {
  plan.lossless = prng.below(4) != 0;
  std::string text =
      fmt::format("[switch]\nroce = \"{}\"\nbuffer = \"{}MiB\"\nlatency = \"{}ns\"\n",
                  plan.lossless ? "lossless" : "lossy", prng.between(8, 32), prng.below(800));
  if (prng.below(3) == 0) text += fmt::format("headroom_formula = \"sonic\"\n");
  text += fmt::format(
      "\n[switch.ecn]\nmin = \"{}KB\"\nmax = \"{}KB\"\nprobability = \"{}%\"\nat ="
      " \"{}\"\n\n",
      prng.between(5, 200), prng.between(200, 2000), prng.between(1, 100),
      one_of(prng, {"dequeue", "enqueue"}));
  if (plan.lossless)
    text += fmt::format("[switch.group]\nalpha = {}\nreserved = \"{}KB\"\n\n",
                        one_of(prng, {"0.0625", "0.125", "0.3", "1"}), prng.below(5));
  if (plan.lossless && prng.below(2) == 0)
    text += fmt::format("[switch.pfc]\nquanta = {}\nrefresh = \"{}%\"\n\n",
                        prng.between(2000, 65535), prng.between(10, 60));
  if (many_ways && prng.below(3) == 0) {
    plan.ordered = false;
    text += fmt::format("[switch.routing]\nmode = \"{}\"\nflowlet_gap = \"{}us\"\n\n",
                        one_of(prng, {"adaptive", "flowlet"}), prng.between(1, 60));
  }
  return text;
}

// `extra` has what was added later: what other draws make of a seed stays what it was.
std::string hosts(Prng& prng, Prng& extra, const char* congestion) {
  std::string text = fmt::format(
      "[host]\npath_mtu = \"{}\"\ncongestion = \"{}\"\nack_every = {}\nwindow = \"{}\"\n"
      "timeout = {}\nretry_count = 7\n",
      one_of(prng, {"256B", "512B", "1KiB", "2KiB", "4KiB"}), congestion, prng.below(20),
      one_of(prng, {"none", "64KiB", "1MiB"}), prng.between(10, 12));
  if (extra.below(3) == 0)
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

using Complain = std::function<void(std::string)>;

void check_flows(const Experiment& experiment, const Complain& complain) {
  for (size_t i = 0; i < experiment.flows().size(); ++i) {
    const FlowResult& result = experiment.flows()[i];
    const scenario::Flow& flow = experiment.scenario().flows[i];
    if (result.end < 0)
      complain(fmt::format("flow {} (h{} to h{}, {} bytes) did not end: {}", i, flow.source,
                           flow.destination, flow.bytes, engine::name(result.status)));
    else if (result.received < flow.bytes)
      complain(fmt::format("flow {} ended with {} of {} bytes", i, result.received, flow.bytes));
    else if (result.completions != result.posted)
      complain(fmt::format("flow {}: {} work requests, {} completions", i, result.posted,
                           result.completions));
    if (result.end >= 0 && result.alone > 0 && result.slowdown() < 0.97)
      complain(fmt::format("flow {} was faster than alone: {}", i, result.slowdown()));
  }
  for (const std::string& text : experiment.payload().complaints) complain(text);
  uint64_t checked = 0;
  for (const scenario::Flow& flow : experiment.scenario().flows) checked += flow.bytes;
  if (experiment.scenario().hosts[0].adapter.payload &&
      experiment.payload().checked_bytes != checked)
    complain(
        fmt::format("{} of {} bytes were compared", experiment.payload().checked_bytes, checked));
}

void check_ports(const Experiment& experiment, bool lossless, const Complain& complain) {
  const fabric::Network& network = experiment.network();
  if (network.packets_inside() != 0)
    complain(fmt::format("{} frames are still inside", network.packets_inside()));
  for (fabric::PortId id = 0; id < network.ports(); ++id) {
    const fabric::Port& port = network.port(id);
    const fabric::Port& peer = network.port(port.peer);
    std::string name = experiment.port_name(id);
    if (port.queued_bytes() != 0) complain(fmt::format("{} holds bytes", name));
    if (port.paused != 0 || port.pausing != 0) complain(fmt::format("{} is paused", name));
    for (uint32_t p = 0; p < fabric::kPriorities; ++p) {
      const auto& sent = port.counters.priority[p];
      const auto& got = peer.counters.priority[p];
      if (sent.tx_pause != got.rx_pause || sent.tx_resume != got.rx_resume)
        complain(fmt::format("{} priority {}: pauses sent and received differ", name, p));
      if (sent.tx_pause > 0 && sent.tx_resume == 0)
        complain(fmt::format("{} priority {}: stopped and never let go", name, p));
      if (sent.expired > 0) complain(fmt::format("{}: a pause expired", name));
    }
    uint64_t drops = 0;
    for (uint64_t d : port.counters.drops) drops += d;
    if (lossless && drops > 0) complain(fmt::format("{} dropped {} frames", name, drops));
  }
  for (uint32_t s = 0; s < network.switches(); ++s) {
    const fabric::SharedBuffer& buffer = network.switch_at(s).buffer();
    if (buffer.used() != 0 || buffer.shared_used() != 0)
      complain(fmt::format("switch {} counts {} bytes", s, buffer.used()));
    if (buffer.most_used() > experiment.scenario().switches[s].buffer_bytes)
      complain(fmt::format("switch {} held more than its buffer", s));
  }
}

}  // namespace

FabricPlan draw_fabric(uint64_t seed) {
  Prng prng(seed * 0x9e3779b97f4a7c15ull + 77);
  FabricPlan plan;
  bool many_ways = false;
  plan.text = fmt::format("[scenario]\nseed = {}\n\n", prng.between(1, 1'000'000));
  plan.text += topology(prng, many_ways);
  plan.text += switches(prng, many_ways, plan);
  std::string congestion = one_of(prng, {"none", "dcqcn", "dcqcn", "swift", "hpcc"});
  Prng extra(seed ^ 0x6578747261ull);
  plan.text += hosts(prng, extra, congestion.c_str());
  plan.text += traffic(prng, congestion != "swift" && congestion != "hpcc");
  return plan;
}

std::vector<std::string> run_fabric(const FabricPlan& plan, uint64_t& hash) {
  constexpr Time kLongest = 4 * fabric::kSecond, kDrain = 20 * fabric::kMillisecond;
  std::vector<std::string> wrong;
  Complain complain = [&](std::string text) {
    if (wrong.size() < 10) wrong.push_back(std::move(text));
  };
  auto scenario = scenario::parse_scenario("world", plan.text, {});
  if (!scenario) {
    complain(scenario.error().message);
    return wrong;
  }
  Experiment experiment(*scenario);
  if (!experiment.run(kLongest)) complain("it did not end in 4 s of its time");
  check_flows(experiment, complain);
  experiment.network().run(experiment.network().now() + kDrain);
  check_ports(experiment, plan.lossless, complain);
  for (uint32_t h = 0; h < experiment.network().hosts(); ++h)
    if (experiment.adapter(h).device().next_deadline() != kNever)
      complain(fmt::format("host {} still has a timer", h));
  if (!experiment.deadlocks().empty()) complain("a deadlock without a cycle of routes");
  hash = experiment.network().trace_hash();
  return wrong;
}

}  // namespace verbena::sim::test
