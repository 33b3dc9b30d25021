// What must hold of a fabric that has run; see fabric_world.h.
#include <fmt/format.h>

#include "fabric_world.h"
#include "sim/experiment.h"

namespace verbena::sim::test {

namespace {

using fabric::Time;
using Complain = std::function<void(std::string)>;

// Which drops a plan allows in its lossless classes.
bool may_drop(const FabricPlan& plan, fabric::DropCause cause) {
  using enum fabric::DropCause;
  if (!plan.lossless) return true;
  if (plan.links_fail && (cause == kLinkDown || cause == kNoRoute || cause == kTtl)) return true;
  return plan.watched && cause == kWatchdog;
}

// Each port of the ring waits for one of the node behind it.
void check_deadlocks(const Experiment& experiment, const FabricPlan& plan,
                     const Complain& complain) {
  if (!plan.may_deadlock && !plan.links_fail && !experiment.deadlocks().empty())
    complain("a deadlock without a cycle of routes");
  for (const fabric::Deadlock& deadlock : experiment.deadlocks())
    for (size_t i = 0; i < deadlock.cycle.size(); ++i) {
      const fabric::Network& network = experiment.network();
      fabric::PortId next = deadlock.cycle[(i + 1) % deadlock.cycle.size()];
      if (network.port(network.port(deadlock.cycle[i]).peer).node != network.port(next).node)
        complain(fmt::format("the deadlock's {} does not lead to {}",
                             experiment.port_name(deadlock.cycle[i]), experiment.port_name(next)));
    }
}

// Where no path changes and nothing is lost, nobody misses a packet.
void check_order(Experiment& experiment, const FabricPlan& plan, const Complain& complain) {
  if (!plan.lossless || !plan.ordered || plan.links_fail || plan.watched) return;
  for (uint32_t h = 0; h < experiment.network().hosts(); ++h) {
    engine::Counters counters = experiment.adapter(h).device().total_counters();
    if (counters.packet_seq_err + counters.implied_nak_seq_err + counters.out_of_sequence > 0)
      complain(fmt::format("host {}: {} NAKs, {} implied, {} packets out of sequence", h,
                           counters.packet_seq_err, counters.implied_nak_seq_err,
                           counters.out_of_sequence));
  }
}

void check_flows(const Experiment& experiment, const Complain& complain) {
  for (size_t i = 0; i < experiment.flows().size(); ++i) {
    const FlowResult& result = experiment.flows()[i];
    const scenario::Flow& flow = experiment.scenario().flows[i];
    if (result.end < 0)
      complain(fmt::format("flow {} (h{} to h{}, {} bytes) did not end: {}", i, flow.source,
                           flow.destination, flow.bytes, engine::name(result.status)));
    else if (result.received < flow.bytes)
      complain(fmt::format("flow {} ended with {} of {} bytes", i, result.received, flow.bytes));
    else if (result.completions != result.posted)
      complain(fmt::format("flow {}: {} work requests, {} completions", i, result.posted,
                           result.completions));
    if (result.end >= 0 && result.alone > 0 && result.slowdown() < 0.97)
      complain(fmt::format("flow {} was faster than alone: {}", i, result.slowdown()));
  }
  for (const std::string& text : experiment.payload().complaints) complain(text);
  uint64_t checked = 0;
  for (const scenario::Flow& flow : experiment.scenario().flows) checked += flow.bytes;
  if (experiment.scenario().hosts[0].adapter.payload &&
      experiment.payload().checked_bytes != checked)
    complain(
        fmt::format("{} of {} bytes were compared", experiment.payload().checked_bytes, checked));
}

// Pauses sent are pauses received, and end; storms and dead links are another matter.
void check_pauses(const Experiment& experiment, const FabricPlan& plan, fabric::PortId id,
                  const Complain& complain) {
  const fabric::Network& network = experiment.network();
  const fabric::Port& port = network.port(id);
  const fabric::Port& peer = network.port(port.peer);
  std::string name = experiment.port_name(id);
  if (port.paused != 0 || port.pausing != 0) complain(fmt::format("{} is paused", name));
  if (plan.links_fail) return;
  auto storms = [&](const fabric::Port& end) {
    return end.is_host && static_cast<int>(end.node) == plan.storm_host;
  };
  for (uint32_t p = 0; p < fabric::kPriorities; ++p) {
    const auto& sent = port.counters.priority[p];
    const auto& got = peer.counters.priority[p];
    if (sent.tx_pause != got.rx_pause || sent.tx_resume != got.rx_resume)
      complain(fmt::format("{} priority {}: pauses sent and received differ", name, p));
    if (sent.tx_pause > 0 && sent.tx_resume == 0 && !storms(port))
      complain(fmt::format("{} priority {}: stopped and never let go", name, p));
    if (sent.expired > 0 && !storms(peer)) complain(fmt::format("{}: a pause expired", name));
  }
}

void check_ports(const Experiment& experiment, const FabricPlan& plan, const Complain& complain) {
  const fabric::Network& network = experiment.network();
  if (network.packets_inside() != 0)
    complain(fmt::format("{} frames are still inside", network.packets_inside()));
  for (fabric::PortId id = 0; id < network.ports(); ++id) {
    const fabric::Port& port = network.port(id);
    std::string name = experiment.port_name(id);
    if (port.queued_bytes() != 0) complain(fmt::format("{} holds bytes", name));
    check_pauses(experiment, plan, id, complain);
    for (uint32_t cause = 0; cause < fabric::kDropCauses; ++cause)
      if (uint64_t drops = port.counters.drops[cause];
          drops > 0 && !may_drop(plan, static_cast<fabric::DropCause>(cause)))
        complain(fmt::format("{} dropped {} frames: {}", name, drops,
                             fabric::name(static_cast<fabric::DropCause>(cause))));
  }
  for (uint32_t s = 0; s < network.switches(); ++s) {
    const fabric::SharedBuffer& buffer = network.switch_at(s).buffer();
    if (buffer.used() != 0 || buffer.shared_used() != 0)
      complain(fmt::format("switch {} counts {} bytes", s, buffer.used()));
    if (buffer.most_used() > experiment.scenario().switches[s].buffer_bytes)
      complain(fmt::format("switch {} held more than its buffer", s));
  }
}

void count(const Experiment& experiment, FabricOutcome& outcome) {
  const fabric::Network& network = experiment.network();
  outcome.hash = network.trace_hash();
  outcome.deadlocked = !experiment.deadlocks().empty();
  for (fabric::PortId id = 0; id < network.ports(); ++id)
    for (uint64_t drops : network.port(id).counters.drops) outcome.drops += drops;
  for (uint32_t s = 0; s < network.switches(); ++s)
    for (const fabric::WatchdogEvent& event : network.switch_at(s).watchdog_events())
      outcome.storms += event.storm;
}

}  // namespace

FabricOutcome run_fabric(const FabricPlan& plan) {
  constexpr Time kLongest = 4 * fabric::kSecond, kDrain = 20 * fabric::kMillisecond;
  FabricOutcome outcome;
  std::vector<std::string>& wrong = outcome.wrong;
  Complain complain = [&](std::string text) {
    if (wrong.size() < 10) wrong.push_back(std::move(text));
  };
  auto scenario = scenario::parse_scenario("world", plan.text, {});
  if (!scenario) {
    complain(scenario.error().message);
    return outcome;
  }
  Experiment experiment(*scenario);
  bool ended = experiment.run(kLongest);
  check_deadlocks(experiment, plan, complain);
  check_order(experiment, plan, complain);
  count(experiment, outcome);
  // What a deadlock holds stays where it is.
  if (outcome.deadlocked) return outcome;
  if (!ended) complain("it did not end in 4 s of its time");
  check_flows(experiment, complain);
  experiment.network().run(experiment.network().now() + kDrain);
  check_ports(experiment, plan, complain);
  for (uint32_t h = 0; h < experiment.network().hosts(); ++h)
    if (experiment.adapter(h).device().next_deadline() != kNever)
      complain(fmt::format("host {} still has a timer", h));
  outcome.hash = experiment.network().trace_hash();
  return outcome;
}

}  // namespace verbena::sim::test
