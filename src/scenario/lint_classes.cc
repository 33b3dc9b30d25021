// Rules about classes: whether RoCE packets travel where they are meant to, both ways, and what
// else travels there.
#include <fmt/format.h>

#include <algorithm>

#include "scenario/lint_view.h"

namespace verbena::scenario {

using fabric::PortSettings;

namespace {

bool lossless(const PortSettings& port, uint8_t priority) {
  return port.link_pause || has(port.pfc.tx_mask, priority);
}

bool trusts_dscp(const PortSettings& port) {
  return port.trust == fabric::Trust::kDscp || port.trust == fabric::Trust::kBoth;
}

// Whether the stream is meant for a lossless class and this port's settings put it into another:
// because the DSCP is not looked at, or because of its map.
bool lost_by_trust(const PortSettings& port, const Stream& stream) {
  const uint8_t priority = priority_at(port, stream.dscp, stream.pcp);
  return !lossless(port, priority) && !trusts_dscp(port) &&
         lossless(port, port.dscp_to_priority[stream.dscp]);
}
bool lost_by_map(const PortSettings& port, const Stream& stream) {
  const uint8_t priority = priority_at(port, stream.dscp, stream.pcp);
  return !lossless(port, priority) && trusts_dscp(port) && lossless(port, stream.pcp);
}

std::string stream_text(const LintView& view, const Stream& stream) {
  return fmt::format("{} to {}, DSCP {}", view.name(stream.from), view.name(stream.to),
                     stream.dscp);
}

}  // namespace

void lint_mixed_classes(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports()) {
    size_t inside = 0, outside = 0;
    const Stream* first = nullptr;
    for (const Stream& stream : view.streams()) {
      const uint8_t priority = priority_at(*port.settings, stream.dscp, stream.pcp);
      if (lossless(*port.settings, priority)) {
        inside += stream.flows;
      } else if (!lost_by_trust(*port.settings, stream) && !lost_by_map(*port.settings, stream)) {
        outside += stream.flows;
        if (first == nullptr) first = &stream;
      }
    }
    if (inside == 0 || outside == 0) continue;
    const uint8_t priority = priority_at(*port.settings, first->dscp, first->pcp);
    findings.add(
        Severity::kWarning, view.host_line(first->from, {"dscp", "priority"}), view.name(port.node),
        fmt::format("{} of {} flows (first: {}) travel in priority {}, which is lossy; the "
                    "others are lossless",
                    outside, inside + outside, stream_text(view, *first), priority),
        "those flows lose packets under congestion, and go-back-N sends whole windows "
        "again",
        "give every queue pair the lossless class's DSCP: traffic class of the adapter, of "
        "NCCL (NCCL_IB_TC) and of UCX alike");
  }
}

void lint_one_way(const LintView& view, Findings& findings) {
  const Scenario& scenario = view.scenario();
  for (const Flow& flow : scenario.flows) {
    const Adapter& source = scenario.hosts[flow.source].adapter;
    const Adapter& target = scenario.hosts[flow.destination].adapter;
    const uint8_t there = flow.dscp == 0xff ? source.dscp : flow.dscp;
    if (there == target.dscp || flow.dscp != 0xff) continue;
    const uint32_t odd = target.dscp == 0 ? flow.destination : flow.source;
    const uint32_t other = odd == flow.source ? flow.destination : flow.source;
    findings.add(Severity::kWarning, view.host_line(odd, {"dscp"}), view.name(odd),
                 fmt::format("it sends RoCE with DSCP {}, its peer {} with DSCP {}",
                             scenario.hosts[odd].adapter.dscp, view.name(other),
                             scenario.hosts[other].adapter.dscp),
                 "requests and what answers them (acknowledgements, READ data) travel in different "
                 "classes: one way is lossy, or waits in another queue",
                 fmt::format("dscp = {} on both", scenario.hosts[other].adapter.dscp));
  }
}

