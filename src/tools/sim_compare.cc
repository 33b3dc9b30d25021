// Several runs side by side: one line each, for the terminal, for spreadsheets and for a browser.
#include <fmt/format.h>

#include "tools/page.h"
#include "tools/sim_files.h"
#include "tools/sim_sweep.h"
#include "tools/text_table.h"

namespace verbena::tools {

namespace {

// The columns of the comparison; every value is in the CSV.
struct Column {
  const char* value;
  const char* head;
  enum As : uint8_t { kNumber, kCount, kMicroseconds, kBytes } as;
};
constexpr Column kColumns[] = {{"flows_done", "done", Column::kCount},
                               {"fct_p50_us", "FCT p50", Column::kMicroseconds},
                               {"fct_p99_us", "p99", Column::kMicroseconds},
                               {"slowdown_p99", "slowdown p99", Column::kNumber},
                               {"goodput_gbps", "Gb/s", Column::kNumber},
                               {"jain", "Jain", Column::kNumber},
                               {"queue_mean_bytes", "queue mean", Column::kBytes},
                               {"queue_max_bytes", "max", Column::kBytes},
                               {"pause_frames", "pauses", Column::kCount},
                               {"pause_time_us", "paused", Column::kMicroseconds},
                               {"ce_marks", "CE marks", Column::kCount},
                               {"cnps", "CNPs", Column::kCount},
                               {"drops", "drops", Column::kCount}};

std::string cell(const Column& column, double value) {
  switch (column.as) {
    case Column::kNumber:
      return short_number(value);
    case Column::kCount:
      return short_count(value);
    case Column::kMicroseconds:
      return value == 0 ? "-" : short_time(static_cast<fabric::Time>(value * 1e6));
    case Column::kBytes:
      return short_bytes(value);
  }
  return "";
}

TextTable comparison(const std::vector<SweepPoint>& points) {
  std::vector<std::string> head;
  for (const scenario::Override& change : points[0].changes) head.push_back(change.key);
  const size_t keys = head.size();
  head.emplace_back("expected");
  for (const Column& column : kColumns) head.emplace_back(column.head);
  TextTable table(head, keys + 1);
  for (const SweepPoint& point : points) {
    std::vector<std::string> row;
    for (const scenario::Override& change : point.changes) row.push_back(change.value);
    row.emplace_back(!point.ran ? "not run" : point.unmet.empty() ? "yes" : "no");
    for (const Column& column : kColumns) {
      if (!point.ran) break;
      const sim::Value* value = point.summary.find(column.value);
      row.push_back(value ? cell(column, value->value) : "-");
    }
    table.row(row);
  }
  return table;
}

std::string point_name(const SweepPoint& point) {
  std::string out;
  for (const scenario::Override& change : point.changes) {
    // The last part of a key tells runs apart well enough.
    const size_t dot = change.key.rfind('.');
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ",
                       change.key.substr(dot == std::string::npos ? 0 : dot + 1), change.value);
  }
  return out;
}

}  // namespace

std::string sweep_text(const std::vector<SweepPoint>& points) {
  std::string out = comparison(points).text();
  double cpu = 0;
  size_t ran = 0;
  for (const SweepPoint& point : points) {
    cpu += point.cpu_s;
    ran += point.ran;
    for (const std::string& line : point.unmet)
      out += fmt::format("{}  {}: {}\n", &line == &point.unmet[0] ? "\n" : "", point_name(point),
                         line);
  }
  return out + fmt::format("\n{} runs, {:.2f} s of CPU\n", ran, cpu);
}

std::string sweep_csv(const std::vector<SweepPoint>& points) {
  std::string out = "run";
  for (const scenario::Override& change : points[0].changes) out += "," + csv_cell(change.key);
  const SweepPoint* model = nullptr;
  for (const SweepPoint& point : points)
    if (point.ran && model == nullptr) model = &point;
  if (model == nullptr) return out + "\n";
  for (const sim::Value& value : model->summary.values) out += "," + value.name;
  out += ",unmet,trace,cpu_s\n";
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].ran) continue;
    out += fmt::format("{}", i + 1);
    for (const scenario::Override& change : points[i].changes) out += "," + csv_cell(change.value);
    for (const sim::Value& value : points[i].summary.values)
      out += fmt::format(",{:.10g}", value.value);
    out += fmt::format(",{},{},{:.3f}\n", points[i].unmet.size(), points[i].trace, points[i].cpu_s);
  }
  return out;
}

std::string sweep_page(const SimOptions& options, const std::vector<SweepPoint>& points) {
  nlohmann::ordered_json data;
  data["metrics"] = nlohmann::ordered_json::array();
  data["runs"] = nlohmann::ordered_json::array();
  std::string title = options.file;
  for (const SweepPoint& point : points) {
    if (!point.ran) continue;
    if (data["metrics"].empty()) {
      title = point.json["name"].get<std::string>();
      for (const Column& column : kColumns)
        if (const sim::Value* value = point.summary.find(column.value))
          data["metrics"].push_back(
              {{"name", value->name}, {"unit", value->unit}, {"help", value->help}});
    }
    nlohmann::ordered_json run = point.plots;
    run["name"] = point_name(point);
    run["values"] = point.json["values"];
    data["runs"].push_back(std::move(run));
  }
  std::vector<std::string> failed;
  for (const SweepPoint& point : points)
    for (const std::string& line : point.unmet)
      failed.push_back(fmt::format("{}: {}", point_name(point), line));
  std::string body = fmt::format("<h1>{}: {} runs</h1>\n<p class=\"soft\">{}", escape_html(title),
                                 data["runs"].size(), escape_html(options.file));
  for (const std::string& text : options.sweeps) body += "; " + escape_html(text);
  for (const std::string& text : options.sets) body += "; " + escape_html(text);
  body += "</p>\n<h2>The runs</h2>\n<div class=\"card\">" + html_table(comparison(points)) +
          "</div>\n" + html_words("Expectations that were not met", failed, "bad") +
          "<h2>Side by side</h2>\n<div class=\"pair\" id=\"compare\"></div>\n";
  return whole_page(title, body, data);
}

}  // namespace verbena::tools
