// What the report's page draws: the fabric with what each port did, lines over time, distributions.
// A line has at most as many points as a screen shows; what falls between them is not lost but
// counted: the largest queue, the mean rate.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/sim_json.h"

namespace verbena::tools {

using fabric::PortId;
using nlohmann::ordered_json;

namespace {

constexpr size_t kPoints = 600;
constexpr size_t kFlowPoints = 150;  // a flow's goodput is noise over the time of a few packets
constexpr size_t kQueueLines = 8;
constexpr size_t kPauseBars = 16;
constexpr size_t kCdfPoints = 200;

// Samples in groups of `step`, the last one perhaps shorter.
struct Steps {
  explicit Steps(size_t samples, size_t most = kPoints)
      : count(samples), step(std::max<size_t>(1, (samples + most - 1) / most)) {}
  size_t last(size_t point) const { return std::min(count, (point + 1) * step) - 1; }
  size_t points() const { return (count + step - 1) / step; }
  size_t count, step;
};

template <typename T>
ordered_json largest(const std::vector<T>& series, const Steps& steps) {
  ordered_json out = ordered_json::array();
  for (size_t p = 0; p < steps.points(); ++p) {
    T most{};
    for (size_t i = p * steps.step; i <= steps.last(p) && i < series.size(); ++i)
      most = std::max(most, series[i]);
    out.push_back(most);
  }
  return out;
}

// At the end of each point.
template <typename T>
ordered_json lasting(const std::vector<T>& series, const Steps& steps, double scale) {
  ordered_json out = ordered_json::array();
  for (size_t p = 0; p < steps.points(); ++p)
    out.push_back(static_cast<double>(series[steps.last(p)]) * scale);
  return out;
}

// Gb/s from bytes so far.
ordered_json rate(const std::vector<uint64_t>& series, const std::vector<fabric::Time>& at,
                  const Steps& steps) {
  ordered_json out = ordered_json::array();
  uint64_t bytes = 0;
  fabric::Time time = 0;
  for (size_t p = 0; p < steps.points(); ++p) {
    const size_t last = steps.last(p);
    const auto took = static_cast<double>(at[last] - time);
    out.push_back(took > 0 ? static_cast<double>(series[last] - bytes) * 8e3 / took : 0);
    bytes = series[last];
    time = at[last];
  }
  return out;
}

ordered_json node_list(const scenario::Topology& topology) {
  ordered_json out = ordered_json::array();
  for (const scenario::Node& node : topology.nodes)
    out.push_back({{"name", node.name}, {"tier", node.tier}, {"switch", node.is_switch}});
  return out;
}

// Thresholds of the first queue that marks.
void add_ecn(const fabric::Port& port, ordered_json& out) {
  if (port.settings == nullptr) return;
  for (const fabric::QueueSettings& queue : port.settings->queues) {
    if (!queue.ecn.mark) continue;
    out["kmin"] = queue.ecn.min_bytes;
    out["kmax"] = queue.ecn.max_bytes;
    return;
  }
}

ordered_json port_list(const SimRun& run) {
  const fabric::Network& network = run.experiment->network();
  const auto now = static_cast<double>(std::max<fabric::Time>(1, network.now()));
  ordered_json out = ordered_json::array();
  for (PortId id = 0; id < network.ports(); ++id) {
    const fabric::Port& port = network.port(id);
    uint64_t queue = 0, marks = 0, drops = 0, sent = 0, received = 0;
    fabric::Time paused = 0;
    for (uint64_t most : port.counters.most_bytes) queue = std::max(queue, most);
    for (uint64_t count : port.counters.marks) marks += count;
    for (uint64_t count : port.counters.drops) drops += count;
    for (const fabric::PriorityCounters& priority : port.counters.priority) {
      paused = std::max(paused, priority.paused);
      sent += priority.tx_pause;
      received += priority.rx_pause;
    }
    ordered_json entry = {{"name", run.experiment->port_name(id)},
                          {"node", port.node},
                          {"peer", port.peer},
                          {"gbps", static_cast<double>(port.link.bits_per_second) / 1e9},
                          {"use", static_cast<double>(port.counters.busy) / now},
                          {"queue", queue},
                          {"paused_us", static_cast<double>(paused) / kPsPerUs},
                          {"marks", marks},
                          {"drops", drops},
                          {"tx_pause", sent},
                          {"rx_pause", received}};
    add_ecn(port, entry);
    out.push_back(std::move(entry));
  }
  return out;
}

ordered_json queue_lines(const SimRun& run, const Steps& steps) {
  ordered_json out = ordered_json::array();
  for (const sim::PortRow& row : run.summary.ports) {
    if (out.size() == kQueueLines || row.queue_max == 0) break;
    const sim::PortSeries& series = run.experiment->samples().ports[row.port];
    out.push_back({{"port", row.port}, {"bytes", largest(series.queue_bytes, steps)}});
  }
  return out;
}

// Which queues of the ports that were paused longest were stopped, over time.
ordered_json pause_bars(const SimRun& run, const Steps& steps) {
  ordered_json out = ordered_json::array();
  std::vector<PortId> seen;
  for (const sim::PauseRow& row : run.summary.pauses) {
    if (seen.size() == kPauseBars || row.paused_us == 0) break;
    if (std::find(seen.begin(), seen.end(), row.port) != seen.end()) continue;
    seen.push_back(row.port);
    const sim::PortSeries& series = run.experiment->samples().ports[row.port];
    ordered_json shares = ordered_json::array();
    for (size_t p = 0; p < steps.points(); ++p) {
      size_t stopped = 0, all = 0;
      for (size_t i = p * steps.step; i <= steps.last(p); ++i, ++all)
        stopped += series.stopped[i] != 0;
      shares.push_back(static_cast<double>(stopped) / static_cast<double>(all));
    }
    out.push_back({{"port", row.port}, {"paused", std::move(shares)}});
  }
  return out;
}

std::string flow_name(const scenario::Scenario& scenario, uint32_t index) {
  const scenario::Flow& flow = scenario.flows[index];
  return fmt::format("{} > {}", scenario.topology.nodes[flow.source].name,
                     scenario.topology.nodes[flow.destination].name);
}

ordered_json flow_lines(const SimRun& run, const Steps& steps) {
  const sim::Samples& samples = run.experiment->samples();
  ordered_json out = ordered_json::array();
  std::map<std::string, int> times;  // that a name has come: rounds of a workload
  for (const sim::FlowSeries& series : samples.flows) {
    std::string name = flow_name(run.experiment->scenario(), series.flow);
    if (const int before = times[name]++; before > 0) name += fmt::format(" ({})", before + 1);
    out.push_back({{"name", name},
                   {"goodput", rate(series.received, samples.at, steps)},
                   {"rate", lasting(series.rates, steps, 1e-9)},
                   {"alpha", lasting(series.alphas, steps, 1)}});
  }
  return out;
}

// The value below which each share of them lies.
ordered_json distribution(const std::vector<double>& sorted) {
  ordered_json out = ordered_json::array();
  if (sorted.empty()) return out;
  const size_t points = std::min(sorted.size(), kCdfPoints);
  for (size_t p = 1; p <= points; ++p) {
    const size_t rank = p * sorted.size() / points;
    out.push_back(
        {sorted[rank - 1], static_cast<double>(rank) / static_cast<double>(sorted.size())});
  }
  return out;
}

ordered_json class_distributions(const sim::Summary& summary) {
  ordered_json out = ordered_json::array();
  auto add = [&](const sim::FlowClass& flows) {
    if (flows.done > 0)
      out.push_back({{"name", flows.name},
                     {"fct_us", distribution(flows.fct_us)},
                     {"slowdown", distribution(flows.slowdown)}});
  };
  for (const sim::FlowClass& flows : summary.sizes) add(flows);
  if (summary.groups.size() > 1)
    for (const sim::FlowClass& flows : summary.groups) add(flows);
  return out;
}

}  // namespace

ordered_json report_json(const SimRun& run) {
  const scenario::Scenario& scenario = run.experiment->scenario();
  const sim::Samples& samples = run.experiment->samples();
  const Steps steps(samples.at.size());
  ordered_json out = {{"kind", scenario.topology.kind}, {"nodes", node_list(scenario.topology)}};
  ordered_json links = ordered_json::array();
  for (const scenario::Link& link : scenario.topology.links) links.push_back({link.a, link.b});
  out["links"] = links;  // the ports of link i are 2 i at its first node and 2 i + 1
  out["ports"] = port_list(run);
  out["warm_up_us"] = static_cast<double>(scenario.warm_up) / kPsPerUs;
  if (!samples.at.empty()) {
    out["time_us"] = lasting(samples.at, steps, 1 / kPsPerUs);
    out["queues"] = queue_lines(run, steps);
    out["pauses"] = pause_bars(run, steps);
    const Steps flow_steps(samples.at.size(), kFlowPoints);
    out["flow_time_us"] = lasting(samples.at, flow_steps, 1 / kPsPerUs);
    out["flows"] = flow_lines(run, flow_steps);
    out["goodput"] = rate(samples.received_bytes, samples.at, steps);
    out["paused_ports"] = largest(samples.paused_ports, steps);
    out["rates"] = lasting(samples.rates, steps, 1e-9);
    out["alpha"] = lasting(samples.alphas, steps, 1);
  }
  out["distributions"] = class_distributions(run.summary);
  return out;
}

ordered_json comparison_json(const SimRun& run) {
  const sim::Samples& samples = run.experiment->samples();
  const Steps steps(samples.at.size());
  std::vector<uint32_t> longest(samples.at.size());
  for (const sim::PortSeries& port : samples.ports)
    for (size_t i = 0; i < port.queue_bytes.size(); ++i)
      longest[i] = std::max(longest[i], port.queue_bytes[i]);
  return {{"time_us", lasting(samples.at, steps, 1 / kPsPerUs)},
          {"queue", largest(longest, steps)},
          {"goodput", rate(samples.received_bytes, samples.at, steps)},
          {"fct_us", distribution(run.summary.all.fct_us)}};
}

}  // namespace verbena::tools
