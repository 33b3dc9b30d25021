// The words and tables of a report's page; its pictures are web/sim-report.js.
#include "tools/sim_report.h"

#include <fmt/format.h>

#include "tools/page.h"
#include "tools/sim_json.h"
#include "tools/sim_tables.h"

namespace verbena::tools {

namespace {

constexpr size_t kRows = 25;

std::string page_head(const SimRun& run) {
  const scenario::Scenario& scenario = run.experiment->scenario();
  std::string out = fmt::format("<h1>{}</h1>\n", escape_html(scenario.name));
  if (!scenario.description.empty())
    out += fmt::format("<p class=\"lead\">{}</p>\n", escape_html(scenario.description));
  std::string changes;
  for (const scenario::Override& change : run.overrides)
    changes += fmt::format("; {} = {}", change.key, change.value);
  out += fmt::format("<p class=\"soft\">{}: {} hosts, {} switch{}, {} flows, seed {}{}</p>\n",
                     escape_html(scenario.file), scenario.topology.hosts, scenario.switches.size(),
                     scenario.switches.size() == 1 ? "" : "es", scenario.flows.size(),
                     scenario.seed, escape_html(changes));
  if (run.end == SimRun::kInterrupted)
    out += "<p class=\"lead\">Interrupted: the figures are those until then.</p>\n";
  if (run.end == SimRun::kStuck)
    out +=
        "<p class=\"lead\">Stopped: no payload has moved for 10 s, and flows wait that nothing "
        "will end.</p>\n";
  return out;
}

std::string figures(const SimRun& run) {
  const sim::Summary& summary = run.summary;
  std::string out = "<div class=\"figures\">\n";
  auto add = [&](const std::string& number, const char* label) {
    out += fmt::format("<div><b>{}</b><span>{}</span></div>\n", escape_html(number), label);
  };
  add(short_time(run.experiment->network().now()), "simulated");
  add(fmt::format("{} of {}", summary.all.done, summary.all.flows), "flows done");
  add(short_number(summary.all.goodput_gbps) + " Gb/s", "goodput");
  if (summary.all.done > 0)
    add(short_time(static_cast<fabric::Time>(summary.all.fct_p99_us * 1e6)), "FCT p99");
  add(short_bytes(value(summary, "queue_max_bytes")), "longest queue");
  add(short_count(value(summary, "pause_frames")), "pause frames");
  add(short_count(value(summary, "ce_marks")), "CE marks");
  add(short_count(value(summary, "cnps")), "CNPs");
  add(short_count(value(summary, "drops")), "drops");
  add(fmt::format("{:.3f}", value(summary, "jain")), "fairness (Jain)");
  return out + "</div>\n";
}

std::string expectations(const SimRun& run) {
  const size_t all = run.experiment->scenario().expectations.size();
  if (all == 0) return "";
  if (run.unmet.empty())
    return html_words("Expectations", {fmt::format("{} of {} met", all, all)}, "good");
  return html_words("Expectations that were not met", run.unmet, "bad");
}

std::string section(const char* title, const TextTable& table) {
  if (table.empty()) return "";
  return fmt::format("<h2>{}</h2>\n<div class=\"card\">{}</div>\n", title, html_table(table));
}

TextTable drop_table(const sim::Summary& summary) {
  TextTable table({"cause", "frames"});
  for (const sim::DropRow& row : summary.drops)
    table.row({row.cause, fmt::format("{}", row.frames)});
  return table;
}

std::string all_values(const sim::Summary& summary) {
  TextTable table({"name", "meaning", "value"}, 2);
  for (const sim::Value& v : summary.values)
    table.row(
        {v.name, v.help, fmt::format("{:g}{}{}", v.value, v.unit.empty() ? "" : " ", v.unit)});
  return fmt::format(
      "<details><summary>Every number, by the name that [expect] knows</summary>\n"
      "<div class=\"card\">{}</div></details>\n",
      html_table(table));
}

// Which heat tells most about this run.
const char* first_heat(const sim::Summary& summary) {
  if (value(summary, "pause_time_us") > 0) return "pause";
  return "use";
}

std::string foot(const SimRun& run) {
  const fabric::Network& network = run.experiment->network();
  return fmt::format(
      "<footer>trace {:016x}, the same for this file and seed on every machine; {} "
      "packet-hops in {:.2f} s of CPU</footer>\n",
      network.trace_hash(), short_count(static_cast<double>(network.packet_hops())), run.cpu_s);
}

}  // namespace

std::string report_page(const SimRun& run) {
  const sim::Summary& summary = run.summary;
  std::string body = page_head(run) + figures(run) + html_words("Findings", summary.findings, "") +
                     expectations(run);
  body += fmt::format(
      "<h2>The fabric</h2>\n<div class=\"card\" id=\"fabric\" data-first=\"{}\">"
      "<noscript>The pictures need JavaScript; the tables below do not.</noscript>"
      "</div>\n",
      first_heat(summary));
  body += "<h2>Over time</h2>\n<div class=\"pair\" id=\"time\"></div>\n";
  if (summary.all.done > 0)
    body += "<h2>Distributions</h2>\n<div class=\"pair\" id=\"spread\"></div>\n";
  body += section("Flows", flow_table(summary));
  body += section("Switch ports, the longest queues", port_table(summary, kRows));
  body += section("Pauses", pause_table(summary, kRows));
  body += section("Drops", drop_table(summary));
  body += all_values(summary) + foot(run);
  return whole_page(run.experiment->scenario().name, body, report_json(run));
}

}  // namespace verbena::tools
