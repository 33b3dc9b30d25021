// Rules about buffers: headroom, thresholds, alpha.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "scenario/lint_view.h"

namespace verbena::scenario {

using fabric::GroupSettings;
using fabric::kPriorities;

namespace {

constexpr uint64_t kAroundPayload = 100;  // of a frame: headers, ICRC, FCS, preamble, gap
constexpr uint64_t kPauseFrame = 84;      // with preamble and gap
constexpr double kLightPsPerMetre = 5'000;

struct LosslessGroup {
  uint32_t number = 0;
  uint8_t priorities = 0;
};
// Groups of this port that a priority with PFC fills.
std::vector<LosslessGroup> lossless_groups(const fabric::PortSettings& port) {
  std::vector<LosslessGroup> groups;
  for (uint32_t g = 0; g < kPriorities; ++g) {
    uint8_t mask = 0;
    for (uint32_t p = 0; p < kPriorities; ++p)
      if (port.priority_to_group[p] == g && (has(port.pfc.tx_mask, p) || port.link_pause))
        mask = static_cast<uint8_t>(mask | 1u << p);
    if (mask != 0) groups.push_back({g, mask});
  }
  return groups;
}

std::string priorities_text(uint8_t mask) {
  std::vector<uint32_t> numbers;
  for (uint32_t p = 0; p < kPriorities; ++p)
    if (has(mask, p)) numbers.push_back(p);
  return fmt::format("{} {}", numbers.size() == 1 ? "priority" : "priorities",
                     fmt::join(numbers, ", "));
}

double bytes_in(fabric::Time time, uint64_t bits_per_second) {
  return static_cast<double>(time) * static_cast<double>(bits_per_second) / 8 /
         static_cast<double>(fabric::kSecond);
}

// The longest frame that the hosts send.
uint64_t frame_bytes(const LintView& view) {
  uint64_t longest = 0;
  for (const Host& host : view.scenario().hosts)
    longest = std::max<uint64_t>(longest, host.adapter.path_mtu);
  return longest + kAroundPayload;
}

fabric::Time response_of(const LintView& view, uint32_t node) {
  if (view.is_host(node)) return view.scenario().hosts[node].port.pfc.response;
  return view.ports_of(node).empty() ? 0 : view.ports_of(node)[0].settings->pfc.response;
}

// What still comes after XOFF: a frame that the port itself is sending keeps the pause waiting, one
// that the peer is sending is finished, and both ways of the cable are full.
uint64_t least_headroom(const LintView& view, const PortView& port) {
  const uint64_t rate = port.link->settings.bits_per_second;
  const double moving =
      bytes_in(2 * port.link->settings.delay + response_of(view, port.peer), rate);
  return static_cast<uint64_t>(std::ceil(moving)) + 2 * frame_bytes(view) + kPauseFrame;
}

}  // namespace

void lint_headroom(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports())
    for (const LosslessGroup& group : lossless_groups(*port.settings)) {
      if (port.settings->groups[group.number].headroom_bytes > 0) continue;
      const uint64_t least = least_headroom(view, port);
      const std::string key = fmt::format("group.{}.headroom", group.number);
      findings.add(Severity::kError,
                   view.line(port, {key, "group.headroom", "pfc.priorities", "pfc.tx", "pfc"}),
                   view.name(port.node),
                   fmt::format("{} pauses its sender, but group {} has no headroom",
                               priorities_text(group.priorities), group.number),
                   fmt::format("up to {} bytes that come after each pause are dropped: lossless "
                               "traffic is lost, and go-back-N sends it again",
                               least),
                   "headroom = \"auto\" in [switch.group], or a number of bytes");
    }
}

void lint_cable(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports())
    for (const LosslessGroup& group : lossless_groups(*port.settings)) {
      const uint64_t headroom = port.settings->groups[group.number].headroom_bytes;
      const uint64_t least = least_headroom(view, port);
      if (headroom == 0 || headroom >= least) continue;
      const std::string key = fmt::format("group.{}.headroom", group.number);
      const double metres = static_cast<double>(port.link->settings.delay) / kLightPsPerMetre;
      findings.add(
          Severity::kError,
          view.line(port, {key, "group.headroom", "pfc.cable", "cable", "headroom"}),
          view.name(port.node),
          fmt::format("headroom of group {} is {} bytes, but {:.0f} m at {:g} Gb/s need {}",
                      group.number, headroom, metres,
                      static_cast<double>(port.link->settings.bits_per_second) / 1e9, least),
          "when every sender behind this port is paused at full rate, lossless packets are dropped",
          fmt::format("headroom = \"auto\" with the real cable length (cable = \"{:.0f}m\"), or at "
                      "least {} bytes",
                      metres, least));
    }
}

