// The programs and the road of a world of connection managers, and what is checked of it.
#include "cm_world.h"

#include <algorithm>

#include <fmt/format.h>

#include "cm/mads.h"

namespace verbena::sim::test {

using cm::EventType;
using cm::State;

namespace {

constexpr uint16_t kPorts = 3;

constexpr uint32_t bit(EventType type) {
  return 1u << static_cast<unsigned>(type);
}

// One of these ends a connection.
constexpr uint32_t kEnds = bit(EventType::kRejected) | bit(EventType::kUnreachable) |
                           bit(EventType::kDisconnected) | bit(EventType::kSidrResponse);

}  // namespace

CmWorld::CmWorld(uint64_t seed) : seed_(seed), prng_(seed) {
  const bool kind = prng_.below(4) == 0;  // a road that loses and repeats nothing
  loss_ppm_ = kind ? 0 : static_cast<uint32_t>(prng_.below(300'000));
  repeat_ppm_ = kind ? 0 : static_cast<uint32_t>(prng_.below(200'000));
  most_delay_ = microseconds(static_cast<int64_t>(prng_.between(1, kind ? 100 : 20'000)));
  prompt_ = kind && prng_.below(2) == 0;
  acts_ = static_cast<int>(prng_.between(5, 60));
  hosts_.resize(prng_.between(2, 3));
  for (size_t i = 0; i < hosts_.size(); ++i) {
    cm::Options options;
    options.slot = static_cast<uint8_t>(i + 1);
    options.seed = prng_.next();
    options.ca_guid = 0x1000 + i;
    options.response_timeout = 14;  // 67 ms: longer than a MAD and its answer are on the way
    hosts_[i].manager = std::make_unique<cm::Manager>(options);
  }
}

std::string CmWorld::describe() const {
  return fmt::format("seed {}: {} hosts, {} acts, loss {} ppm, repeat {} ppm, delay up to {} us{}",
                     seed_, hosts_.size(), acts_, loss_ppm_, repeat_ppm_, most_delay_.ns() / 1000,
                     prompt_ ? ", prompt programs" : "");
}

engine::Gid CmWorld::address(size_t host) const {
  const uint8_t bytes[4] = {10, 0, 0, static_cast<uint8_t>(host + 1)};
  return engine::Gid::from_ipv4(bytes);
}

void CmWorld::fail(const std::string& what) {
  if (failure_.empty()) failure_ = fmt::format("at {} us: {}", now_.ns() / 1000, what);
}

void CmWorld::connect(size_t host) {
  cm::ConnectRequest request;
  request.route.source = address(host);
  request.route.destination = address(prng_.below(hosts_.size()));
  request.space = prng_.below(5) == 0 ? cm::PortSpace::kUdp : cm::PortSpace::kTcp;
  request.destination_port = static_cast<uint16_t>(prng_.below(kPorts));
  request.qp.qpn = next_qpn_++;
  request.ack_timeout = 14;
  const auto handle = hosts_[host].manager->connect(now_, request);
  if (!handle) return fail("connect: " + handle.error().message);
  hosts_[host].programs.push_back({*handle, true, request.space == cm::PortSpace::kUdp});
}

void CmWorld::open(size_t host) {
  cm::Manager& manager = *hosts_[host].manager;
  auto& listeners = hosts_[host].listeners;
  if (prompt_ && listeners.size() == 2) return;
  if (listeners.size() > 3 || (!listeners.empty() && prng_.below(4) == 0)) {
    const size_t at = prng_.below(listeners.size());
    manager.close_listener(now_, listeners[at]);
    listeners.erase(listeners.begin() + static_cast<ptrdiff_t>(at));
    return;
  }
  const auto space = prng_.below(5) == 0 ? cm::PortSpace::kUdp : cm::PortSpace::kTcp;
  const auto port = static_cast<uint16_t>(prng_.below(kPorts));
  const engine::Gid where = prng_.below(2) ? address(host) : engine::Gid{};
  listeners.push_back(*manager.bind(space, port, where, false));
  if (prompt_ || prng_.below(8) != 0)
    static_cast<void>(manager.listen(listeners.back(), prompt_ ? 0 : 2));
}

// Something that a program may do to a connection in whatever state it is.
void CmWorld::touch(size_t host, Program& program) {
  cm::Manager& manager = *hosts_[host].manager;
  if (program.destroyed) return;
  cm::QpParameters qp;
  switch (prng_.below(5)) {
    case 0:
      manager.destroy(now_, program.handle);
      program.destroyed = true;
      return;
    case 1:
      static_cast<void>(manager.reject(now_, program.handle, 28, {}));
      return;
    case 2:
      qp.qpn = next_qpn_++;
      static_cast<void>(manager.accept(now_, program.handle, qp, {}));
      return;
    case 3:
      static_cast<void>(manager.establish(now_, program.handle));
      return;
    default:
      static_cast<void>(manager.disconnect(now_, program.handle));
  }
}

void CmWorld::act(size_t host) {
  auto& programs = hosts_[host].programs;
  const uint64_t choice = prng_.below(10);
  if (choice < 3) return open(host);
  if (prompt_ || choice < 7 || programs.empty()) return connect(host);
  touch(host, programs[prng_.below(programs.size())]);
}

// Every queue pair asks once here. Its REQ may be lost, repeated and late, and even come when the
// refusal before is forgotten; never while the first request is more than a memory.
void CmWorld::check_request(size_t host, const Program& program) {
  for (const Program& other : hosts_[host].programs) {
    if (&other == &program || other.active || other.datagram || other.peer_qpn != program.peer_qpn)
      continue;
    const State state = hosts_[host].manager->state(other.handle);
    const bool over = state == State::kIdle || state == State::kTimewait;
    if (loss_ppm_ == 0 || !over)
      fail(fmt::format("a second request of queue pair {:#08x}, the first is in state {}{}",
                       program.peer_qpn, cm::state_name(state),
                       other.destroyed ? ", destroyed" : ""));
  }
}

// The passive end gives up after all its tries, and only a peer that said nothing.
void CmWorld::check_unreachable(const Program& program) {
  const Attempt& attempt = attempts_[program.peer_qpn];
  constexpr uint32_t kTries = 16;
  if (attempt.confirmed)
    fail(fmt::format("unreachable, though queue pair {:#08x} has confirmed", program.peer_qpn));
  if (attempt.reps < kTries)
    fail(fmt::format("unreachable after {} replies to queue pair {:#08x}", attempt.reps,
                     program.peer_qpn));
}

// The comm id of an established end that this REP reaches, which means that its RTU was lost; or 0.
uint32_t CmWorld::owes_rtu(const InFlight& mad) const {
  const auto& bytes = mad.mad.bytes;
  const auto header = wire::load<wire::MadHeader>(bytes.data());
  if (wire::attribute_of(header) != wire::CmAttribute::kRep) return 0;
  const auto rep = cm::body_of<wire::CmRep>(bytes);
  for (const cm::Row& row : hosts_[mad.to].manager->rows())
    if (row.state == State::kEstablished && row.local_comm_id == rep.remote_comm_id &&
        row.remote_comm_id == rep.local_comm_id)
      return row.local_comm_id;
  return 0;
}

void CmWorld::check_rtu(size_t host, uint32_t comm_id) {
  for (const cm::OutgoingMad& mad : hosts_[host].manager->outgoing()) {
    const auto header = wire::load<wire::MadHeader>(mad.bytes.data());
    if (wire::attribute_of(header) == wire::CmAttribute::kRtu &&
        cm::body_of<wire::CmRtu>(mad.bytes).local_comm_id == comm_id)
      return;
  }
  fail(fmt::format("a repeated REP to {:#x} meets no RTU", comm_id));
}

// Reads along who is connected to whom.
void CmWorld::watch_road(const cm::OutgoingMad& mad, bool arrives) {
  using namespace wire;
  switch (attribute_of(load<MadHeader>(mad.bytes.data()))) {
    case CmAttribute::kReq: {
      const auto req = cm::body_of<CmReq>(mad.bytes);
      active_ids_[req.local_comm_id] = req.qpn;
      return;
    }
    case CmAttribute::kRep: {
      const auto rep = cm::body_of<CmRep>(mad.bytes);
      const auto active = active_ids_.find(rep.remote_comm_id);
      if (active == active_ids_.end() || arrives) return;
      passive_ids_[rep.local_comm_id] = active->second;
      ++attempts_[active->second].reps;
      return;
    }
    case CmAttribute::kRtu:
    case CmAttribute::kDreq: {
      const auto passive = passive_ids_.find(cm::body_of<CmRtu>(mad.bytes).remote_comm_id);
      if (passive != passive_ids_.end() && arrives) attempts_[passive->second].confirmed = true;
      return;
    }
    default:
      return;
  }
}

void CmWorld::put(const cm::OutgoingMad& mad) {
  watch_road(mad, false);
  for (size_t to = 0; to < hosts_.size(); ++to) {
    if (address(to) != mad.route.destination) continue;
    if (prng_.chance_ppm(loss_ppm_)) return;
    const int copies = prng_.chance_ppm(repeat_ppm_) ? 2 : 1;
    for (int i = 0; i < copies; ++i)
      road_.emplace(now_ + picoseconds(static_cast<int64_t>(
                               1 + prng_.below(static_cast<uint64_t>(most_delay_.ps)))),
                    InFlight{to, mad});
  }
}

void CmWorld::check_order(const Program& program, EventType type) {
  const uint32_t seen = program.seen;
  bool legal = !(seen & bit(type)) && !program.destroyed;
  switch (type) {
    case EventType::kRequest:
      legal &= seen == 0 && !program.active;
      break;
    case EventType::kResponse:
      legal &= seen == 0 && program.active && !program.datagram;
      break;
    case EventType::kEstablished:
      legal &= seen == bit(program.active ? EventType::kResponse : EventType::kRequest);
      break;
    case EventType::kDisconnected:
      legal &= (seen & bit(EventType::kEstablished)) && !(seen & kEnds);
      break;
    case EventType::kRejected:
    case EventType::kUnreachable:
      legal &= !(seen & (kEnds | bit(EventType::kEstablished)));
      break;
    case EventType::kSidrResponse:
      legal &= seen == 0 && program.active && program.datagram;
      break;
    case EventType::kTimewaitExit:
      legal &= (seen & (bit(EventType::kDisconnected) | bit(EventType::kRejected))) != 0;
      break;
    case EventType::kConnectError:
      legal = false;
      break;
  }
  if (!legal)
    fail(fmt::format("event {} after events {:#x}, {}{}", static_cast<int>(type), seen,
                     program.active ? "active" : "passive",
                     program.destroyed ? ", destroyed" : ""));
}

// Programs that mostly do what the event asks for.
void CmWorld::answer(size_t host, Program& program, const cm::Event& event) {
  cm::Manager& manager = *hosts_[host].manager;
  const uint64_t mood = prompt_ ? prng_.between(2, 9) : prng_.below(10);
  if (mood == 0) return;  // later, or never
  if (mood == 1) return touch(host, program);
  cm::QpParameters qp;
  qp.qpn = next_qpn_++;
  switch (event.type) {
    case EventType::kRequest:
      if (!manager.accept(now_, program.handle, qp, {})) fail("accept() of a fresh request failed");
      return;
    case EventType::kResponse:
      if (!manager.establish(now_, program.handle)) fail("establish() of a fresh response failed");
      return;
    case EventType::kEstablished:
      if (mood < 5 && !manager.disconnect(now_, program.handle) &&
          manager.state(program.handle) == State::kEstablished)
        fail("disconnect() failed");
      return;
    case EventType::kDisconnected:
      static_cast<void>(manager.disconnect(now_, program.handle));
      return;
    default:
      return;
  }
}

void CmWorld::on_event(size_t host, const cm::Event& event) {
  auto& programs = hosts_[host].programs;
  auto found = std::find_if(programs.begin(), programs.end(), [&](const Program& program) {
    return program.handle == event.connection;
  });
  if (found == programs.end()) {
    if (event.type != EventType::kRequest || !event.incoming)
      return fail("an event of a connection that nobody made");
    programs.push_back({event.connection, false, event.incoming->datagram});
    found = programs.end() - 1;
    found->peer_qpn = event.qp.qpn;
    if (!found->datagram) check_request(host, *found);
  }
  if (event.type == EventType::kTimewaitExit &&
      hosts_[host].manager->state(event.connection) != State::kIdle)
    fail("timewait exit of a connection that is not idle");
  // The program may have destroyed it between two events of one step.
  if (found->destroyed) return;
  check_order(*found, event.type);
  if (event.type == EventType::kUnreachable && !found->active) check_unreachable(*found);
  found->seen |= bit(event.type);
  established_ += event.type == EventType::kEstablished;
  answer(host, *found, event);
}

void CmWorld::collect(size_t host) {
  cm::Manager& manager = *hosts_[host].manager;
  for (int i = 0; i < 50 && !manager.events().empty(); ++i) {
    std::vector<cm::Event> events;
    events.swap(manager.events());
    for (const cm::Event& event : events) on_event(host, event);
  }
  std::vector<cm::OutgoingMad> mads;
  mads.swap(manager.outgoing());
  for (const cm::OutgoingMad& mad : mads) put(mad);
  manager.changed_rows().clear();
  manager.explanations().clear();
}

// The next thing that happens, `next_act` at the latest. When it was.
Instant CmWorld::step(Instant next_act) {
  Instant next = next_act;
  if (!road_.empty()) next = std::min(next, road_.begin()->first);
  for (const Host& host : hosts_) next = std::min(next, host.manager->next_deadline());
  if (next == kNever) return next;
  now_ = next;
  while (!road_.empty() && road_.begin()->first <= now_) {
    const InFlight mad = road_.begin()->second;
    road_.erase(road_.begin());
    cm::Route back = mad.mad.route;
    std::swap(back.source, back.destination);
    watch_road(mad.mad, true);
    const uint32_t owing = owes_rtu(mad);
    hosts_[mad.to].manager->receive(now_, back, mad.mad.bytes);
    if (owing != 0) check_rtu(mad.to, owing);
    collect(mad.to);
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].manager->on_time(now_);
    if (hosts_[i].manager->next_deadline() <= now_) fail("a timer is due after on_time()");
    collect(i);
  }
  return next;
}

bool CmWorld::run() {
  for (size_t i = 0; i < hosts_.size(); ++i)
    for (int n = 0; n < 2; ++n) open(i);
  for (int i = 0; i < acts_ && failure_.empty(); ++i) {
    const Instant act_at = now_ + microseconds(static_cast<int64_t>(prng_.between(1, 50'000)));
    while (now_ < act_at && failure_.empty()) step(act_at);
    const size_t host = prng_.below(hosts_.size());
    act(host);
    collect(host);
  }
  for (int i = 0; i < 100'000 && failure_.empty() && step(kNever) != kNever; ++i) continue;
  if (!road_.empty()) fail("the world does not come to rest");
  if (failure_.empty()) check_end();
  // Then every program ends.
  for (size_t i = 0; i < hosts_.size(); ++i) {
    for (Program& program : hosts_[i].programs) {
      hosts_[i].manager->destroy(now_, program.handle);
      program.destroyed = true;
    }
    for (cm::Handle listener : hosts_[i].listeners)
      hosts_[i].manager->close_listener(now_, listener);
    collect(i);
  }
  for (int i = 0; i < 100'000 && failure_.empty() && step(kNever) != kNever; ++i) continue;
  for (const Host& host : hosts_) {
    if (host.manager->connection_count() != 0) fail("a connection is left behind");
    if (!host.manager->rows().empty()) fail("a row is left behind");
    if (host.manager->next_deadline() != kNever) fail("a timer is left behind");
  }
  return failure_.empty();
}

// Nothing moves any more: who is connected has a peer that is, and nothing waits for an answer.
void CmWorld::check_end() {
  std::map<std::pair<uint32_t, uint32_t>, size_t> connected;  // comm ids, the smaller first
  uint64_t retried = 0;
  for (const Host& host : hosts_) {
    retried += host.manager->counters().retried;
    for (const cm::Row& row : host.manager->rows()) {
      if (row.state == State::kReqSent || row.state == State::kRepSent ||
          row.state == State::kDreqSent)
        fail(fmt::format("a connection rests in {}", cm::state_name(row.state)));
      if (row.state == State::kEstablished)
        ++connected[std::minmax(row.local_comm_id, row.remote_comm_id)];
    }
  }
  if (prompt_ && retried != 0) fail(fmt::format("{} retries though nothing was lost", retried));
  if (loss_ppm_ != 0) return;
  for (const auto& [ids, ends] : connected)
    if (ends != 2) fail(fmt::format("only one end of {:#x} is connected", ids.first));
}

}  // namespace verbena::sim::test
