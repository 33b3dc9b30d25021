// Defaults are what the usual switch, host or workload has before anything is read.
#include "scenario/schema_text.h"

#include <fmt/format.h>

#include "scenario/schema.h"
#include "scenario/schema_devices.h"

namespace verbena::scenario {
namespace {

void heading(std::string& out, std::string_view title, std::string_view about) {
  out += fmt::format("\n### {}\n\n{}\n\n| Key | Values | Default | |\n|---|---|---|---|\n", title,
                     about);
}

template <typename T>
std::string default_of(const Key<T>& key, const T& usual) {
  if (!key.usual.empty()) return std::string(key.usual);
  const std::string text = format_value(key, key.show(usual));
  return text == "\"\"" || text == "[]" ? "" : fmt::format("`{}`", text);
}

template <typename T>
void rows(std::string& out, const std::vector<Key<T>>& keys, const T& usual) {
  for (const Key<T>& key : keys)
    out += fmt::format("| `{}` | {} | {} | {} |\n", key.name, format_range(key),
                       default_of(key, usual), key.help);
}

void topology_sections(std::string& out) {
  heading(out, "[topology]", "What is joined to what. The counts depend on the kind.");
  rows(out, topology_keys(), TopologyForm{});
  out += "\n| `kind` | Shape | Counts, their ranges and defaults |\n|---|---|---|\n";
  for (const ShapeKind& kind : shape_kinds()) {
    std::string counts;
    for (const ShapeCount& count : kind.counts)
      counts += fmt::format("{}`{}` {} to {} ({}): {}", counts.empty() ? "" : "; ", count.name,
                            count.least, count.most,
                            count.usual == 0 ? "k/2" : fmt::format("{}", count.usual), count.help);
    out += fmt::format("| `{}` | {} | {} |\n", kind.name, kind.help, counts);
  }
  heading(out, "[topology] of kind \"links\"", "Nodes are what the `[[link]]` tables join.");
  rows(out, topology_list_keys(), TopologyForm{});
  heading(
      out, "[[link]]",
      "One link of kind \"links\"; beside any other kind, what one of its links has of its own.");
  rows(out, link_keys(), LinkForm{});
}

void switch_sections(std::string& out) {
  const SwitchForm form = switch_profile(SwitchForm::kCumulus, SwitchForm::kLossless);
  const fabric::PortSettings& port = form.settings.port;
  heading(out, "[switch], [switch.NAME]",
          "Every switch; then one (`[switch.leaf0]`) or those whose name begins so "
          "(`[switch.\"leaf*\"]`).");
  rows(out, switch_form_keys(), form);
  rows(out, switch_keys(), form.settings);
  heading(
      out, "[switch] and [switch.NAME.port.N]",
      "N is the port's number, from 0 in the order of links, or the name of the node behind it. "
      "A port has all tables below too, but for `routing`.");
  rows(out, port_keys(), port);
  heading(out, "[switch.pfc], [host.pfc]",
          "Priority flow control, IEEE 802.1Qbb. Setting `tx` or `priorities` makes the groups and "
          "queues of these priorities lossless and all others lossy.");
  rows(out, pfc_keys(), port.pfc);
  heading(
      out, "[switch.group], [switch.group.N]",
      "Ingress buffer: every lossless priority group; then one. Defaults are a lossless one's.");
  rows(out, group_keys(), [&] {
    fabric::GroupSettings group = port.groups[3];
    group.headroom_bytes = kAutoHeadroom;
    return group;
  }());
  heading(out, "[switch.ecn], [switch.queue.N.ecn]",
          "Every queue that marks or is lossless; then one queue. Naming the table turns `mark` "
          "on.");
  rows(out, ecn_keys(), port.queues[3].ecn);
  heading(out, "[switch.queue.N], [host.queue.N]", "One egress queue. Defaults are those of 3.");
  rows(out, queue_keys(), port.queues[3]);
  heading(out, "[switch.routing]", "The choice among equal paths.");
  rows(out, routing_keys(), form.settings.routing);
  heading(out, "[switch.watchdog]", "What ends a pause that lasts too long.");
  rows(out, watchdog_keys(), port.watchdog);
}

void host_sections(std::string& out) {
  const Host host = host_profile(false);
  heading(out, "[host], [host.NAME]", "Every host's adapter; then one, or `[host.\"h1*\"]`.");
  rows(out, host_form_keys(), HostForm{});
  rows(out, adapter_keys(), host.adapter);
  rows(out, congestion_keys(), host.adapter.congestion);
  heading(out, "[host.dcqcn]",
          "The sender's side of DCQCN, under NVIDIA's names. `paper` and `authors` also set "
          "`min_time_between_cnps` to 50 us.");
  rows(out, dcqcn_keys(), host.adapter.congestion.dcqcn);
  heading(out, "[host.np]", "The receiver's side.");
  rows(out, np_keys(), host.adapter.congestion.np);
  heading(out, "[host.swift]",
          "Swift (SIGCOMM 2020). Not for READ: nothing acknowledges its responses.");
  rows(out, swift_keys(), host.adapter.congestion.swift);
  heading(out, "[host.hpcc]",
          "HPCC (SIGCOMM 2019): switches write telemetry into packets. Not for READ.");
  rows(out, hpcc_keys(), host.adapter.congestion.hpcc);
  heading(out, "[host.receive]", "A receiver that is slower than its link pauses its switch.");
  rows(out, receive_keys(), host.port);
  heading(out, "[host.storm]", "A broken adapter. Also as an `[[event]]`.");
  rows(out, storm_keys(), host.port);
}

void traffic_sections(std::string& out) {
  FlowForm flow;
  flow.flow.bytes = kEndless;
  heading(out, "[[flow]]", "One message of one queue pair.");
  rows(out, flow_form_keys(), flow);
  rows(out, flow_keys(), flow.flow);
  heading(out, "[[workload]]", "Many flows. These keys are for every kind:");
  rows(out, workload_form_keys(), WorkloadForm{});
  rows(out, workload_keys(), Workload{});
  for (const WorkloadKind& kind : workload_kinds()) {
    heading(out, fmt::format("[[workload]] of kind \"{}\"", kind.name),
            fmt::format("{}.", kind.help));
    rows(out, kind.form, WorkloadForm{});
    rows(out, kind.keys, Workload{});
  }
  heading(out, "[[event]]", "What happens while the scenario runs.");
  rows(out, event_keys(), EventForm{});
}

}  // namespace

std::string schema_markdown() {
  std::string out;
  heading(out, "[scenario]", "The experiment as a whole.");
  rows(out, scenario_keys(), ScenarioForm{});
  topology_sections(out);
  switch_sections(out);
  host_sections(out);
  traffic_sections(out);
  return out;
}

}  // namespace verbena::scenario
