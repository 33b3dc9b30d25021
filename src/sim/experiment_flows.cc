// Flows as work requests: the queue pairs of each, what is posted on them, what has completed.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/congestion/control.h"
#include "sim/experiment.h"
#include "sim/live_flow.h"

namespace verbena::sim {

namespace {

constexpr uint32_t kMostWork = 4;  // work requests of a flow at once
constexpr uint64_t kWorkBytes = 1u << 30;
constexpr uint64_t kPayloadWorkBytes = 1u << 20;  // with real bytes: there is memory for them
constexpr uint32_t kAtomicDepth = 16;
constexpr uint8_t kSendSlots = 4;

uint8_t mtu_code(uint32_t bytes) {
  uint8_t code = 1;
  while (engine::path_mtu_bytes(code) < bytes) ++code;
  return code;
}

// What two ends agree on: the smaller window and the longer wait.
engine::ReorderSettings agreed(const scenario::Adapter& a, const scenario::Adapter& b) {
  if (!a.selective_repeat || !b.selective_repeat) return {};
  return {std::min(a.reorder_packets, b.reorder_packets),
          picoseconds(std::max(a.reorder_wait, b.reorder_wait))};
}

}  // namespace

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
  own.tolerate_disorder(agreed(settings, scenario_.hosts[peer].adapter));
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

bool Experiment::with_payload() const {
  return scenario_.hosts[0].adapter.payload;
}

// Of one work request, at most.
uint64_t Experiment::work_bytes() const {
  return with_payload() ? kPayloadWorkBytes : kWorkBytes;
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
  if (with_payload()) {
    const scenario::Flow& flow = scenario_.flows[index];
    bool read = flow.verb == scenario::Verb::kRead;
    live->memory =
        std::make_unique<FlowMemory>(index, std::min(work_bytes(), flow.bytes), kMostWork,
                                     *adapters_[read ? flow.destination : flow.source],
                                     *adapters_[read ? flow.source : flow.destination], verdict_);
  }
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

// Real bytes, or places in endless absent memory.
FlowMemory::Places Experiment::places(Live& live, uint32_t length) {
  const scenario::Flow& flow = scenario_.flows[live.flow];
  if (live.memory) return live.memory->prepare(live.prepared++, length);
  bool read = flow.verb == scenario::Verb::kRead;
  const Adapter& from = *adapters_[read ? flow.destination : flow.source];
  const Adapter& to = *adapters_[read ? flow.source : flow.destination];
  return {{Adapter::kAbsentMemory, length, from.key()}, {Adapter::kAbsentMemory, length, to.key()}};
}

// A completion told of the flow's next bytes: where they are received, if anyone is told there.
void Experiment::check_payload(const engine::WorkCompletion& completion) {
  bool received = completion.opcode == engine::WcOpcode::kRecv;
  if (!with_payload() || completion.status != engine::WcStatus::kSuccess) return;
  auto index = static_cast<uint32_t>(completion.wr_id);
  const scenario::Flow& flow = scenario_.flows[index];
  if (!live_[index] || received != (flow.verb == scenario::Verb::kSend)) return;
  Live& live = *live_[index];
  uint64_t length = std::min(work_bytes(), flow.bytes - live.checked * work_bytes());
  if (completion.byte_len != length)
    verdict_.complain(fmt::format("flow {}: a completion of {} bytes instead of {}", index,
                                  completion.byte_len, length));
  live.memory->check(live.checked++, static_cast<uint32_t>(length));
}

// Keeps work requests posted until the flow's bytes are all asked for.
void Experiment::post(Live& live) {
  const scenario::Flow& flow = scenario_.flows[live.flow];
  Instant now = fabric::instant(network_.now());
  bool endless = flow.bytes == scenario::kEndless;
  bool read = flow.verb == scenario::Verb::kRead;
  while (live.outstanding < kMostWork / 2 && live.posted < flow.bytes) {
    uint64_t length = endless ? work_bytes() : std::min(work_bytes(), flow.bytes - live.posted);
    FlowMemory::Places at = places(live, static_cast<uint32_t>(length));
    const engine::Sge& remote = read ? at.source : at.target;
    engine::SendRequest request;
    request.wr_id = live.flow;
    request.flags = engine::kSignaled;
    request.sges = {read ? &at.target : &at.source, 1};
    request.remote_address = remote.address;
    request.rkey = remote.lkey;
    switch (flow.verb) {
      case scenario::Verb::kWrite:
        request.opcode = engine::WrOpcode::kRdmaWrite;
        break;
      case scenario::Verb::kRead:
        request.opcode = engine::WrOpcode::kRdmaRead;
        break;
      case scenario::Verb::kSend:
        request.opcode = engine::WrOpcode::kSend;
        CHECK(live.destination->post_receive(live.flow, {&remote, 1}) == 0);
        break;
    }
    CHECK(live.source->post_send(now, request) == 0);
    live.posted += length;
    ++live.outstanding;
    ++results_[live.flow].posted;
    if (!endless && live.posted == flow.bytes) break;
  }
}

void Experiment::complete(const engine::WorkCompletion& completion) {
  check_payload(completion);
  if (completion.opcode == engine::WcOpcode::kRecv) return;
  auto flow = static_cast<uint32_t>(completion.wr_id);
  ++results_[flow].completions;
  if (!live_[flow] || live_[flow]->over) return;
  Live& live = *live_[flow];
  --live.outstanding;
  if (completion.status != engine::WcStatus::kSuccess) return finish(flow, completion.status);
  live.completed += std::min(work_bytes(), scenario_.flows[flow].bytes - live.completed);
  if (live.completed >= scenario_.flows[flow].bytes) return finish(flow, completion.status);
  post(live);
}

void Experiment::collect_received(uint32_t index) {
  if (!live_[index]) return;
  const Live& live = *live_[index];
  bool read = scenario_.flows[index].verb == scenario::Verb::kRead;
  results_[index].received = (read ? live.source : live.destination)->counters().bytes_delivered;
}

void Experiment::finish(uint32_t index, engine::WcStatus status) {
  live_[index]->over = true;
  collect_received(index);
  // The queue pairs go when the adapters have returned from what they are doing.
  network_.at(network_.now(), [this, index] {
    close(*live_[index]);
    if (live_[index]->memory && !results_[index].failed) live_[index]->memory->check_rest();
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

}  // namespace verbena::sim
