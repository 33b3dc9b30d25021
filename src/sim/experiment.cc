// A run: building it, sampling while time passes, its end. Its flows are in experiment_flows.cc.
#include "sim/experiment.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/congestion/control.h"
#include "sim/live_flow.h"

namespace verbena::sim {

using fabric::PortId;
using fabric::Time;

namespace {

constexpr uint32_t kFrameOverhead = 62;  // Ethernet, IPv4, UDP, BTH, ICRC, FCS
constexpr Time kDeadlockLook = 100 * fabric::kMicrosecond;
constexpr size_t kMostDeadlocks = 64;

std::vector<uint32_t> largest_flows(const scenario::Scenario& scenario) {
  std::vector<uint32_t> flows(scenario.flows.size());
  std::iota(flows.begin(), flows.end(), 0);
  std::stable_sort(flows.begin(), flows.end(), [&](uint32_t a, uint32_t b) {
    return scenario.flows[a].bytes > scenario.flows[b].bytes;
  });
  if (flows.size() > kSampledFlows) flows.resize(kSampledFlows);
  std::sort(flows.begin(), flows.end());
  return flows;
}

}  // namespace

Result<void> check_supported(const scenario::Scenario& scenario) {
  for (uint32_t h = 0; h < scenario.hosts.size(); ++h) {
    const scenario::Adapter& adapter = scenario.hosts[h].adapter;
    const auto& nodes = scenario.topology.nodes;
    if (adapter.payload != scenario.hosts[0].adapter.payload)
      return fail(EINVAL, fmt::format("{}: payload of {} and {} differs; packets have real bytes"
                                      " on every host or on none",
                                      scenario.file, nodes[0].name, nodes[h].name));
  }
  for (const scenario::Flow& flow : scenario.flows) {
    if (flow.verb != scenario::Verb::kRead ||
        hears_marks(scenario.hosts[flow.destination].adapter.congestion))
      continue;
    return fail(EOPNOTSUPP,
                fmt::format("{}: {} answers a READ: nothing acknowledges READ responses, so swift "
                            "and hpcc cannot slow them; take dcqcn or none there, or write",
                            scenario.file, scenario.topology.nodes[flow.destination].name));
  }
  return {};
}

namespace {

// Wrong bytes are a failure whatever else is expected.
scenario::Scenario with_implied(scenario::Scenario scenario) {
  auto& expected = scenario.expectations;
  const char* key = "payload_errors";
  bool named = std::any_of(expected.begin(), expected.end(),
                           [&](const scenario::Expectation& e) { return e.key == key; });
  const auto line = scenario.lines.find("host.payload");
  if (!named && scenario.hosts[0].adapter.payload)
    expected.push_back({key, 0, 0, "0", line == scenario.lines.end() ? 0 : line->second});
  return scenario;
}

}  // namespace

Experiment::Experiment(const scenario::Scenario& scenario)
    : scenario_(with_implied(scenario)), network_(scenario.seed) {
  build();
  plan();
}

Experiment::~Experiment() = default;

// --- before time begins

void Experiment::build() {
  const scenario::Topology& topology = scenario_.topology;
  for (uint32_t h = 0; h < topology.hosts; ++h) network_.add_host(scenario_.hosts[h].port);
  for (const fabric::SwitchSettings& settings : scenario_.switches) network_.add_switch(settings);
  for (const scenario::Link& link : topology.links) network_.connect(link.a, link.b, link.settings);
  network_.finish();
  Prng seeds(scenario_.seed ^ 0x61646170746572ull);
  for (uint32_t h = 0; h < topology.hosts; ++h) {
    uint64_t rate = network_.port(network_.host_port(h)).link.bits_per_second;
    adapters_.push_back(
        std::make_unique<Adapter>(network_, h, scenario_.hosts[h], rate, seeds.next()));
    adapters_.back()->on_completion = [this](const auto& c) { complete(c); };
    network_.attach(h, adapters_.back().get());
  }
  for (uint32_t i = 0; i < topology.links.size(); ++i)
    for (const scenario::Link::Change& change : topology.links[i].changes)
      network_.at(change.at, [this, i, change] { network_.set_link(2 * i, change.up); });
}

void Experiment::plan() {
  const size_t count = scenario_.flows.size();
  results_.resize(count);
  live_.resize(count);
  followers_.resize(count);
  waits_for_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const scenario::Flow& flow = scenario_.flows[i];
    results_[i].alone = alone_time(flow);
    waits_for_[i] = static_cast<uint32_t>(flow.after.size());
    for (uint32_t before : flow.after) followers_[before].push_back(i);
    if (flow.after.empty()) starts_.push_back(i);
  }
  std::stable_sort(starts_.begin(), starts_.end(), [this](uint32_t a, uint32_t b) {
    return scenario_.flows[a].start < scenario_.flows[b].start;
  });
  if (!starts_.empty()) network_.at(scenario_.flows[starts_[0]].start, [this] { start_due(); });
  if (scenario_.warm_up > 0) network_.at(scenario_.warm_up, [this] { end_warm_up(); });
  samples_.interval = scenario_.sample;
  samples_.ports.resize(network_.ports());
  for (uint32_t flow : largest_flows(scenario_)) samples_.flows.push_back({flow, {}, {}, {}});
  if (samples_.interval > 0) network_.at(samples_.interval, [this] { sample(); });
  network_.at(kDeadlockLook, [this] { look_for_deadlock(); });
}

