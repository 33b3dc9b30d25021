// Cascades and sentences; see findings.h.
#include "sim/findings.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace verbena::sim {

using fabric::PortId;

namespace {

constexpr size_t kMostTrees = 16;

// For every port that was stopped: the port whose being full (or stopped) made it so. An egress
// port of a switch that stopped a sender is the cause of the sender's egress port being stopped.
struct Causes {
  std::map<PortId, std::map<PortId, uint64_t>> by_stopped;  // stopped -> cause -> times
  std::map<PortId, uint64_t> by_host;                       // stopped by a host -> frames
};

Causes collect(const Experiment& experiment) {
  Causes out;
  const fabric::Network& network = experiment.network();
  for (uint32_t s = 0; s < network.switches(); ++s) {
    const fabric::Switch& at = network.switch_at(s);
    for (const fabric::Switch::PauseCause& cause : at.pause_causes()) {
      PortId stopped = network.port(at.ports()[cause.ingress]).peer;
      ++out.by_stopped[stopped][at.ports()[cause.egress]];
    }
  }
  for (uint32_t h = 0; h < network.hosts(); ++h) {
    const fabric::Port& port = network.port(network.host_port(h));
    uint64_t frames = 0;
    for (const auto& priority : port.counters.priority) frames += priority.tx_pause;
    if (frames > 0) out.by_host[port.peer] = frames;
  }
  return out;
}

// The cause that stopped it most often.
PortId main_cause(const std::map<PortId, uint64_t>& causes) {
  PortId best = causes.begin()->first;
  for (const auto& [port, times] : causes)
    if (times > causes.at(best)) best = port;
  return best;
}

}  // namespace

std::vector<PauseTree> pause_trees(const Experiment& experiment) {
  Causes causes = collect(experiment);
  std::map<PortId, PauseTree> trees;
  for (const auto& [stopped, by] : causes.by_stopped) {
    std::vector<PortId> path{stopped};
    std::set<PortId> seen{stopped};
    PortId at = main_cause(by);
    while (seen.insert(at).second) {
      path.push_back(at);
      auto next = causes.by_stopped.find(at);
      if (next == causes.by_stopped.end()) break;
      at = main_cause(next->second);
    }
    PauseTree& tree = trees[path.back()];
    ++tree.stopped;
    if (path.size() <= tree.path.size()) continue;
    tree.path.clear();
    for (auto p = path.rbegin(); p != path.rend(); ++p)
      tree.path.push_back(experiment.port_name(*p));
  }
  std::vector<PauseTree> out;
  for (auto& [root, tree] : trees) {
    tree.host = causes.by_host.count(root) != 0;
    const auto& network = experiment.network();
    tree.root =
        tree.host
            ? experiment.scenario().topology.nodes[network.port(network.port(root).peer).node].name
            : experiment.port_name(root);
    out.push_back(std::move(tree));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const PauseTree& a, const PauseTree& b) { return a.stopped > b.stopped; });
  if (out.size() > kMostTrees) out.resize(kMostTrees);
  return out;
}

std::vector<std::string> findings(const Experiment& experiment, const Summary& summary) {
  std::vector<std::string> out;
  for (const fabric::Deadlock& deadlock : experiment.deadlocks()) {
    std::string text;
    for (PortId port : deadlock.cycle)
      text += (text.empty() ? "" : ", ") + experiment.port_name(port);
    out.push_back(
        fmt::format("deadlock at {} us: {} wait for each other; break the cycle of"
                    " routes, or let a watchdog drop",
                    deadlock.seen / fabric::kMicrosecond, text));
  }
  if (experiment.refused() > 0)
    out.push_back(fmt::format(
        "{} flows failed at once: an adapter at one of their ends had no queue pair free",
        experiment.refused()));
  auto value = [&](const char* name) {
    const Value* found = summary.find(name);
    return found ? found->value : 0;
  };
  for (const std::string& complaint : experiment.payload().complaints)
    out.push_back("payload: " + complaint);
  uint64_t by_watchdog = 0;
  for (PortId id = 0; id < experiment.network().ports(); ++id)
    by_watchdog += experiment.network()
                       .port(id)
                       .counters.drops[static_cast<size_t>(fabric::DropCause::kWatchdog)];
  if (by_watchdog > 0)
    out.push_back(fmt::format("{} frames were dropped by watchdogs", by_watchdog));
  if (const double lost = value("lossless_drops") - static_cast<double>(by_watchdog); lost > 0)
    out.push_back(
        fmt::format("{:.0f} frames of lossless classes were dropped: the headroom is too small for "
                    "what is under way when a pause is sent, or a sender does not obey it",
                    lost));
  for (const PauseTree& tree : summary.pause_trees) {
    if (tree.stopped == 0) continue;
    out.push_back(
        fmt::format("{} {} stopped {} port{}{}", tree.host ? "host" : "port", tree.root,
                    tree.stopped, tree.stopped == 1 ? "" : "s",
                    tree.path.size() > 2 ? fmt::format(", as far as {}", tree.path.back()) : ""));
  }
  for (uint32_t s = 0; s < experiment.network().switches(); ++s)
    for (const auto& event : experiment.network().switch_at(s).watchdog_events())
      out.push_back(fmt::format(
          "watchdog of {} queue {}: {} at {} us",
          experiment.port_name(experiment.network().switch_at(s).ports()[event.port]), event.queue,
          event.storm ? "storm" : "restored", event.at / fabric::kMicrosecond));
  if (value("flows_failed") > 0)
    out.push_back(
        fmt::format("{:g} flows ended in error (retries used up)", value("flows_failed")));
  return out;
}

}  // namespace verbena::sim
