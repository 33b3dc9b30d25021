// Snapshot to text, JSON and Prometheus. Programs' names come from other processes and are escaped.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/counters.h"
#include "tools/stats_snapshot.h"

namespace verbena::tools {
namespace {

uint64_t value_of(const std::vector<Counter>* list, const std::string& name) {
  if (list == nullptr) return 0;
  for (const Counter& counter : *list)
    if (counter.name == name) return counter.value;
  return 0;
}

// Printable ASCII only: a terminal must not obey a program's name.
std::string plain(const std::string& text) {
  std::string out;
  for (unsigned char c : text) out += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  return out;
}

const ProcessStats* same_process(const Snapshot* before, const ProcessStats& process) {
  if (before == nullptr) return nullptr;
  for (const ProcessStats& old : before->processes)
    if (old.slot == process.slot && old.pid == process.pid) return &old;
  return nullptr;
}

const QpStats* same_queue_pair(const ProcessStats* before, const QpStats& qp) {
  if (before == nullptr) return nullptr;
  for (const QpStats& old : before->queue_pairs)
    if (old.qpn == qp.qpn && old.peer_qpn == qp.peer_qpn) return &old;
  return nullptr;
}

std::string counters_text(const std::vector<Counter>& counters, const std::vector<Counter>* before,
                          double seconds) {
  std::string out;
  for (const Counter& counter : counters) {
    if (counter.value == 0) continue;
    out += fmt::format("    {:<28} {:>16}", plain(counter.name), counter.value);
    if (before != nullptr && seconds > 0) {
      const uint64_t old = value_of(before, counter.name);
      const double grown = counter.value > old ? static_cast<double>(counter.value - old) : 0;
      out += fmt::format(" {:>14.0f}/s", grown / seconds);
    }
    out += "\n";
  }
  return out;
}

nlohmann::ordered_json counters_json(const std::vector<Counter>& counters) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Counter& counter : counters) out[counter.name] = counter.value;
  return out;
}

nlohmann::ordered_json process_json(const ProcessStats& process) {
  nlohmann::ordered_json out;
  out["slot"] = process.slot;
  out["pid"] = process.pid;
  out["uid"] = process.uid;
  out["program"] = process.program;
  out["counters"] = counters_json(process.device);
  out["queue_pairs"] = nlohmann::ordered_json::array();
  for (const QpStats& qp : process.queue_pairs) {
    nlohmann::ordered_json entry;
    entry["qpn"] = qp.qpn;
    entry["peer_qpn"] = qp.peer_qpn;
    entry["type"] = qp.type;
    entry["state"] = qp.state;
    entry["path"] = qp.path;
    entry["counters"] = counters_json(qp.counters);
    out["queue_pairs"].push_back(std::move(entry));
  }
  return out;
}

// A metric name may hold letters, digits and '_' only.
std::string metric_name(const char* prefix, const std::string& name) {
  std::string out = prefix;
  for (unsigned char c : name) out += c < 0x80 && std::isalnum(c) != 0 ? static_cast<char>(c) : '_';
  return out + "_total";
}

std::string label_value(const std::string& text) {
  std::string out;
  for (char c : plain(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string help_of(const std::string& name) {
  for (const engine::CounterInfo& info : engine::kCounterInfo)
    if (name == info.name) return fmt::format("{} ({})", info.help, info.unit);
  return name;
}

// Samples of one metric must stand together, so they are gathered by name first.
using Metrics = std::map<std::string, std::pair<std::string, std::vector<std::string>>>;

void add_samples(Metrics& metrics, const char* prefix, const std::vector<Counter>& counters,
                 const std::string& labels) {
  for (const Counter& counter : counters) {
    const std::string metric = metric_name(prefix, counter.name);
    auto& [help, samples] = metrics[metric];
    help = help_of(counter.name);
    samples.push_back(fmt::format("{}{{{}}} {}", metric, labels, counter.value));
  }
}

}  // namespace

std::string stats_text(const Snapshot& now, const Snapshot* before, double seconds) {
  if (now.processes.empty()) return "no RDMA process runs in this network namespace\n";
  std::string out;
  for (const ProcessStats& process : now.processes) {
    const ProcessStats* old = same_process(before, process);
    out += fmt::format("{}{} (pid {}, uid {}, slot {})\n", out.empty() ? "" : "\n",
                       plain(process.program), process.pid, process.uid, process.slot);
    out += counters_text(process.device, old != nullptr ? &old->device : nullptr, seconds);
    for (const QpStats& qp : process.queue_pairs) {
      const QpStats* old_qp = same_queue_pair(old, qp);
      out += fmt::format("  QP {:#08x} {} {}", qp.qpn, qp.type, qp.state);
      if (qp.peer_qpn != 0) out += fmt::format(" to {:#08x}, {}", qp.peer_qpn, qp.path);
      out += "\n" +
             counters_text(qp.counters, old_qp != nullptr ? &old_qp->counters : nullptr, seconds);
    }
  }
  return out;
}

std::string stats_json(const Snapshot& now) {
  nlohmann::ordered_json out;
  out["broker_pid"] = now.broker_pid;
  out["takeovers"] = now.takeovers;
  out["processes"] = nlohmann::ordered_json::array();
  for (const ProcessStats& process : now.processes)
    out["processes"].push_back(process_json(process));
  return out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::string stats_prometheus(const Snapshot& now) {
  Metrics metrics;
  for (const ProcessStats& process : now.processes) {
    const std::string labels = fmt::format("program=\"{}\",pid=\"{}\",slot=\"{}\"",
                                           label_value(process.program), process.pid, process.slot);
    add_samples(metrics, "verbena_", process.device, labels);
    for (const QpStats& qp : process.queue_pairs)
      add_samples(metrics, "verbena_qp_", qp.counters,
                  fmt::format("{},qpn=\"{:#08x}\",peer_qpn=\"{:#08x}\",type=\"{}\"", labels, qp.qpn,
                              qp.peer_qpn, qp.type));
  }
  std::string out = fmt::format(
      "# HELP verbena_processes RDMA processes of this network namespace\n"
      "# TYPE verbena_processes gauge\nverbena_processes {}\n",
      now.processes.size());
  for (const auto& [name, metric] : metrics) {
    out += fmt::format("# HELP {} {}\n# TYPE {} counter\n", name, metric.first, name);
    out += fmt::format("{}\n", fmt::join(metric.second, "\n"));
  }
  return out;
}

}  // namespace verbena::tools
