// The result of a run as tables for a terminal: flows, ports, pauses, drops, then what it means.
#include <fmt/format.h>

#include <algorithm>

#include "tools/sim_tables.h"
#include "tools/text_table.h"

namespace verbena::tools {

namespace {

constexpr size_t kPortRows = 10;
constexpr size_t kPauseRows = 10;

std::string pause_time(double value) {
  return value == 0 ? "0 us" : short_time(static_cast<fabric::Time>(value * kPsPerUs));
}

std::string set_off(const TextTable& table) {
  return table.empty() ? "" : "\n" + table.text();
}

std::string pause_lines(const sim::Summary& summary) {
  const size_t more = summary.pauses.size() > kPauseRows ? summary.pauses.size() - kPauseRows : 0;
  return set_off(pause_table(summary, kPauseRows)) +
         (more > 0 ? fmt::format("and {} more\n", more) : "");
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
      value(summary, "pauses_expired"), pause_time(value(summary, "pause_time_us")),
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
  out += fmt::format("{} hosts, {} switch{}, {} flows; {} simulated; seed {}\n",
                     scenario.topology.hosts, scenario.switches.size(),
                     scenario.switches.size() == 1 ? "" : "es", scenario.flows.size(),
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
  std::string out = head(run) + flow_table(run.summary).text() +
                    set_off(port_table(run.summary, kPortRows)) + pause_lines(run.summary) +
                    count_lines(run.summary) + sentences("findings", run.summary.findings) +
                    expectation_lines(run);
  return out + fmt::format(
                   "\ntrace {:016x}; {} packet-hops, {:.2f} events each; {:.2f} s, {:.2f} s "
                   "of CPU, {} packet-hops/s\n",
                   network.trace_hash(), short_count(hops),
                   hops > 0 ? static_cast<double>(network.events()) / hops : 0, run.wall_s,
                   run.cpu_s, short_count(run.cpu_s > 0 ? hops / run.cpu_s : 0));
}

}  // namespace verbena::tools
