// The result of a run as tables for a terminal: flows, ports, pauses, drops, then what it means.
#include <fmt/format.h>

#include <algorithm>

#include "tools/sim.h"
#include "tools/text_table.h"

namespace verbena::tools {

namespace {

constexpr size_t kPortRows = 10;
constexpr size_t kPauseRows = 10;
constexpr double kPsPerUs = 1e6;

std::string us(double value) {
  return value == 0 ? "-" : short_time(static_cast<fabric::Time>(value * kPsPerUs));
}

void flow_row(TextTable& table, const sim::FlowClass& flows) {
  table.row({flows.name, fmt::format("{}", flows.flows), fmt::format("{}", flows.done),
             us(flows.fct_mean_us), us(flows.fct_p50_us), us(flows.fct_p95_us),
             us(flows.fct_p99_us), short_number(flows.slowdown_p50),
             short_number(flows.slowdown_p95), short_number(flows.slowdown_p99),
             short_number(flows.goodput_gbps)});
}

std::string flow_table(const sim::Summary& summary) {
  TextTable table({"flows", "number", "done", "FCT mean", "p50", "p95", "p99", "slowdown p50",
                   "p95", "p99", "Gb/s"});
  for (const sim::FlowClass& flows : summary.sizes) flow_row(table, flows);
  if (summary.groups.size() > 1)
    for (const sim::FlowClass& flows : summary.groups) flow_row(table, flows);
  if (summary.sizes.size() != 1 || summary.all.flows != summary.sizes[0].flows)
    flow_row(table, summary.all);
  return table.text();
}

std::string port_table(const sim::Summary& summary) {
  TextTable table({"port", "use", "queue p50", "p99", "max", "CE marks", "drops", "pauses sent",
                   "received", "paused"});
  for (size_t i = 0; i < summary.ports.size() && i < kPortRows; ++i) {
    const sim::PortRow& port = summary.ports[i];
    if (port.use == 0 && port.rx_pause == 0) continue;
    table.row({port.name, fmt::format("{:.1f} %", port.use * 100),
               short_bytes(static_cast<double>(port.queue_p50)),
               short_bytes(static_cast<double>(port.queue_p99)),
               short_bytes(static_cast<double>(port.queue_max)), fmt::format("{}", port.marks),
               fmt::format("{}", port.drops), fmt::format("{}", port.tx_pause),
               fmt::format("{}", port.rx_pause), us(port.paused_us)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string pause_table(const sim::Summary& summary) {
  TextTable table({"pauses", "priority", "sent", "received", "expired", "paused"});
  for (size_t i = 0; i < summary.pauses.size() && i < kPauseRows; ++i) {
    const sim::PauseRow& row = summary.pauses[i];
    table.row({row.name, fmt::format("{}", row.priority), fmt::format("{}", row.sent),
               fmt::format("{}", row.received), fmt::format("{}", row.expired), us(row.paused_us)});
  }
  if (table.empty()) return "";
  const size_t more = summary.pauses.size() > kPauseRows ? summary.pauses.size() - kPauseRows : 0;
  return "\n" + table.text() + (more > 0 ? fmt::format("and {} more\n", more) : "");
}

double value(const sim::Summary& summary, const char* name) {
  const sim::Value* found = summary.find(name);
  return found ? found->value : 0;
}

std::string count_lines(const sim::Summary& summary) {
  std::string drops;
  for (const sim::DropRow& row : summary.drops)
    drops += fmt::format("{}{} {}", drops.empty() ? ": " : ", ", row.frames, row.cause);
  std::string out = fmt::format(
      "\npauses    {:.0f} frames stop, {:.0f} let go, {:.0f} expired, {} paused in all\n"
      "ECN       {:.0f} packets marked, {:.0f} CNPs\n"
      "drops     {:.0f}{}\n",
      value(summary, "pause_frames"), value(summary, "resume_frames"),
      value(summary, "pauses_expired"), us(value(summary, "pause_time_us")),
      value(summary, "ce_marks"), value(summary, "cnps"), value(summary, "drops"), drops);
  const double naks = value(summary, "naks"), timeouts = value(summary, "timeouts"),
               rnr = value(summary, "rnr_naks");
  if (naks + timeouts + rnr > 0)
    out += fmt::format("retries   {:.0f} sequence NAKs, {:.0f} timeouts, {:.0f} RNR NAKs\n", naks,
                       timeouts, rnr);
  return out + fmt::format("fairness  {:.3f} (Jain)\n", value(summary, "jain"));
}

std::string sentences(const char* title, const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += fmt::format("\n  - {}", line);
  return lines.empty() ? "" : fmt::format("\n{}{}\n", title, out);
}

std::string expectation_lines(const SimRun& run) {
  const size_t all = run.experiment->scenario().expectations.size();
  if (all == 0) return "";
  if (run.unmet.empty()) return fmt::format("\nexpectations: {} of {} met\n", all, all);
  return sentences(fmt::format("expectations: {} of {} met", all - run.unmet.size(), all).c_str(),
                   run.unmet);
}

std::string head(const SimRun& run) {
  const scenario::Scenario& scenario = run.experiment->scenario();
  std::string out = fmt::format("{}{}{}\n", scenario.name, scenario.description.empty() ? "" : ": ",
                                scenario.description);
  out += fmt::format("{} hosts, {} switches, {} flows; {} simulated; seed {}\n",
                     scenario.topology.hosts, scenario.switches.size(), scenario.flows.size(),
                     short_time(run.experiment->network().now()), scenario.seed);
  for (const scenario::Override& change : run.overrides)
    out += fmt::format("with {} = {}\n", change.key, change.value);
  if (run.end == SimRun::kInterrupted) out += "interrupted: the figures are those until then\n";
  if (run.end == SimRun::kStuck)
    out += "stopped: no payload has moved for 10 s, and flows wait that nothing will end\n";
  return out + "\n";
}

}  // namespace

std::string sim_text(const SimRun& run) {
  const fabric::Network& network = run.experiment->network();
  const auto hops = static_cast<double>(network.packet_hops());
  std::string out = head(run) + flow_table(run.summary) + port_table(run.summary) +
                    pause_table(run.summary) + count_lines(run.summary) +
                    sentences("findings", run.summary.findings) + expectation_lines(run);
  return out + fmt::format(
                   "\ntrace {:016x}; {} packet-hops, {:.2f} events each; {:.2f} s, {:.2f} s "
                   "of CPU, {} packet-hops/s\n",
                   network.trace_hash(), short_count(hops),
                   hops > 0 ? static_cast<double>(network.events()) / hops : 0, run.wall_s,
                   run.cpu_s, short_count(run.cpu_s > 0 ? hops / run.cpu_s : 0));
}

}  // namespace verbena::tools