void lint_dscp_map(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports())
    for (const Stream& stream : view.streams()) {
      if (!lost_by_map(*port.settings, stream)) continue;
      const std::string key = fmt::format("dscp.{}", stream.dscp);
      findings.add(
          Severity::kError, view.line(port, {"dscp_to_priority", key, "trust"}),
          view.name(port.node),
          fmt::format("DSCP {} becomes priority {}, which is lossy; the adapters mean "
                      "priority {}",
                      stream.dscp, port.settings->dscp_to_priority[stream.dscp], stream.pcp),
          "RoCE is dropped under congestion although PFC is on, because it is on for "
          "another priority",
          fmt::format("dscp_to_priority = {{ {} = {} }} on the switch, or another DSCP on "
                      "the adapters",
                      stream.dscp, stream.pcp));
    }
}

void lint_trust(const LintView& view, Findings& findings) {
  for (const PortView& port : view.ports())
    for (const Stream& stream : view.streams()) {
      if (!lost_by_trust(*port.settings, stream)) continue;
      findings.add(
          Severity::kError, view.line(port, {"trust"}), view.name(port.node),
          fmt::format("it does not trust the DSCP, so DSCP {} travels in priority {}, which "
                      "is lossy",
                      stream.dscp, priority_at(*port.settings, stream.dscp, stream.pcp)),
          "routed RoCE has no VLAN tag and so no 802.1p value: it loses packets although "
          "PFC is on",
          "trust = \"both\" or \"dscp\"");
    }
  const Scenario& scenario = view.scenario();
  const bool marks = std::any_of(view.ports().begin(), view.ports().end(), [](const PortView& p) {
    return std::any_of(p.settings->queues.begin(), p.settings->queues.end(),
                       [](const fabric::QueueSettings& queue) { return queue.ecn.mark; });
  });
  for (const Stream& stream : view.streams()) {
    const Adapter& adapter = scenario.hosts[stream.from].adapter;
    if (adapter.ect || adapter.dscp == 0 || !marks) continue;
    findings.add(
        Severity::kWarning, view.host_line(stream.from, {"ect"}), view.name(stream.from),
        "its packets are not ECN-capable, so no switch can mark them",
        "congestion control never hears of congestion: PFC alone stops senders, or packets "
        "are dropped",
        "ect = true (a traffic class with ECT: ToS 106 for DSCP 26)");
  }
}

void lint_control_class(const LintView& view, Findings& findings) {
  const Scenario& scenario = view.scenario();
  for (const PortView& port : view.ports())
    for (const Stream& stream : view.streams()) {
      const engine::CongestionSettings& congestion = scenario.hosts[stream.to].adapter.congestion;
      if (congestion.algorithm != engine::CongestionSettings::kDcqcn ||
          congestion.np.echo_in_acknowledgements)
        continue;
      const PortSettings& settings = *port.settings;
      const uint8_t data =
          settings.priority_to_queue[priority_at(settings, stream.dscp, stream.pcp)];
      const uint8_t cnp = settings.priority_to_queue[priority_at(settings, congestion.np.cnp_dscp,
                                                                 congestion.np.cnp_802p_prio)];
      if (data != cnp) continue;
      const int line = view.host_line(stream.to, {"np.cnp_dscp", "np.cnp_802p_prio"});
      findings.add(
          Severity::kWarning,
          line != 0 ? line
                    : view.line(port, {"priority_to_queue", "dscp_to_priority", "queue", "trust"}),
          view.name(port.node),
          fmt::format("CNPs (DSCP {}) travel in queue {}, as the data does", congestion.np.cnp_dscp,
                      data),
          "they wait behind the data that they are to slow down, and are paused with it: "
          "senders react late",
          "a queue of their own that is served first: cnp_dscp = 48 to priority 6, queue 6 "
          "strict");
    }
}

}  // namespace verbena::scenario
