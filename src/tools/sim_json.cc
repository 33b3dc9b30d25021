// The summary as JSON: the same numbers as the tables, unrounded.
#include "tools/sim_json.h"

#include <fmt/format.h>

namespace verbena::tools {

using nlohmann::ordered_json;

namespace {

ordered_json class_json(const sim::FlowClass& flows) {
  return {{"name", flows.name},
          {"flows", flows.flows},
          {"done", flows.done},
          {"fct_mean_us", flows.fct_mean_us},
          {"fct_p50_us", flows.fct_p50_us},
          {"fct_p95_us", flows.fct_p95_us},
          {"fct_p99_us", flows.fct_p99_us},
          {"slowdown_mean", flows.slowdown_mean},
          {"slowdown_p50", flows.slowdown_p50},
          {"slowdown_p95", flows.slowdown_p95},
          {"slowdown_p99", flows.slowdown_p99},
          {"goodput_gbps", flows.goodput_gbps}};
}

ordered_json port_json(const sim::PortRow& port) {
  return {{"name", port.name},
          {"use", port.use},
          {"queue_mean", port.queue_mean},
          {"queue_deviation", port.queue_deviation},
          {"queue_p50", port.queue_p50},
          {"queue_p99", port.queue_p99},
          {"queue_max", port.queue_max},
          {"ce_marks", port.marks},
          {"drops", port.drops},
          {"pauses_sent", port.tx_pause},
          {"pauses_received", port.rx_pause},
          {"paused_us", port.paused_us}};
}

ordered_json pause_json(const sim::PauseRow& row) {
  return {{"port", row.name},         {"priority", row.priority}, {"sent", row.sent},
          {"received", row.received}, {"expired", row.expired},   {"paused_us", row.paused_us}};
}

ordered_json tree_json(const sim::PauseTree& tree) {
  return {{"root", tree.root}, {"host", tree.host}, {"stopped", tree.stopped}, {"path", tree.path}};
}

template <typename T, typename Make>
ordered_json list(const std::vector<T>& from, Make make) {
  ordered_json out = ordered_json::array();
  for (const T& item : from) out.push_back(make(item));
  return out;
}

const char* end_name(SimRun::End end) {
  switch (end) {
    case SimRun::kComplete:
      return "complete";
    case SimRun::kInterrupted:
      return "interrupted";
    case SimRun::kStuck:
      return "stuck";
  }
  return "";
}

}  // namespace

ordered_json summary_json(const SimRun& run) {
  const scenario::Scenario& scenario = run.experiment->scenario();
  const sim::Summary& summary = run.summary;
  ordered_json out = {{"name", scenario.name},
                      {"description", scenario.description},
                      {"file", scenario.file},
                      {"seed", scenario.seed}};
  ordered_json changes = ordered_json::object();
  for (const scenario::Override& change : run.overrides) changes[change.key] = change.value;
  out["set"] = changes;
  out["end"] = end_name(run.end);
  out["trace"] = fmt::format("{:016x}", run.experiment->network().trace_hash());
  ordered_json values = ordered_json::object();
  for (const sim::Value& value : summary.values) values[value.name] = value.value;
  out["values"] = values;
  out["all"] = class_json(summary.all);
  out["sizes"] = list(summary.sizes, class_json);
  out["groups"] = list(summary.groups, class_json);
  out["ports"] = list(summary.ports, port_json);
  out["pauses"] = list(summary.pauses, pause_json);
  ordered_json drops = ordered_json::object();
  for (const sim::DropRow& row : summary.drops) drops[row.cause] = row.frames;
  out["drops"] = drops;
  out["pause_trees"] = list(summary.pause_trees, tree_json);
  out["findings"] = summary.findings;
  out["expectations"] = scenario.expectations.size();
  out["unmet"] = run.unmet;
  out["wall_s"] = run.wall_s;
  out["cpu_s"] = run.cpu_s;
  return out;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace verbena::tools
