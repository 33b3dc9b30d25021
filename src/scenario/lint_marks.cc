// Rules about congestion control: whether anything slows senders down before packets are lost.
#include <fmt/format.h>

#include <algorithm>

#include "scenario/lint_view.h"

namespace verbena::scenario {

using engine::CongestionSettings;
using fabric::kPriorities;

namespace {

constexpr double kHardlyAny = 0.01;  // of packets, at the longest queue there can be

bool wants_marks(const CongestionSettings& congestion) {
  return congestion.algorithm == CongestionSettings::kDcqcn;
}

// The longest queue before every port's group stops its sender (or drops).
double longest_queue(const LintView& view, const PortView& port, uint8_t priority) {
  const fabric::GroupSettings& group =
      port.settings->groups[port.settings->priority_to_group[priority]];
  const auto others = static_cast<double>(std::max<size_t>(view.ports_of(port.node).size(), 2) - 1);
  if (!group.dynamic) return others * static_cast<double>(group.static_bytes);
  return others * group.alpha / (1 + others * group.alpha) * view.shared_bytes(port);
}

}  // namespace

void lint_no_flow_control(const LintView& view, Findings& findings) {
  const Scenario& scenario = view.scenario();
  if (view.streams().empty() || view.ports().empty()) return;
  const bool pauses = std::any_of(view.ports().begin(), view.ports().end(), [](const PortView& p) {
    return p.settings->pfc.tx_mask != 0 || p.settings->link_pause;
  });
  if (pauses) return;
  for (const Stream& stream : view.streams()) {
    const Adapter& adapter = scenario.hosts[stream.from].adapter;
    if (adapter.congestion.algorithm != CongestionSettings::kNone) continue;
    findings.add(
        Severity::kError, view.host_line(stream.from, {"congestion", "congestion.algorithm"}), "",
        "there is neither PFC nor congestion control",
        adapter.selective_repeat
            ? "queues overflow, and every loss costs a round trip"
            : "queues overflow, and after each loss go-back-N sends the whole window "
              "again: throughput collapses",
        "roce = \"lossless\" on the switches, congestion = \"dcqcn\" on the hosts, or both");
    return;
  }
}

void lint_no_marks(const LintView& view, Findings& findings) {
  const Scenario& scenario = view.scenario();
  for (const PortView& port : view.ports())
    for (const Stream& stream : view.streams()) {
      if (!wants_marks(scenario.hosts[stream.from].adapter.congestion) ||
          !view.may_leave(port, stream))
        continue;
      const uint8_t queue =
          port.settings->priority_to_queue[priority_at(*port.settings, stream.dscp, stream.pcp)];
      if (port.settings->queues[queue].ecn.mark) continue;
      std::vector<uint32_t> marking;
      for (uint32_t q = 0; q < kPriorities; ++q)
        if (port.settings->queues[q].ecn.mark) marking.push_back(q);
      const std::string key = fmt::format("queue.{}.ecn.mark", queue);
      findings.add(Severity::kError,
                   view.line(port, {key, "ecn.mark", "ecn", "queue", "priority_to_queue"}),
                   view.name(port.node),
                   marking.empty()
                       ? fmt::format("queue {}, in which RoCE travels, never marks ECN", queue)
                       : fmt::format("queue {}, in which RoCE travels, never marks ECN (queue {} "
                                     "does)",
                                     queue, fmt::join(marking, ", ")),
                   "DCQCN hears of no congestion and sends at line rate: PFC alone holds senders, "
                   "or packets are dropped",
                   fmt::format("[switch.queue.{}.ecn] mark = true, and look at the switch's own "
                               "table, not at the command that was typed",
                               queue));
    }
}

void lint_few_marks(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports())
    for (const Stream& stream : view.streams()) {
      const uint8_t priority = priority_at(*port.settings, stream.dscp, stream.pcp);
      const uint8_t queue = port.settings->priority_to_queue[priority];
      const fabric::EcnSettings& ecn = port.settings->queues[queue].ecn;
      const double reach = longest_queue(view, port, priority);
      const auto min = static_cast<double>(ecn.min_bytes), max = static_cast<double>(ecn.max_bytes);
      if (!ecn.mark || reach >= max || !view.may_leave(port, stream)) continue;
      const double most = reach <= min ? 0 : ecn.probability * (reach - min) / (max - min);
      if (most >= kHardlyAny) continue;
      const std::string key = fmt::format("queue.{}.ecn.", queue);
      findings.add(
          Severity::kError,
          view.line(port, {key + "max", "ecn.max", key + "probability", "ecn.probability", "ecn"}),
          view.name(port.node),
          fmt::format("queue {} marks at most {:.2g}% of packets: Kmax is {} bytes, but the "
                      "queue cannot grow beyond {:.0f}",
                      queue, 100 * most, ecn.max_bytes, reach),
          "ECN is on and does nothing: senders are held by PFC, or packets are dropped",
          "max below what the queue can reach, and a probability of 5% to 100%");
    }
}

void lint_roce_v1(const LintView& view, Findings& findings) {
  const Scenario& scenario = view.scenario();
  for (const Stream& stream : view.streams()) {
    const Adapter& adapter = scenario.hosts[stream.from].adapter;
    if (adapter.ect || stream.dscp != 0) continue;
    findings.add(
        Severity::kWarning, view.host_line(stream.from, {"dscp", "ect"}), view.name(stream.from),
        "its packets carry neither DSCP nor ECT, as those of RoCE v1 (a GID index of type "
        "v1)",
        "switches can neither tell them from other traffic nor mark them, and routers drop "
        "RoCE v1",
        "a GID index of type RoCE v2 (show_gids; NCCL_IB_GID_INDEX), dscp = 26, ect = true");
  }
}

}  // namespace verbena::scenario
