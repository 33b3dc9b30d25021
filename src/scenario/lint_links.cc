// Rules about the two ends of a link and about paths: watchdogs, asymmetric PFC, MTU, rings.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fabric/dependency.h"
#include "fabric/routing.h"
#include "scenario/lint_view.h"

namespace verbena::scenario {

using fabric::PortSettings;
using fabric::WatchdogSettings;

namespace {

// Of an IP packet around its payload: IPv4, UDP, BTH, the longest extension (atomics), ICRC.
constexpr uint32_t kHeaders = 20 + 8 + 12 + 28 + 4;

double ms(fabric::Time time) {
  return static_cast<double>(time) / static_cast<double>(fabric::kMillisecond);
}

}  // namespace

void lint_watchdog(const LintView& view, Findings& findings) {
  const auto add = [&](const PortView& port, std::string what, std::string then, std::string fix) {
    findings.add(Severity::kWarning,
                 view.line(port, {"watchdog.detection", "watchdog.poll", "watchdog.restoration",
                                  "watchdog.robustness", "watchdog"}),
                 view.name(port.node), std::move(what), std::move(then), std::move(fix));
  };
  for (const PortView& port : view.ports()) {
    const WatchdogSettings& dog = port.settings->watchdog;
    if (dog.machine == WatchdogSettings::kSonic && dog.detection < 2 * dog.poll)
      add(port,
          fmt::format("detection takes {:g} ms, but the watchdog looks only each {:g} ms",
                      ms(dog.detection), ms(dog.poll)),
          "one look decides: an ordinary long pause is taken for a storm, and lossless packets are "
          "dropped",
          fmt::format("detection = \"{:g}ms\" or more, or a shorter poll", ms(2 * dog.poll)));
    if (dog.machine == WatchdogSettings::kSonic && dog.restoration < dog.detection)
      add(port,
          fmt::format("restoration takes {:g} ms, less than detection ({:g} ms)",
                      ms(dog.restoration), ms(dog.detection)),
          "a storm with gaps is restored and found again without end; in between, its pauses "
          "spread",
          fmt::format("restoration = \"{:g}ms\", twice the detection", ms(2 * dog.detection)));
    if (dog.machine == WatchdogSettings::kCumulus && dog.robustness < 2)
      add(port, "robustness is 1: one look decides",
          "an ordinary long pause is taken for a storm, and its queue is dropped",
          "robustness = 3");
  }
  // A port that will be stormed at, and nobody who watches it.
  for (const PortView& port : view.ports()) {
    if (!view.is_host(port.peer)) continue;
    const fabric::HostSettings& host = view.scenario().hosts[port.peer].port;
    if (host.storm_mask == 0 || port.settings->watchdog.machine != WatchdogSettings::kOff) continue;
    findings.add(Severity::kError, view.host_line(port.peer, {"storm.priorities", "storm.from"}),
                 view.name(port.node),
                 fmt::format("{} sends pauses without end, and no watchdog looks at its port",
                             view.name(port.peer)),
                 "the whole fabric behind it stops, port by port",
                 "[switch.watchdog] machine = \"sonic\" or \"cumulus\"");
  }
}

void lint_asymmetric(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports()) {
    const fabric::PfcSettings& pfc = port.settings->pfc;
    if (pfc.rx_mask == pfc.tx_mask || pfc.tx_mask == 0 ||
        port.settings->watchdog.machine == WatchdogSettings::kOff)
      continue;
    findings.add(
        Severity::kWarning, view.line(port, {"pfc.rx", "pfc.tx", "pfc"}), view.name(port.node),
        "PFC is asymmetric (rx and tx differ), and a watchdog is on",
        "it watches queues by one mask while pauses stop those of the other: storms on the "
        "rest are missed, and what it restores is not what was set",
        "the same priorities in rx and tx, or no watchdog on this port");
  }
}

void lint_unheard_pauses(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports()) {
    uint8_t heard = 0;
    if (view.is_host(port.peer)) {
      heard = view.scenario().hosts[port.peer].port.pfc.rx_mask;
    } else {
      const auto& there = view.ports_of(port.peer);
      if (port.peer_number < there.size()) heard = there[port.peer_number].settings->pfc.rx_mask;
    }
    const auto deaf = static_cast<uint8_t>(port.settings->pfc.tx_mask & ~heard);
    if (deaf == 0) continue;
    std::vector<uint32_t> priorities;
    for (uint32_t p = 0; p < fabric::kPriorities; ++p)
      if (has(deaf, p)) priorities.push_back(p);
    int line = view.is_host(port.peer)
                   ? view.host_line(port.peer, {"pfc.rx", "pfc.priorities", "pfc"})
                   : 0;
    if (line == 0) line = view.line(port, {"pfc.tx", "pfc.priorities", "pfc"});
    findings.add(
        Severity::kError, line, view.name(port.peer),
        fmt::format("it does not obey pauses of priority {}, which {} sends",
                    fmt::join(priorities, ", "),
                    view.is_host(port.peer) ? "its switch" : "its neighbour"),
        "the sender goes on, headroom fills up, and lossless packets are dropped",
        fmt::format("pfc.priorities = [{}] at both ends of the link", fmt::join(priorities, ", ")));
  }
}

