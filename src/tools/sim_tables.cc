// From a summary to rows of words; see sim_tables.h.
#include "tools/sim_tables.h"

#include <fmt/format.h>

namespace verbena::tools {

namespace {

std::string time_or_dash(double value) {
  return value == 0 ? "-" : short_time(static_cast<fabric::Time>(value * kPsPerUs));
}

void flow_row(TextTable& table, const sim::FlowClass& flows) {
  table.row({flows.name, fmt::format("{}", flows.flows), fmt::format("{}", flows.done),
             time_or_dash(flows.fct_mean_us), time_or_dash(flows.fct_p50_us),
             time_or_dash(flows.fct_p95_us), time_or_dash(flows.fct_p99_us),
             short_number(flows.slowdown_p50), short_number(flows.slowdown_p95),
             short_number(flows.slowdown_p99), short_number(flows.goodput_gbps)});
}

}  // namespace

TextTable flow_table(const sim::Summary& summary) {
  TextTable table({"flows", "number", "done", "FCT mean", "p50", "p95", "p99", "slowdown p50",
                   "p95", "p99", "Gb/s"});
  for (const sim::FlowClass& flows : summary.sizes) flow_row(table, flows);
  if (summary.groups.size() > 1)
    for (const sim::FlowClass& flows : summary.groups) flow_row(table, flows);
  if (summary.sizes.size() != 1 || summary.all.flows != summary.sizes[0].flows ||
      summary.groups.size() > 1)
    flow_row(table, summary.all);
  return table;
}

TextTable port_table(const sim::Summary& summary, size_t most) {
  TextTable table({"port", "use", "queue p50", "p99", "max", "CE marks", "drops", "pauses sent",
                   "received", "paused"});
  for (const sim::PortRow& port : summary.ports) {
    if (table.rows().size() > most) break;
    if (port.use == 0 && port.rx_pause == 0) continue;
    table.row({port.name, fmt::format("{:.1f} %", port.use * 100),
               short_bytes(static_cast<double>(port.queue_p50)),
               short_bytes(static_cast<double>(port.queue_p99)),
               short_bytes(static_cast<double>(port.queue_max)), fmt::format("{}", port.marks),
               fmt::format("{}", port.drops), fmt::format("{}", port.tx_pause),
               fmt::format("{}", port.rx_pause), time_or_dash(port.paused_us)});
  }
  return table;
}

TextTable pause_table(const sim::Summary& summary, size_t most) {
  TextTable table({"pauses", "priority", "sent", "received", "expired", "paused"});
  for (const sim::PauseRow& row : summary.pauses) {
    if (table.rows().size() > most) break;
    table.row({row.name, fmt::format("{}", row.priority), fmt::format("{}", row.sent),
               fmt::format("{}", row.received), fmt::format("{}", row.expired),
               time_or_dash(row.paused_us)});
  }
  return table;
}

}  // namespace verbena::tools
