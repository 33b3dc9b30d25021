// A scenario run from beginning to end: the fabric built from it, an adapter on every host, its
// flows as work requests of queue pairs, and what came out as numbers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/deadlock.h"
#include "fabric/network.h"
#include "scenario/scenario.h"
#include "sim/adapter.h"
#include "sim/flow_memory.h"
#include "sim/samples.h"

namespace verbena::sim {

struct FlowResult {
  fabric::Time start = -1;               // -1: not begun
  fabric::Time end = -1;                 // -1: not ended
  fabric::Time alone = 0;                // what it would take on an empty fabric
  uint64_t received = 0;                 // payload bytes at its destination, each once
  uint32_t posted = 0, completions = 0;  // work requests
  uint64_t received_warm = 0;            // of them before the warm-up ended
  engine::WcStatus status = engine::WcStatus::kSuccess;
  bool failed = false;
  double slowdown() const {
    return end < 0 || alone == 0 ? 0
                                 : static_cast<double>(end - start) / static_cast<double>(alone);
  }
};

// Settings that a scenario may have and no adapter acts on yet: an Error names the first. What a
// run leaves out silently would be taken for a result.
Result<void> check_supported(const scenario::Scenario& scenario);

class Experiment {
 public:
  explicit Experiment(const scenario::Scenario& scenario);
  ~Experiment();
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  // Runs to the scenario's end, or until `until`. True: it is over.
  bool run(fabric::Time until = fabric::kForever);
  // Ends it here: what ran so far is the result.
  void close();

  const scenario::Scenario& scenario() const { return scenario_; }
  fabric::Network& network() { return network_; }
  const fabric::Network& network() const { return network_; }
  Adapter& adapter(uint32_t host) { return *adapters_[host]; }
  const Adapter& adapter(uint32_t host) const { return *adapters_[host]; }
  const std::vector<FlowResult>& flows() const { return results_; }
  const Samples& samples() const { return samples_; }
  // With `payload`: what the memory oracle has seen.
  const PayloadVerdict& payload() const { return verdict_; }
  const std::vector<fabric::Deadlock>& deadlocks() const { return deadlocks_; }
  uint64_t flows_done() const { return done_; }
  // When the last byte of payload reached a host.
  fabric::Time last_progress() const { return last_progress_; }
  // Flows whose time to begin has not come yet, though nothing else holds them.
  bool waits_to_begin() const { return next_start_ < starts_.size() || delayed_ > 0; }
  // Flows that an adapter had no queue pair for.
  uint64_t refused() const { return refused_; }
  // Names for people: "leaf0:3 -> spine1".
  std::string port_name(fabric::PortId port) const;

 private:
  struct Live;  // a flow under way

  void build();
  void plan();
  void start_due();
  void start(uint32_t flow);
  bool open(Live& live);
  void close(Live& live);
  void post(Live& live);
  bool with_payload() const;
  uint64_t work_bytes() const;
  FlowMemory::Places places(Live& live, uint32_t length);
  void check_payload(const engine::WorkCompletion& completion);
  void complete(const engine::WorkCompletion& completion);
  void finish(uint32_t flow, engine::WcStatus status);
  void settle(uint32_t flow, engine::WcStatus status);
  void end_warm_up();
  void connect(engine::QueuePair& own, const Live& live, bool source);
  void sample();
  void sample_ports(bool warm);
  void sample_flows();
  void look_for_deadlock();
  void collect_received(uint32_t flow);
  fabric::Time alone_time(const scenario::Flow& flow) const;

  const scenario::Scenario scenario_;
  fabric::Network network_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::vector<FlowResult> results_;
  PayloadVerdict verdict_;
  std::vector<std::unique_ptr<Live>> live_;
  std::vector<std::vector<uint32_t>> followers_;  // flows that wait for this one
  std::vector<uint32_t> waits_for_;               // how many each still waits for
  std::vector<uint32_t> starts_;                  // flows that wait for none, by start
  size_t next_start_ = 0;
  size_t delayed_ = 0;  // followers that wait only for their time
  uint64_t refused_ = 0;
  Samples samples_;
  fabric::DeadlockWatch deadlock_watch_;
  std::vector<fabric::Deadlock> deadlocks_;
  uint64_t done_ = 0;
  uint64_t received_before_ = 0;
  fabric::Time last_progress_ = 0;
  bool over_ = false;
};

}  // namespace verbena::sim