void lint_mtu(const LintView& view, Findings& findings) {
  const Scenario& scenario = view.scenario();
  uint32_t longest = 0;
  for (const Stream& stream : view.streams())
    longest = std::max(longest, scenario.hosts[stream.from].adapter.path_mtu);
  if (longest > 0)
    for (const PortView& port : view.ports())
      if (port.settings->mtu < longest + kHeaders)
        findings.add(Severity::kError, view.line(port, {"mtu"}), view.name(port.node),
                     fmt::format("its MTU is {}, but packets of {} bytes of payload are {} bytes "
                                 "with their headers",
                                 port.settings->mtu, longest, longest + kHeaders),
                     "every full packet is dropped, so short messages pass and long ones never end",
                     fmt::format("mtu = \"{}B\" or more; 9216 is usual", longest + kHeaders));
  for (const Flow& flow : scenario.flows) {
    const uint32_t from = scenario.hosts[flow.source].adapter.path_mtu;
    const uint32_t to = scenario.hosts[flow.destination].adapter.path_mtu;
    if (from == to) continue;
    const uint32_t odd = from < to ? flow.source : flow.destination;
    findings.add(
        Severity::kError, view.host_line(odd, {"path_mtu"}), view.name(odd),
        fmt::format("its path MTU is {}, its peers have {}", std::min(from, to),
                    std::max(from, to)),
        "a queue pair has one path MTU: the longer packets are refused as invalid requests",
        "one path_mtu on all hosts");
  }
}

namespace {

// Channels are ports of switches, numbered through; paths are those that routes allow, for flows
// that are lossless where they enter.
struct Channels {
  explicit Channels(const LintView& view) : first(view.scenario().topology.nodes.size() + 1) {
    for (uint32_t node = 0; node + 1 < first.size(); ++node)
      first[node + 1] = first[node] + static_cast<uint32_t>(view.ports_of(node).size());
  }
  uint32_t of(uint32_t node, uint32_t number) const { return first[node] + number; }
  std::vector<uint32_t> first;
};

fabric::Graph graph_of(const LintView& view) {
  const Topology& topology = view.scenario().topology;
  fabric::Graph graph;
  graph.hosts = topology.hosts;
  graph.edges.resize(topology.nodes.size());
  for (const Link& link : topology.links) {
    const auto a = static_cast<uint16_t>(graph.edges[link.a].size());
    const auto b = static_cast<uint16_t>(graph.edges[link.b].size());
    graph.edges[link.a].push_back({link.b, a});
    graph.edges[link.b].push_back({link.a, b});
  }
  return graph;
}

// Every hop that a packet may take from the switch `begin` on toward `host`.
void add_paths(const LintView& view, const std::vector<fabric::RouteTable>& routes,
               const Channels& channels, uint32_t begin, uint32_t host,
               fabric::DependencyGraph& waits) {
  const uint32_t hosts = view.scenario().topology.hosts;
  std::set<uint32_t> seen = {begin};
  std::vector<uint32_t> queue = {begin};
  while (!queue.empty()) {
    const uint32_t node = queue.back();
    queue.pop_back();
    for (uint16_t out : routes[node - hosts].toward(host)) {
      const uint32_t next = view.ports_of(node)[out].peer;
      if (view.is_host(next)) continue;
      for (uint16_t further : routes[next - hosts].toward(host)) {
        const uint32_t pair[] = {channels.of(node, out), channels.of(next, further)};
        waits.add(pair);
      }
      if (seen.insert(next).second) queue.push_back(next);
    }
  }
}

std::string ring_text(const LintView& view, const Channels& channels,
                      const std::vector<uint32_t>& ring) {
  std::vector<std::string> names;
  for (uint32_t channel : ring) {
    const auto node = static_cast<uint32_t>(
        std::upper_bound(channels.first.begin(), channels.first.end(), channel) -
        channels.first.begin() - 1);
    names.push_back(view.port_name(view.ports_of(node)[channel - channels.first[node]]));
  }
  names.push_back(names.front());
  return fmt::format("{}", fmt::join(names, " -> "));
}

}  // namespace

void lint_cycle(const LintView& view, Findings& findings) {
  if (view.ports().empty()) return;
  const Channels channels(view);
  const std::vector<fabric::RouteTable> routes = fabric::compute_routes(graph_of(view));
  fabric::DependencyGraph waits;
  std::vector<const PortView*> entry(view.scenario().topology.hosts);
  for (const PortView& port : view.ports())
    if (view.is_host(port.peer)) entry[port.peer] = &port;
  std::set<std::pair<uint32_t, uint32_t>> done;
  for (const Flow& flow : view.scenario().flows) {
    const bool read = flow.verb == Verb::kRead;
    const uint32_t from = read ? flow.destination : flow.source;
    const uint32_t to = read ? flow.source : flow.destination;
    const PortView* port = entry[from];
    if (port == nullptr) continue;
    const Adapter& adapter = view.scenario().hosts[from].adapter;
    const uint8_t priority =
        priority_at(*port->settings, flow.dscp == 0xff ? adapter.dscp : flow.dscp,
                    flow.priority == 0xff ? adapter.priority : flow.priority);
    const bool held = port->settings->link_pause || has(port->settings->pfc.tx_mask, priority);
    if (held && done.emplace(port->node, to).second)
      add_paths(view, routes, channels, port->node, to, waits);
  }
  const std::vector<uint32_t> ring = waits.cycle();
  if (ring.empty()) return;
  findings.add(
      Severity::kError, view.line({"topology.kind", "topology"}), "",
      fmt::format("lossless paths wait for each other in a ring: {}",
                  ring_text(view, channels, ring)),
      "once each of these buffers is full, all of them are paused for ever: a deadlock that "
      "only a watchdog ends, by dropping",
      "routes that go up and then down only, another priority for bounced packets, or a "
      "watchdog on these ports");
}

}  // namespace verbena::scenario