// What the flow would take alone: the delay there and back, all its bytes once at the adapter's
// rate, and a packet stored and forwarded at every further hop. The reference runs' formula, which
// `header_bytes` stands for, has a full packet without its headers at every hop, the first too.
Time Experiment::alone_time(const scenario::Flow& flow) const {
  if (flow.bytes == scenario::kEndless) return 0;
  const scenario::Adapter& adapter = scenario_.hosts[flow.source].adapter;
  const fabric::Port* port = &network_.port(network_.host_port(flow.source));
  uint64_t rate = port->link.bits_per_second;
  bool as_reference = adapter.header_bytes != 0;
  uint32_t overhead = as_reference ? adapter.header_bytes : kFrameOverhead + port->link.gap_bytes;
  uint64_t packets = std::max<uint64_t>(1, (flow.bytes + adapter.path_mtu - 1) / adapter.path_mtu);
  uint64_t packet =
      as_reference ? adapter.path_mtu : std::min<uint64_t>(adapter.path_mtu, flow.bytes) + overhead;
  Time alone = 0;
  auto serialised = [](uint64_t bytes, uint64_t bits_per_second) {
    return static_cast<Time>(static_cast<unsigned __int128>(bytes) * 8 * fabric::kSecond /
                             bits_per_second);
  };
  for (bool first = true;; first = false) {
    alone += 2 * port->link.delay;
    if (!first || as_reference) alone += serialised(packet, port->link.bits_per_second);
    const fabric::Port& peer = network_.port(port->peer);
    if (peer.is_host) break;
    const fabric::Switch& next = network_.switch_at(peer.node - network_.hosts());
    std::span<const uint16_t> ways = next.toward(flow.destination);
    if (ways.empty()) return 0;
    alone += 2 * next.settings().latency;
    port = &network_.port(next.ports()[ways[0]]);
  }
  return alone + serialised(flow.bytes + packets * overhead, rate);
}

// --- while time passes

void Experiment::sample_ports(bool warm) {
  uint32_t paused = 0;
  for (PortId id = 0; id < network_.ports(); ++id) {
    const fabric::Port& port = network_.port(id);
    paused += port.stopped != 0;
    PortSeries& series = samples_.ports[id];
    series.stopped.push_back(port.stopped);
    if (port.is_host) continue;
    series.queue_bytes.push_back(static_cast<uint32_t>(port.queued_bytes()));
    if (warm) series.skip = series.queue_bytes.size();
  }
  samples_.paused_ports.push_back(paused);
}

// What has arrived until now counts for nothing.
void Experiment::end_warm_up() {
  for (uint32_t i = 0; i < live_.size(); ++i) {
    collect_received(i);
    results_[i].received_warm = results_[i].received;
  }
}

void Experiment::sample_flows() {
  Instant now = fabric::instant(network_.now());
  uint64_t rates = 0;
  double alphas = 0;
  size_t flows = 0;
  for (uint32_t i = 0; i < live_.size(); ++i) {
    if (!live_[i]) continue;
    engine::CongestionControl* control = live_[i]->source->congestion();
    if (!control) continue;
    rates += control->rate(now);
    alphas += control->alpha(now);
    ++flows;
  }
  samples_.rates.push_back(rates);
  samples_.alphas.push_back(flows ? alphas / static_cast<double>(flows) : 0);
  for (FlowSeries& series : samples_.flows) {
    collect_received(series.flow);
    engine::CongestionControl* control =
        live_[series.flow] ? live_[series.flow]->source->congestion() : nullptr;
    series.received.push_back(results_[series.flow].received);
    series.rates.push_back(control ? control->rate(now) : 0);
    series.alphas.push_back(control ? static_cast<float>(control->alpha(now)) : 0);
  }
}

void Experiment::sample() {
  Time now = network_.now();
  if (samples_.full()) samples_.thin();
  bool warm = now <= scenario_.warm_up;
  uint64_t received = 0;
  for (const auto& adapter : adapters_) received += adapter->counters().data_bytes;
  if (received != received_before_) last_progress_ = now;
  received_before_ = received;
  samples_.at.push_back(now);
  samples_.received_bytes.push_back(received);
  sample_ports(warm);
  sample_flows();
  network_.at(now + samples_.interval, [this] { sample(); });
}

void Experiment::look_for_deadlock() {
  std::vector<PortId> cycle = deadlock_watch_.look(network_);
  bool known = std::any_of(deadlocks_.begin(), deadlocks_.end(), [&](const fabric::Deadlock& d) {
    return std::is_permutation(d.cycle.begin(), d.cycle.end(), cycle.begin(), cycle.end());
  });
  if (!cycle.empty() && !known && deadlocks_.size() < kMostDeadlocks)
    deadlocks_.push_back({network_.now(), std::move(cycle)});
  network_.at(network_.now() + kDeadlockLook, [this] { look_for_deadlock(); });
}

bool Experiment::run(Time until) {
  if (over_) return true;
  Time end = scenario_.duration == 0 ? fabric::kForever : scenario_.duration;
  network_.run(std::min(until, end));
  if (network_.now() >= end || over_) close();
  return over_;
}

void Experiment::close() {
  over_ = true;
  for (uint32_t i = 0; i < live_.size(); ++i) collect_received(i);
  network_.close_counters();
}

std::string Experiment::port_name(PortId id) const {
  const fabric::Port& port = network_.port(id);
  const fabric::Port& peer = network_.port(port.peer);
  const auto& nodes = scenario_.topology.nodes;
  return fmt::format("{}:{} -> {}", nodes[port.node].name, port.number, nodes[peer.node].name);
}

}  // namespace verbena::sim