// Marks must come before pauses (Kmin), and the whole ramp below XOFF (Kmax).
void lint_thresholds(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports())
    for (const LosslessGroup& group : lossless_groups(*port.settings)) {
      const GroupSettings& settings = port.settings->groups[group.number];
      const double xoff = view.xoff_bytes(port, settings);
      for (uint32_t p = 0; p < kPriorities; ++p) {
        if (!has(group.priorities, p)) continue;
        const uint8_t q = port.settings->priority_to_queue[p];
        const fabric::EcnSettings& ecn = port.settings->queues[q].ecn;
        if (!ecn.mark || static_cast<double>(ecn.max_bytes) < xoff) continue;
        const bool never = static_cast<double>(ecn.min_bytes) >= xoff;
        const std::string queue = fmt::format("queue.{}.ecn", q);
        findings.add(
            never ? Severity::kError : Severity::kWarning,
            view.line(port, {queue + (never ? ".min" : ".max"), never ? "ecn.min" : "ecn.max",
                             queue, "ecn", fmt::format("group.{}.alpha", group.number),
                             "group.alpha", "alpha", "buffer"}),
            view.name(port.node),
            never
                ? fmt::format("Kmin of queue {} is {} bytes, but one port's pauses begin at {:.0f}",
                              q, ecn.min_bytes, xoff)
                : fmt::format("Kmax of queue {} is {} bytes, but one port's pauses begin at {:.0f}",
                              q, ecn.max_bytes, xoff),
            never ? "PFC stops the senders before ECN slows them: pauses spread to flows that do "
                    "not cause the congestion"
                  : "the upper part of the marking ramp is never reached before PFC acts",
            fmt::format("keep Kmin < Kmax < {:.0f}, or raise alpha or the buffer", xoff));
      }
    }
}

void lint_shared_headroom(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports()) {
    if (port.owner->headroom != fabric::SwitchSettings::kPerPort) continue;
    const size_t groups = lossless_groups(*port.settings).size();
    if (groups < 2) continue;
    findings.add(Severity::kWarning, view.line(port, {"headroom_pool", "pfc.priorities", "pfc.tx"}),
                 view.name(port.node),
                 fmt::format("{} lossless groups of a port share the headroom of one", groups),
                 "when two of them are paused at once, the second one's packets are dropped",
                 "headroom_pool = \"per-group\", or one lossless priority");
  }
}

// The same tier should have one alpha: a quarter of it somewhere pauses four times as early.
void lint_alpha(const LintView& view, Findings& findings) {
  const Topology& topology = view.scenario().topology;
  std::map<uint32_t, std::map<double, std::vector<const PortView*>>> tiers;
  for (const PortView& port : view.ports())
    for (const LosslessGroup& group : lossless_groups(*port.settings)) {
      const GroupSettings& settings = port.settings->groups[group.number];
      if (settings.dynamic) tiers[topology.nodes[port.node].tier][settings.alpha].push_back(&port);
    }
  for (const auto& [tier, alphas] : tiers) {
    if (alphas.size() < 2) continue;
    const auto usual = std::max_element(
        alphas.begin(), alphas.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [alpha, ports] : alphas) {
      if (alpha >= usual->first) continue;
      for (const PortView* port : ports)
        findings.add(
            Severity::kWarning, view.line(*port, {"group.3.alpha", "group.alpha", "alpha"}),
            view.name(port->node),
            fmt::format("alpha of a lossless group is {:g}, {:g} on other ports of its tier", alpha,
                        usual->first),
            fmt::format("its pauses begin at about {:.0f}% of the use that the others "
                        "allow, so its senders are stopped first and most",
                        100 * (alpha / (1 + alpha)) / (usual->first / (1 + usual->first))),
            fmt::format("alpha = {:g} everywhere in the tier", usual->first));
    }
  }
  for (const PortView& port : view.ports()) {
    if (!view.is_host(port.peer)) continue;
    const fabric::HostSettings& host = view.scenario().hosts[port.peer].port;
    if (host.receive_bits_per_second == 0 || host.pfc.tx_mask == 0 ||
        host.receive_bits_per_second >= port.link->settings.bits_per_second)
      continue;
    findings.add(
        Severity::kWarning, view.host_line(port.peer, {"receive.rate"}), view.name(port.peer),
        fmt::format("the adapter takes in {:g} Gb/s of a link of {:g} and pauses the switch",
                    static_cast<double>(host.receive_bits_per_second) / 1e9,
                    static_cast<double>(port.link->settings.bits_per_second) / 1e9),
        "its pauses spread through the fabric, to flows that do not go to it",
        "find what slows the host down (PCIe, translation cache), or stop it from sending "
        "pauses: pfc.tx = []");
  }
}

}  // namespace verbena::scenario
