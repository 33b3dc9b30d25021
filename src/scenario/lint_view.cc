// Ports are numbered in the order of their node's links, as everywhere.
#include "scenario/lint_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace verbena::scenario {

using fabric::PortSettings;

namespace {

constexpr uint8_t kAdapters = 0xff;  // of Flow::dscp and priority

const PortSettings& settings_of(const fabric::SwitchSettings& owner, uint32_t number) {
  const auto own = owner.ports.find(number);
  return own == owner.ports.end() ? owner.port : own->second;
}

std::vector<Stream> streams_of(const Scenario& scenario) {
  std::map<std::tuple<uint32_t, uint8_t, uint8_t>, size_t> known;
  std::vector<Stream> streams;
  for (const Flow& flow : scenario.flows) {
    const bool read = flow.verb == Verb::kRead;
    const uint32_t from = read ? flow.destination : flow.source;
    const Adapter& adapter = scenario.hosts[from].adapter;
    const uint8_t dscp = flow.dscp == kAdapters ? adapter.dscp : flow.dscp;
    const uint8_t pcp = flow.priority == kAdapters ? adapter.priority : flow.priority;
    const auto [at, fresh] = known.try_emplace({from, dscp, pcp}, streams.size());
    const uint32_t to = read ? flow.source : flow.destination;
    if (fresh) streams.push_back({from, to, dscp, pcp, 0, {}});
    Stream& stream = streams[at->second];
    ++stream.flows;
    stream.reached.insert(to);
  }
  return streams;
}

}  // namespace

uint8_t priority_at(const PortSettings& port, uint8_t dscp, uint8_t pcp) {
  switch (port.trust) {
    case fabric::Trust::kPort:
      return port.default_priority;
    case fabric::Trust::kPcp:
      return port.pcp_to_priority[pcp];
    case fabric::Trust::kDscp:
    case fabric::Trust::kBoth:
      break;
  }
  return port.dscp_to_priority[dscp];
}

LintView::LintView(const Scenario& scenario)
    : scenario_(scenario),
      by_node_(scenario.topology.nodes.size()),
      streams_(streams_of(scenario)) {
  const uint32_t hosts = scenario.topology.hosts;
  std::vector<uint32_t> count(by_node_.size());
  for (const Link& link : scenario.topology.links) {
    const uint32_t a = count[link.a]++, b = count[link.b]++;
    for (const auto& [node, number, peer, peer_number] :
         {std::tuple(link.a, a, link.b, b), std::tuple(link.b, b, link.a, a)}) {
      if (node < hosts || node - hosts >= scenario.switches.size()) continue;
      const fabric::SwitchSettings& owner = scenario.switches[node - hosts];
      by_node_[node].push_back(
          {node, number, peer, peer_number, &settings_of(owner, number), &owner, &link});
    }
  }
  for (const std::vector<PortView>& ports : by_node_)
    ports_.insert(ports_.end(), ports.begin(), ports.end());
}

std::string LintView::port_name(const PortView& port) const {
  return fmt::format("port {} of {} (to {})", port.number, name(port.node), name(port.peer));
}

// From what says most of this node to what is said of all: "switch.s0.port.2", "switch.s0",
// "switch.s*", "switch.port.2" (an imported file has one switch), "switch".
std::vector<std::string> LintView::prefixes(std::string_view section, uint32_t node,
                                            const PortView* port) const {
  std::vector<std::string> all;
  const std::string& own = name(node);
  const std::string begin = fmt::format("{}.", section);
  std::vector<std::string> names = {own};
  for (auto at = scenario_.lines.lower_bound(begin); at != scenario_.lines.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    const std::string pattern =
        at->first.substr(begin.size(), at->first.find('.', begin.size()) - begin.size());
    if (pattern.ends_with('*') && own.starts_with(pattern.substr(0, pattern.size() - 1)) &&
        names.back() != pattern)
      names.push_back(pattern);
  }
  for (const std::string& each : names) {
    if (port != nullptr) {
      all.push_back(fmt::format("{}{}.port.{}", begin, each, port->number));
      all.push_back(fmt::format("{}{}.port.{}", begin, each, name(port->peer)));
    }
    all.push_back(begin + each);
  }
  if (port != nullptr) all.push_back(fmt::format("{}port.{}", begin, port->number));
  all.emplace_back(section);
  return all;
}

int LintView::first_line(const std::vector<std::string>& prefixes,
                         std::initializer_list<std::string_view> keys) const {
  for (const std::string& prefix : prefixes)
    for (std::string_view key : keys) {
      const auto found = scenario_.lines.find(fmt::format("{}.{}", prefix, key));
      if (found != scenario_.lines.end()) return found->second;
    }
  return 0;
}

int LintView::line(const PortView& port, std::initializer_list<std::string_view> keys) const {
  const std::vector<std::string> from = prefixes("switch", port.node, &port);
  const int own = first_line(from, keys);
  return own != 0 ? own : first_line(from, {"roce", "profile"});
}

int LintView::host_line(uint32_t host, std::initializer_list<std::string_view> keys) const {
  return first_line(prefixes("host", host, nullptr), keys);
}

int LintView::line(std::initializer_list<std::string_view> whole_keys) const {
  for (std::string_view key : whole_keys) {
    const auto found = scenario_.lines.find(std::string(key));
    if (found != scenario_.lines.end()) return found->second;
  }
  return 0;
}

double LintView::shared_bytes(const PortView& port) const {
  double taken = 0;
  for (const PortView& each : by_node_[port.node]) {
    double most = 0, all = 0;
    for (const fabric::GroupSettings& group : each.settings->groups) {
      const auto headroom = group.lossless ? static_cast<double>(group.headroom_bytes) : 0.0;
      most = std::max(most, headroom);
      all += headroom;
      taken += static_cast<double>(group.reserved_bytes);
    }
    taken += port.owner->headroom == fabric::SwitchSettings::kPerPort ? most : all;
  }
  return std::max(0.0, static_cast<double>(port.owner->buffer_bytes) - taken);
}

double LintView::xoff_bytes(const PortView& port, const fabric::GroupSettings& group) const {
  const auto reserved = static_cast<double>(group.reserved_bytes);
  if (!group.dynamic) return reserved + static_cast<double>(group.static_bytes);
  return reserved + group.alpha / (1 + group.alpha) * shared_bytes(port);
}

}  // namespace verbena::scenario
