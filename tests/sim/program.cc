// Building, running and judging one seed's program.
#include "program.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbena::sim::test {

using engine::QpType;

namespace {

constexpr size_t kCells = 8 + 2 * 256;
constexpr int32_t kWindow = 1024 + 64;  // PSNs a requester may be ahead of what is acknowledged
constexpr int kReceiveRounds = 3'000;

uint64_t key_of(size_t host, uint32_t qpn) {
  return uint64_t{host} << 32 | qpn;
}

}  // namespace

Program::Program(const Plan& plan, bool log)
    : log_(log), plan_(plan), world_(plan_.world), prng_(plan.seed ^ 0x50726f6772616dull) {
  build();
}

void Program::build() {
  for (int i = 0; i < 2; ++i) {
    size_t host = world_.add_host({.explain = log_});
    auto state = std::make_unique<HostState>();
    state->cells = Area(world_.device(host), &state->domain, 1u << 20, kCells * 8,
                        memory::kLocalWrite | memory::kRemoteAtomic | memory::kRemoteWrite);
    for (size_t cell = 0; cell < 4; ++cell)
      state->shared_cells.push_back({reinterpret_cast<uint64_t*>(state->cells.at(cell * 8)), {}});
    hosts_.push_back(std::move(state));
  }
  if (plan_.period)
    world_.road(plan_.period_from, 1 - plan_.period_from).faults().period = plan_.period;
  for (const PairPlan& pair : plan_.pairs) {
    size_t first = prng_.below(2);
    for (int side = 0; side < 2; ++side) {
      size_t index = side == 0 ? first : 1 - first;
      HostState& state = *hosts_[index];
      End::Host host{&world_,
                     index,
                     &state.domain,
                     &state.xrc_domain,
                     &state.cells,
                     &state.shared_cells,
                     (ends_.size() + 1) << 32};
      ends_.push_back(std::make_unique<End>(plan_, pair, side, host, prng_.next(),
                                            [this](const std::string& what) { fail(what); }));
      by_qp_[key_of(index, ends_.back()->qp()->qpn())] = ends_.back().get();
    }
    End::connect(*ends_[ends_.size() - 2], *ends_.back());
  }
  if (plan_.mistake != Mistake::kNone) {
    ends_[0]->outlook = plan_.loses() ? Outlook::kMayFail : Outlook::kMistake;
    ends_[1]->outlook = Outlook::kMayFail;
    ends_[0]->plan_mistake();
  }
}

void Program::start(End& end) {
  if (end.pair().windows) end.bind_windows();
  if (end.sends) post_later(end);
  if (end.receives) receive_later(end, kReceiveRounds);
}

void Program::post_later(End& end) {
  auto wait = nanoseconds(static_cast<int64_t>(prng_.below(20'000)));
  world_.at(world_.now() + wait, [this, &end] {
    end.post_work();
    if (!end.all_posted() && failure_.empty()) post_later(end);
  });
}

void Program::receive_later(End& end, int rounds) {
  auto wait = nanoseconds(static_cast<int64_t>(prng_.below(40'000)));
  world_.at(world_.now() + wait, [this, &end, rounds] {
    end.post_receives();
    if (rounds > 0 && end.expects() && failure_.empty()) receive_later(end, rounds - 1);
  });
}

// No PSN outside the window: requests follow the highest one sent or repeat what is in flight;
// responses answer what the peer has asked.
void Program::watch(size_t host, const engine::TxPacket& packet) {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
  if (log_) print(host, packet);
  const End* end = by_qp_[key_of(host, packet.source_qpn)];
  if (!end) return fail("a packet from an unknown queue pair");
  Stream& stream = streams_[key_of(host, packet.source_qpn)];
  if (info.response) {
    Stream& peer = streams_[key_of(end->peer()->host(), packet.header.dest_qpn)];
    if (!peer.known || packet.header.psn.distance(peer.next) >= 0)
      fail(fmt::format("a response with PSN {:#x} to nothing", packet.header.psn.value()));
    stream.acknowledgements += info.operation == wire::Operation::kAcknowledge;
    return;
  }
  uint32_t span = 1;
  if (info.operation == wire::Operation::kReadRequest) {
    uint32_t bytes = end->qp()->packet_bytes();
    span = std::max(1u, (packet.header.reth.length + bytes - 1) / bytes);
  }
  if (!stream.known) {
    stream.known = true;
    stream.next = packet.header.psn;
  }
  int32_t ahead = packet.header.psn.distance(stream.next);
  if (ahead > 0 || ahead < -kWindow)
    fail(fmt::format("a request with PSN {:#x}, the next is {:#x}", packet.header.psn.value(),
                     stream.next.value()));
  Psn end_psn = packet.header.psn + span;
  if (end_psn.after(stream.next)) stream.next = end_psn;
}

void Program::print(size_t host, const engine::TxPacket& packet) {
  const wire::Packet& h = packet.header;
  fmt::print("{:>10} host {} QP {:x} > {:x} {} psn {:06x}{} {} bytes", world_.now().ns(), host,
             packet.source_qpn, h.dest_qpn, wire::opcode_info(h.opcode).name(), h.psn.value(),
             h.ack_request ? " ack" : "", packet.payload.length);
  if (wire::opcode_info(h.opcode).has(wire::Header::kAeth))
    fmt::print(" syndrome {:02x} msn {}", h.aeth.syndrome, h.aeth.msn);
  if (wire::opcode_info(h.opcode).has(wire::Header::kReth))
    fmt::print(" {:x}+{}", h.reth.address, h.reth.length);
  fmt::print("\n");
}

// Fetch-and-adds by everybody on one cell: sorted by what they saw, each saw the last one's sum.
void Program::check_cells() {
  for (const auto& host : hosts_) {
    if (!host->cells.guards_intact()) fail("a guard zone of the cells was written");
    for (SharedCell& cell : host->shared_cells) {
      std::sort(cell.steps.begin(), cell.steps.end());
      uint64_t value = 0;
      for (auto [original, addend] : cell.steps) {
        if (original != value) fail("an atomic was applied twice or not at all");
        value += addend;
      }
      if (*cell.value != value) fail("a shared cell has a wrong sum");
    }
  }
}

bool Program::run() {
  world_.on_step = [this](size_t host) {
    for (auto& end : ends_)
      if (end->host() == host) end->step();
    for (const std::string& text : world_.device(host).explanations())
      fmt::print("{:>10} host {} {}\n", world_.now().ns(), host, text);
    world_.device(host).explanations().clear();
  };
  world_.on_send = [this](size_t host, const engine::TxPacket& packet) { watch(host, packet); };
  for (auto& end : ends_) start(*end);
  if (!world_.run()) fail("the world did not come to rest");
  for (auto& end : ends_) end->finish();
  if (!world_.run()) fail("the world did not come to rest after ERR");
  if (!world_.quiet()) fail("a timer is left");
  for (auto& end : ends_) {
    end->check_end();
    uint64_t acks = streams_[key_of(end->host(), end->qp()->qpn())].acknowledgements;
    const engine::QpCounters& counters = end->qp()->counters();
    // Of packets that stay missing a responder with selective repeat may tell more than once.
    uint64_t again = plan_.disorder.packets > 0 ? counters.naks_sent : 0;
    if (acks > counters.packets_received + again) fail("more acknowledgements than requests");
  }
  if (plan_.mistake == Mistake::kNone) check_cells();
  return failure_.empty();
}

}  // namespace verbena::sim::test
