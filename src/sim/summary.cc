// From counters and samples to named numbers; see summary.h. Findings in words are in findings.cc.
#include "sim/summary.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/nearest.h"
#include "sim/findings.h"

namespace verbena::sim {

using fabric::PortId;
using fabric::Time;

namespace {

constexpr double kPsPerUs = 1e6;

struct SizeClass {
  const char* name;
  uint64_t at_most;
};
// Those of the reference runs.
constexpr SizeClass kSizes[] = {{"<= 10 KB", 10'000},
                                {"10 - 100 KB", 100'000},
                                {"100 KB - 1 MB", 1'000'000},
                                {"1 - 10 MB", 10'000'000},
                                {"> 10 MB", UINT64_MAX}};

FlowClass describe(const Experiment& experiment, std::string name,
                   const std::vector<uint32_t>& flows) {
  FlowClass out;
  out.name = std::move(name);
  out.flows = flows.size();
  std::vector<double> times, slow;
  double bytes = 0;
  Time first = fabric::kForever, last = 0;
  for (uint32_t i : flows) {
    const FlowResult& flow = experiment.flows()[i];
    if (flow.start < 0) continue;
    bytes += static_cast<double>(flow.received - flow.received_warm);
    first = std::min(first, std::max(flow.start, experiment.scenario().warm_up));
    last = std::max(last, flow.end >= 0 ? flow.end : experiment.network().now());
    if (flow.end < 0) continue;
    ++out.done;
    times.push_back(static_cast<double>(flow.end - flow.start) / kPsPerUs);
    if (flow.alone > 0) slow.push_back(flow.slowdown());
  }
  std::sort(times.begin(), times.end());
  std::sort(slow.begin(), slow.end());
  auto mean = [](const std::vector<double>& of) {
    double sum = 0;
    for (double v : of) sum += v;
    return of.empty() ? 0 : sum / static_cast<double>(of.size());
  };
  out.fct_mean_us = mean(times);
  out.fct_p50_us = percentile(times, 0.50);
  out.fct_p95_us = percentile(times, 0.95);
  out.fct_p99_us = percentile(times, 0.99);
  out.slowdown_mean = mean(slow);
  out.slowdown_p50 = percentile(slow, 0.50);
  out.slowdown_p95 = percentile(slow, 0.95);
  out.slowdown_p99 = percentile(slow, 0.99);
  if (last > first) out.goodput_gbps = bytes * 8e3 / static_cast<double>(last - first);
  out.fct_us = std::move(times);
  out.slowdown = std::move(slow);
  return out;
}

// Jain's index of what flows that are alike received (Jain, Chiu, Hawe 1984).
double jain_index(const Experiment& experiment) {
  double sum = 0, squares = 0, count = 0;
  for (const FlowResult& flow : experiment.flows()) {
    double bytes = static_cast<double>(flow.received - flow.received_warm);
    Time end = flow.end >= 0 ? flow.end : experiment.network().now();
    Time since = std::max(flow.start, experiment.scenario().warm_up);
    if (flow.start < 0 || end <= since) continue;
    double rate = bytes / static_cast<double>(end - since);
    sum += rate;
    squares += rate * rate;
    count += 1;
  }
  return squares > 0 ? sum * sum / (count * squares) : 1;
}

PortRow describe_port(const Experiment& experiment, PortId id) {
  const fabric::Port& port = experiment.network().port(id);
  const PortSeries& series = experiment.samples().ports[id];
  PortRow row;
  row.port = id;
  row.name = experiment.port_name(id);
  Time now = std::max<Time>(1, experiment.network().now());
  row.use = static_cast<double>(port.counters.busy) / static_cast<double>(now);
  row.queue_mean = series.mean();
  row.queue_deviation = series.deviation();
  row.queue_p50 = series.percentile(0.5);
  row.queue_p99 = series.percentile(0.99);
  for (uint64_t most : port.counters.most_bytes) row.queue_max = std::max(row.queue_max, most);
  for (uint64_t marks : port.counters.marks) row.marks += marks;
  for (uint64_t drops : port.counters.drops) row.drops += drops;
  for (const fabric::PriorityCounters& priority : port.counters.priority) {
    row.tx_pause += priority.tx_pause;
    row.rx_pause += priority.rx_pause;
    row.paused_us = std::max(row.paused_us, static_cast<double>(priority.paused) / kPsPerUs);
  }
  return row;
}

std::vector<DropRow> describe_drops(const fabric::Network& network) {
  std::vector<DropRow> out(fabric::kDropCauses);
  for (uint32_t cause = 0; cause < fabric::kDropCauses; ++cause) {
    out[cause].cause = fabric::name(static_cast<fabric::DropCause>(cause));
    for (PortId id = 0; id < network.ports(); ++id)
      out[cause].frames += network.port(id).counters.drops[cause];
  }
  std::erase_if(out, [](const DropRow& row) { return row.frames == 0; });
  std::stable_sort(out.begin(), out.end(),
                   [](const DropRow& a, const DropRow& b) { return a.frames > b.frames; });
  return out;
}

std::vector<PauseRow> describe_pauses(const Experiment& experiment) {
  std::vector<PauseRow> out;
  for (PortId id = 0; id < experiment.network().ports(); ++id) {
    const fabric::Port& port = experiment.network().port(id);
    for (uint32_t p = 0; p < fabric::kPriorities; ++p) {
      const fabric::PriorityCounters& counters = port.counters.priority[p];
      if (counters.tx_pause == 0 && counters.rx_pause == 0) continue;
      out.push_back({id, experiment.port_name(id), p, counters.tx_pause, counters.rx_pause,
                     counters.expired, static_cast<double>(counters.paused) / kPsPerUs});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const PauseRow& a, const PauseRow& b) { return a.paused_us > b.paused_us; });
  return out;
}

struct Totals {
  uint64_t drops = 0, lossless_drops = 0, marks = 0, tx_pause = 0, tx_resume = 0, expired = 0;
  Time paused = 0;
  uint64_t host_pauses = 0, storms = 0, queue_max = 0;
  double use_max = 0;
};

Totals sum_ports(const Experiment& experiment) {
  Totals out;
  const fabric::Network& network = experiment.network();
  for (PortId id = 0; id < network.ports(); ++id) {
    const fabric::Port& port = network.port(id);
    for (uint64_t drops : port.counters.drops) out.drops += drops;
    out.lossless_drops += port.counters.lossless_drops;
    for (uint64_t marks : port.counters.marks) out.marks += marks;
    for (uint64_t most : port.counters.most_bytes) out.queue_max = std::max(out.queue_max, most);
    for (const fabric::PriorityCounters& priority : port.counters.priority) {
      out.tx_pause += priority.tx_pause;
      out.tx_resume += priority.tx_resume;
      out.expired += priority.expired;
      out.paused += priority.paused;
      if (port.is_host) out.host_pauses += priority.tx_pause;
    }
    if (!port.is_host)
      out.use_max =
          std::max(out.use_max, static_cast<double>(port.counters.busy) /
                                    static_cast<double>(std::max<Time>(1, network.now())));
  }
  for (uint32_t s = 0; s < network.switches(); ++s)
    for (const fabric::WatchdogEvent& event : network.switch_at(s).watchdog_events())
      out.storms += event.storm;
  return out;
}

// The port with the longest queue on average; hosts have no samples.
const PortSeries& fullest_port(const Experiment& experiment) {
  return *std::max_element(
      experiment.samples().ports.begin(), experiment.samples().ports.end(),
      [](const PortSeries& a, const PortSeries& b) { return a.mean() < b.mean(); });
}

void add_engine_values(const Experiment& experiment, std::vector<Value>& values) {
  engine::Counters total;
  uint64_t cnps = 0;
  auto* sums = reinterpret_cast<uint64_t*>(&total);
  for (uint32_t h = 0; h < experiment.network().hosts(); ++h) {
    engine::Counters counters = experiment.adapter(h).device().total_counters();
    const auto* from = reinterpret_cast<const uint64_t*>(&counters);
    for (int i = 0; i < engine::kCounterCount; ++i) sums[i] += from[i];
    cnps += experiment.adapter(h).counters().cnps;
  }
  auto add = [&](const char* name, uint64_t value, const char* help) {
    values.push_back({name, static_cast<double>(value), "", help});
  };
  add("cnps", cnps, "CNPs sent by receivers");
  add("cnps_handled", total.rp_cnp_handled, "CNPs that reached a sender");
  add("ecn_received", total.np_ecn_marked_roce_packets, "packets that arrived with CE");
  add("naks", total.packet_seq_err, "PSN sequence NAKs received");
  add("timeouts", total.local_ack_timeout_err, "acknowledgement timeouts");
  add("out_of_sequence", total.out_of_sequence, "packets ahead of the expected PSN");
  add("rnr_naks", total.rcvd_rnr_err, "RNR NAKs received");
  add("payload_checked_bytes", experiment.payload().checked_bytes,
      "bytes that the memory oracle compared");
  add("payload_errors", experiment.payload().errors, "messages with wrong bytes");
}

}  // namespace

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  auto rank = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[rank];
}

const Value* Summary::find(std::string_view name) const {
  for (const Value& value : values)
    if (value.name == name) return &value;
  return nullptr;
}

namespace {

void add_flow_values(const Experiment& experiment, const FlowClass& all,
                     std::vector<Value>& values) {
  uint64_t failed = 0;
  for (const FlowResult& flow : experiment.flows()) failed += flow.failed;
  values.push_back({"flows", static_cast<double>(all.flows), "", "flows of the scenario"});
  values.push_back({"flows_done", static_cast<double>(all.done), "", "flows that ended"});
  values.push_back({"flows_failed", static_cast<double>(failed), "", "flows that ended in error"});
  values.push_back({"goodput_gbps", all.goodput_gbps, "Gb/s", "payload received, all flows"});
  values.push_back({"fct_mean_us", all.fct_mean_us, "us", "mean flow completion time"});
  values.push_back({"fct_p50_us", all.fct_p50_us, "us", "median flow completion time"});
  values.push_back(
      {"fct_p95_us", all.fct_p95_us, "us", "95th percentile of flow completion times"});
  values.push_back(
      {"fct_p99_us", all.fct_p99_us, "us", "99th percentile of flow completion times"});
  values.push_back({"slowdown_mean", all.slowdown_mean, "",
                    "mean slowdown: completion time over the time alone"});
  values.push_back({"slowdown_p50", all.slowdown_p50, "", "median slowdown"});
  values.push_back({"slowdown_p95", all.slowdown_p95, "", "95th percentile of slowdowns"});
  values.push_back({"slowdown_p99", all.slowdown_p99, "", "99th percentile of slowdowns"});
  values.push_back({"jain", jain_index(experiment), "", "Jain's fairness index of goodputs"});
}

void add_fabric_values(const Experiment& experiment, std::vector<Value>& values) {
  Totals totals = sum_ports(experiment);
  const fabric::Network& network = experiment.network();
  auto add = [&](const char* name, double value, const char* unit, const char* help) {
    values.push_back({name, value, unit, help});
  };
  auto count = [&](const char* name, uint64_t value, const char* help) {
    add(name, static_cast<double>(value), "", help);
  };
  count("drops", totals.drops, "frames dropped, any cause");
  count("lossless_drops", totals.lossless_drops, "frames dropped in lossless classes");
  count("ce_marks", totals.marks, "packets marked CE by switches");
  count("pause_frames", totals.tx_pause, "PFC frames that stop, by priority");
  count("resume_frames", totals.tx_resume, "PFC frames that let go, by priority");
  count("pauses_expired", totals.expired, "pauses that ended by their quanta");
  count("host_pause_frames", totals.host_pauses, "PFC frames sent by hosts");
  add("pause_time_us", static_cast<double>(totals.paused) / kPsPerUs, "us",
      "time paused, over all ports and priorities");
  add("queue_max_bytes", static_cast<double>(totals.queue_max), "bytes", "longest queue");
  const PortSeries& fullest = fullest_port(experiment);
  add("queue_mean_bytes", fullest.mean(), "bytes", "mean queue of the port where it is longest");
  add("queue_p99_bytes", static_cast<double>(fullest.percentile(0.99)), "bytes",
      "99th percentile of that port's queue");
  add("link_use_max", totals.use_max, "", "busiest switch port");
  count("deadlocks", experiment.deadlocks().size(), "cycles of pauses that did not move");
  count("watchdog_storms", totals.storms, "times a watchdog fired");
  add("time_us", static_cast<double>(network.now()) / kPsPerUs, "us", "simulated time");
  count("packet_hops", network.packet_hops(), "frames sent over a link, PFC apart");
  count("events", network.events(), "events of the simulation");
}

}  // namespace

Summary summarise(const Experiment& experiment) {
  Summary out;
  std::vector<uint32_t> all;
  std::map<std::string, std::vector<uint32_t>> groups;
  std::vector<std::vector<uint32_t>> sizes(std::size(kSizes));
  for (uint32_t i = 0; i < experiment.flows().size(); ++i) {
    const scenario::Flow& flow = experiment.scenario().flows[i];
    all.push_back(i);
    if (!flow.group.empty()) groups[flow.group].push_back(i);
    size_t size = 0;
    while (flow.bytes > kSizes[size].at_most) ++size;
    if (flow.bytes != scenario::kEndless) sizes[size].push_back(i);
  }
  for (size_t s = 0; s < sizes.size(); ++s)
    if (!sizes[s].empty()) out.sizes.push_back(describe(experiment, kSizes[s].name, sizes[s]));
  for (const auto& [name, flows] : groups) out.groups.push_back(describe(experiment, name, flows));
  out.all = describe(experiment, "all", all);
  add_flow_values(experiment, out.all, out.values);
  add_fabric_values(experiment, out.values);
  add_engine_values(experiment, out.values);
  for (PortId id = 0; id < experiment.network().ports(); ++id)
    if (!experiment.network().port(id).is_host) out.ports.push_back(describe_port(experiment, id));
  std::stable_sort(out.ports.begin(), out.ports.end(),
                   [](const PortRow& a, const PortRow& b) { return a.queue_max > b.queue_max; });
  out.drops = describe_drops(experiment.network());
  out.pauses = describe_pauses(experiment);
  out.pause_trees = pause_trees(experiment);
  out.findings = findings(experiment, out);
  return out;
}

Result<void> check_expectations(const Experiment& experiment) {
  const scenario::Scenario& scenario = experiment.scenario();
  if (scenario.expectations.empty()) return {};
  const Summary summary = summarise(experiment);
  std::vector<std::string_view> names;
  for (const Value& value : summary.values) names.emplace_back(value.name);
  for (const scenario::Expectation& expected : scenario.expectations) {
    if (summary.find(expected.key)) continue;
    constexpr size_t kMostSlips = 3;
    const Nearest nearest = nearest_word(expected.key, names);
    return fail(EINVAL, fmt::format("{}:{}: expect.{}: no value has this name; {}", scenario.file,
                                    expected.line, expected.key,
                                    nearest.slips <= kMostSlips
                                        ? fmt::format("did you mean {}?", nearest.word)
                                        : fmt::format("they are {}", fmt::join(names, ", "))));
  }
  return {};
}

std::vector<std::string> unmet(const scenario::Scenario& scenario, const Summary& summary) {
  std::vector<std::string> out;
  for (const scenario::Expectation& expected : scenario.expectations) {
    const Value* value = summary.find(expected.key);
    if (!value || value->value < expected.least || value->value > expected.most)
      out.push_back(fmt::format("{}:{}: expected {} {}, it is {:g}", scenario.file, expected.line,
                                expected.key, expected.text, value ? value->value : 0));
  }
  return out;
}

}  // namespace verbena::sim
