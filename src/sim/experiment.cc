// A run: building, flows from their first packet to their last acknowledgement, sampling.
#include "sim/experiment.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/congestion/control.h"

namespace verbena::sim {

using fabric::PortId;
using fabric::Time;

namespace {

constexpr uint32_t kMostWork = 4;  // work requests of a flow at once
constexpr uint64_t kWorkBytes = 1u << 30;
constexpr uint32_t kAtomicDepth = 16;
constexpr uint8_t kSendSlots = 4;
constexpr uint32_t kFrameOverhead = 62;  // Ethernet, IPv4, UDP, BTH, ICRC, FCS
constexpr Time kDeadlockLook = 100 * fabric::kMicrosecond;
constexpr size_t kMostDeadlocks = 64;

uint8_t mtu_code(uint32_t bytes) {
  uint8_t code = 1;
  while (engine::path_mtu_bytes(code) < bytes) ++code;
  return code;
}

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

// Swift goes by delays, HPCC by telemetry: a mark would cost a CNP that nobody obeys.
bool hears_marks(const engine::CongestionSettings& congestion) {
  return congestion.algorithm != engine::CongestionSettings::kSwift &&
         congestion.algorithm != engine::CongestionSettings::kHpcc;
}

}  // namespace

Result<void> check_supported(const scenario::Scenario& scenario) {
  for (uint32_t h = 0; h < scenario.hosts.size(); ++h) {
    const scenario::Adapter& adapter = scenario.hosts[h].adapter;
    const char* missing = nullptr;
    if (adapter.selective_repeat) missing = "selective_repeat";
    if (adapter.payload) missing = "payload";
    if (missing)
      return fail(EOPNOTSUPP, fmt::format("{}: {} of {}: adapters do not have it yet",
                                          scenario.file, missing, scenario.topology.nodes[h].name));
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

struct Experiment::Live {
  uint32_t flow = 0;
  engine::QueuePair* source = nullptr;
  engine::QueuePair* destination = nullptr;
  uint64_t posted = 0;  // payload bytes of work requests so far
  uint64_t completed = 0;
  uint32_t outstanding = 0;  // work requests
  bool over = false;         // what still completes is flushed
};

Experiment::Experiment(const scenario::Scenario& scenario)
    : scenario_(scenario), network_(scenario.seed) {
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

// --- flows

void Experiment::connect(engine::QueuePair& own, const Live& live, bool source) {
  using namespace engine;
  const scenario::Flow& flow = scenario_.flows[live.flow];
  uint32_t host = source ? flow.source : flow.destination;
  uint32_t peer = source ? flow.destination : flow.source;
  const scenario::Adapter& settings = scenario_.hosts[host].adapter;
  QpAttributes at;
  at.access = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead;
  at.route.source = fabric_gid(host);
  at.route.destination = fabric_gid(peer);
  at.route_is_global = true;
  uint8_t dscp = flow.dscp == 0xff ? settings.dscp : flow.dscp;
  bool ect = settings.ect && hears_marks(settings.congestion);
  at.route.traffic_class = static_cast<uint8_t>(dscp << 2 | (ect ? fabric::kEct0 : 0));
  at.route.service_level = flow.priority == 0xff ? settings.priority : flow.priority;
  at.path_mtu = mtu_code(scenario_.hosts[flow.source].adapter.path_mtu);
  at.dest_qpn = (source ? live.destination : live.source)->qpn();
  at.max_rd_atomic = at.max_dest_rd_atomic = kAtomicDepth;
  at.timeout = settings.timeout;
  at.retry_cnt = settings.retry_count;
  at.rnr_retry = settings.rnr_retry;
  at.min_rnr_timer = 1;
  Instant now = fabric::instant(network_.now());
  auto move = [&](QpState state, uint32_t mask) {
    at.state = state;
    CHECK(own.modify(now, at, mask | kAttrState).has_value());
  };
  // Both ends may send data: a READ moves it the other way.
  own.congestion(engine::make_control(
      settings.congestion,
      {network_.port(network_.host_port(host)).link.bits_per_second, settings.path_mtu}));
  move(QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
  move(QpState::kRtr, kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic |
                          kAttrMinRnrTimer);
  move(QpState::kRts,
       kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic);
}

// One event at a time for all that are to come: there may be millions.
void Experiment::start_due() {
  while (next_start_ < starts_.size() &&
         scenario_.flows[starts_[next_start_]].start <= network_.now())
    start(starts_[next_start_++]);
  if (next_start_ < starts_.size())
    network_.at(scenario_.flows[starts_[next_start_]].start, [this] { start_due(); });
}

void Experiment::start(uint32_t index) {
  auto live = std::make_unique<Live>();
  live->flow = index;
  results_[index].start = network_.now();
  if (!open(*live)) {
    close(*live);
    ++refused_;
    return settle(index, engine::WcStatus::kGeneralErr);
  }
  for (bool source : {true, false})
    connect(source ? *live->source : *live->destination, *live, source);
  live_[index] = std::move(live);
  post(*live_[index]);
  adapters_[scenario_.flows[index].source]->kick();
}

// Makes its queue pairs. False: an adapter has no more.
bool Experiment::open(Live& live) {
  const scenario::Flow& flow = scenario_.flows[live.flow];
  for (bool source : {true, false}) {
    Adapter& adapter = *adapters_[source ? flow.source : flow.destination];
    engine::QpInit init{.type = engine::QpType::kRc,
                        .domain = adapter.domain(),
                        .send_cq = &adapter.completions(),
                        .receive_cq = &adapter.completions()};
    init.send = {kMostWork, 1, 0};
    init.receive_work_requests = flow.verb == scenario::Verb::kSend && !source ? kSendSlots : 0;
    init.receive_sges = 1;
    init.lane = flow.priority == 0xff ? adapter.settings().priority : flow.priority;
    auto created = adapter.device().create_qp(init);
    if (!created) return false;
    (source ? live.source : live.destination) = *created;
  }
  return true;
}

void Experiment::close(Live& live) {
  const scenario::Flow& flow = scenario_.flows[live.flow];
  if (live.source) adapters_[flow.source]->device().destroy_qp(live.source);
  if (live.destination) adapters_[flow.destination]->device().destroy_qp(live.destination);
}

// Keeps work requests posted until the flow's bytes are all asked for.
void Experiment::post(Live& live) {
  const scenario::Flow& flow = scenario_.flows[live.flow];
  Adapter& source = *adapters_[flow.source];
  Adapter& destination = *adapters_[flow.destination];
  Instant now = fabric::instant(network_.now());
  bool endless = flow.bytes == scenario::kEndless;
  while (live.outstanding < kMostWork / 2 && live.posted < flow.bytes) {
    uint64_t length = endless ? kWorkBytes : std::min(kWorkBytes, flow.bytes - live.posted);
    engine::Sge sge{Adapter::kAbsentMemory, static_cast<uint32_t>(length), source.key()};
    engine::SendRequest request;
    request.wr_id = live.flow;
    request.flags = engine::kSignaled;
    request.sges = {&sge, 1};
    request.remote_address = Adapter::kAbsentMemory;
    request.rkey = destination.key();
    switch (flow.verb) {
      case scenario::Verb::kWrite:
        request.opcode = engine::WrOpcode::kRdmaWrite;
        break;
      case scenario::Verb::kRead:
        request.opcode = engine::WrOpcode::kRdmaRead;
        break;
      case scenario::Verb::kSend: {
        request.opcode = engine::WrOpcode::kSend;
        engine::Sge into{Adapter::kAbsentMemory, static_cast<uint32_t>(length), destination.key()};
        CHECK(live.destination->post_receive(UINT64_MAX, {&into, 1}) == 0);
        break;
      }
    }
    CHECK(live.source->post_send(now, request) == 0);
    live.posted += length;
    ++live.outstanding;
    ++results_[live.flow].posted;
    if (!endless && live.posted == flow.bytes) break;
  }
}

void Experiment::complete(const engine::WorkCompletion& completion) {
  if (completion.opcode == engine::WcOpcode::kRecv || completion.wr_id >= live_.size()) return;
  auto flow = static_cast<uint32_t>(completion.wr_id);
  ++results_[flow].completions;
  if (!live_[flow] || live_[flow]->over) return;
  Live& live = *live_[flow];
  --live.outstanding;
  if (completion.status != engine::WcStatus::kSuccess) return finish(flow, completion.status);
  live.completed += std::min(kWorkBytes, scenario_.flows[flow].bytes - live.completed);
  if (live.completed >= scenario_.flows[flow].bytes) return finish(flow, completion.status);
  post(live);
}

void Experiment::collect_received(uint32_t index) {
  if (!live_[index]) return;
  const Live& live = *live_[index];
  bool read = scenario_.flows[index].verb == scenario::Verb::kRead;
  results_[index].received = (read ? live.source : live.destination)->counters().bytes_received;
}

void Experiment::finish(uint32_t index, engine::WcStatus status) {
  live_[index]->over = true;
  collect_received(index);
  // The queue pairs go when the adapters have returned from what they are doing.
  network_.at(network_.now(), [this, index] {
    close(*live_[index]);
    live_[index].reset();
  });
  settle(index, status);
}

void Experiment::settle(uint32_t index, engine::WcStatus status) {
  FlowResult& result = results_[index];
  result.status = status;
  result.failed = status != engine::WcStatus::kSuccess;
  if (!result.failed) result.end = network_.now();
  if (network_.now() <= scenario_.warm_up) result.received_warm = result.received;
  ++done_;
  for (uint32_t next : followers_[index]) {
    if (--waits_for_[next] != 0) continue;
    ++delayed_;
    network_.at(network_.now() + scenario_.flows[next].start, [this, next] {
      --delayed_;
      start(next);
    });
  }
  if (done_ == results_.size() && scenario_.duration == 0) {
    over_ = true;
    network_.stop();
  }
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
