// What came out of a run, as numbers under names: the tables people read, the keys that a
// scenario's [expect] may use, the values that sweeps compare and files carry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/experiment.h"

namespace verbena::sim {

struct Value {
  std::string name;  // "fct_p99_us"
  double value = 0;
  std::string unit;
  std::string help;
};

// Flows of one size class (bytes in (more_than, at_most]) or of one group.
struct FlowClass {
  std::string name;
  uint64_t flows = 0, done = 0;
  double fct_mean_us = 0, fct_p50_us = 0, fct_p95_us = 0, fct_p99_us = 0;
  double slowdown_p50 = 0, slowdown_p95 = 0, slowdown_p99 = 0, slowdown_mean = 0;
  double goodput_gbps = 0;               // of all of them together, while they ran
  std::vector<double> fct_us, slowdown;  // of those that are done, sorted
};

struct PortRow {
  fabric::PortId port = 0;
  std::string name;
  double use = 0;  // share of the time it was sending
  double queue_mean = 0, queue_deviation = 0;
  uint64_t queue_p50 = 0, queue_p99 = 0, queue_max = 0;  // bytes; max also between samples
  uint64_t marks = 0, drops = 0;
  uint64_t tx_pause = 0, rx_pause = 0;
  double paused_us = 0;  // longest priority
};

// Frames that were dropped for one reason, over all ports.
struct DropRow {
  std::string cause;
  uint64_t frames = 0;
};

// PFC of one priority of one port, where there was any.
struct PauseRow {
  fabric::PortId port = 0;
  std::string name;
  uint32_t priority = 0;
  uint64_t sent = 0, received = 0;  // frames that stop
  uint64_t expired = 0;             // pauses that ended by their quanta
  double paused_us = 0;             // it might not send
};

// One stop of a cascade: the ports whose pauses made it pause are its children.
struct PauseTree {
  std::string root;               // the port or host where it began
  bool host = false;              // it is a host that sent the pauses
  uint64_t stopped = 0;           // ports that were stopped on its account
  std::vector<std::string> path;  // from the root to the farthest port
};

struct Summary {
  std::vector<Value> values;
  FlowClass all;
  std::vector<FlowClass> sizes;
  std::vector<FlowClass> groups;
  std::vector<PortRow> ports;    // of switches, busiest queue first
  std::vector<DropRow> drops;    // the commonest cause first
  std::vector<PauseRow> pauses;  // the longest first
  std::vector<PauseTree> pause_trees;
  std::vector<std::string> findings;  // in words

  const Value* find(std::string_view name) const;
};

Summary summarise(const Experiment& experiment);

// `share` of 0..1 of sorted values, by the nearest rank.
double percentile(const std::vector<double>& sorted, double share);

// An Error for an expectation whose name no value has. Before the run, which takes its time.
Result<void> check_expectations(const Experiment& experiment);

// Expectations that did not come true, one sentence each.
std::vector<std::string> unmet(const scenario::Scenario& scenario, const Summary& summary);

}  // namespace verbena::sim
