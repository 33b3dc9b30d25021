// Tables of the machine, and what happens when nobody answers.
#include <cerrno>

#include <fmt/format.h>

#include "cm/machine.h"

namespace verbena::cm {

namespace {

// What is sent again and again in a state with a timer.
const char* waiting_mad(State state) {
  switch (state) {
    case State::kSidrReqSent:
      return "SIDR_REQ";
    case State::kRepSent:
      return "REP";
    case State::kDreqSent:
      return "DREQ";
    default:
      return "REQ";
  }
}

// Where to look when nobody answers it.
const char* silence_hint(State state) {
  switch (state) {
    case State::kRepWait:
      return "it asked for more time and its program has not accepted";
    case State::kRepSent:
      return "its program has not taken the reply, or has ended";
    case State::kDreqSent:
      return "its program has ended, or the network between is down; the connection is over";
    default:
      return "is the host up, does UDP port 4791 pass in both directions, and does its RDMA program"
             " run?";
  }
}

}  // namespace

std::string peer_text(const Connection& c) {
  const auto port = static_cast<uint16_t>(c.service);
  const std::string address = address_text(c.route.destination);
  return c.active ? fmt::format("port {} of {}", port, address)
                  : fmt::format("{} at port {} here", address, port);
}

Connection* Manager::Impl::create() {
  if (in_use >= kMaxConnections) return nullptr;
  uint32_t index;
  if (!free.empty()) {
    index = free.front();
    free.pop_front();
  } else {
    index = static_cast<uint32_t>(connections.size());
    connections.emplace_back();
  }
  Connection& c = connections[index];
  const size_t changed_at = c.changed_at;
  c = Connection{};
  c.changed_at = changed_at;
  c.used = true;
  c.handle = {index, next_generation++};
  do {
    c.local_id = uint32_t{options.slot} << 24 | (next_id++ & 0xffffff);
  } while (ids.contains(c.local_id));
  ids[c.local_id] = index;
  ++in_use;
  return &c;
}

Connection* Manager::Impl::find(Handle handle) {
  if (handle.index == 0 || handle.index >= connections.size()) return nullptr;
  Connection& c = connections[handle.index];
  return c.used && !c.orphan && c.handle == handle ? &c : nullptr;
}

Listener* Manager::Impl::find_listener(Handle handle) {
  for (Listener& listener : listeners)
    if (listener.handle == handle) return &listener;
  return nullptr;
}

// Only its peer speaks of a connection: comm ids are easily guessed, or left from another peer.
Connection* Manager::Impl::by_comm_id(uint32_t id, const Route& back) {
  const auto found = ids.find(id);
  if (found == ids.end()) return nullptr;
  Connection& c = connections[found->second];
  return c.route.destination == back.destination ? &c : nullptr;
}

Row Manager::Impl::row_of(const Connection& c) const {
  if (c.state == State::kTimewait || c.state == State::kIdle || c.datagram) return {};
  const bool disconnects = c.state == State::kEstablished || c.state == State::kDreqSent;
  const uint64_t transaction = disconnects                       ? transaction_high | c.local_id
                               : c.state == State::kDreqReceived ? c.dreq_transaction_id
                                                                 : c.transaction_id;
  return {c.state, c.route, c.local_id, c.remote_id, c.remote_qpn, transaction};
}

void Manager::Impl::set_state(Connection& c, State state) {
  c.state = state;
  auto& rows = manager.changed_rows_;
  if (c.changed_at >= rows.size() || rows[c.changed_at].index != c.handle.index) {
    c.changed_at = rows.size();
    rows.push_back({c.handle.index, {}});
  }
  rows[c.changed_at].row = row_of(c);
}

void Manager::Impl::arm(Connection& c, Instant deadline) {
  if (c.deadline != kNever) timers.erase({c.deadline, c.handle.index});
  c.deadline = deadline;
  if (deadline != kNever) timers.insert({deadline, c.handle.index});
}

// No MAD finds it any more.
void Manager::Impl::leave_lookups(Connection& c) {
  ids.erase(c.local_id);
  const auto found = peers.find(PeerKey{c.route.destination, c.remote_id, c.datagram});
  if (found != peers.end() && found->second == c.handle.index) peers.erase(found);
  free_queue_pair(c);
}

// The peer may connect it again.
void Manager::Impl::free_queue_pair(const Connection& c) {
  const auto found = queue_pairs.find(QpKey{c.route.destination, c.remote_qpn});
  if (found != queue_pairs.end() && found->second == c.handle.index) queue_pairs.erase(found);
}

void Manager::Impl::become_idle(Connection& c) {
  taken(c);
  arm(c, kNever);
  leave_lookups(c);
  set_state(c, State::kIdle);
  if (c.orphan) release(c);
}

void Manager::Impl::release(Connection& c) {
  c.used = false;
  --in_use;
  free.push_back(c.handle.index);
}

void Manager::Impl::taken(Connection& c) {
  if (!c.pending) return;
  c.pending = false;
  if (Listener* listener = find_listener(c.listener)) --listener->pending;
}

void Manager::Impl::send(const Route& route, const Mad& mad) {
  if (manager.outgoing_.size() >= kMaxOutgoing) return;
  ++manager.counters_.sent;
  manager.outgoing_.push_back({route, mad});
}

void Manager::Impl::send_last(Connection& c, const Mad& mad) {
  c.last = mad;
  c.has_last = true;
  send(c.route, mad);
}

// Sends what the peer has to answer, and again until it does.
void Manager::Impl::send_waiting(Instant now, Connection& c, const Mad& mad) {
  c.retries_left = c.max_retries;
  send_last(c, mad);
  arm(c, now + c.wait);
}

// IBA 12.9.8.4: our queue pair's number rests until no packet of the connection can be on the way.
void Manager::Impl::enter_timewait(Instant now, Connection& c, bool tells_exit) {
  taken(c);
  free_queue_pair(c);
  c.has_last = false;
  c.tells_exit = tells_exit;
  set_state(c, State::kTimewait);
  arm(c, now + timewait(c.ack_timeout));
}

// Over for the program; requests that the peer repeats meet the last answer again.
void Manager::Impl::linger(Instant now, Connection& c) {
  taken(c);
  c.tells_exit = false;
  free_queue_pair(c);
  set_state(c, State::kTimewait);
  arm(c, now + c.linger);
}

Event& Manager::Impl::emit(Connection& c, EventType type, int32_t status) {
  if (c.orphan) return unseen = {};
  Event& event = manager.events_.emplace_back();
  event.type = type;
  event.connection = c.handle;
  event.status = status;
  return event;
}

void Manager::Impl::explain(std::string text) {
  if (manager.explanations_.size() < kMaxExplanations)
    manager.explanations_.push_back(std::move(text));
}

void Manager::Impl::expire(Instant now, Connection& c) {
  arm(c, kNever);
  if (c.state == State::kTimewait) {
    if (c.tells_exit) emit(c, EventType::kTimewaitExit);
    become_idle(c);
  } else if (c.retries_left > 0) {
    --c.retries_left;
    ++manager.counters_.retried;
    send(c.route, c.last);
    arm(c, now + c.wait);
  } else {
    give_up(now, c);
  }
}

// IBA 12.9.7: all retries went unanswered.
void Manager::Impl::give_up(Instant now, Connection& c) {
  explain(fmt::format("{} does not answer: {} sent {} times in {:.1f} s (state {}); {}",
                      peer_text(c), waiting_mad(c.state), c.max_retries + 1,
                      static_cast<double>((c.wait * (c.max_retries + 1)).ns()) / 1e9,
                      state_name(c.state), silence_hint(c.state)));
  switch (c.state) {
    case State::kReqSent:
    case State::kRepWait:
      send(c.route, make_rej(c.transaction_id, c.local_id, c.remote_id, kOfNothing, kRejTimeout, {},
                             options.ca_guid));
      emit(c, EventType::kUnreachable, -ETIMEDOUT);
      return become_idle(c);
    case State::kSidrReqSent:
      emit(c, EventType::kUnreachable, -ETIMEDOUT);
      return become_idle(c);
    case State::kRepSent:
      send_last(c, make_rej(c.transaction_id, c.local_id, c.remote_id, kOfNothing, kRejTimeout));
      emit(c, EventType::kUnreachable, -ETIMEDOUT);
      return linger(now, c);
    case State::kDreqSent:
      emit(c, EventType::kDisconnected, -ETIMEDOUT);
      return enter_timewait(now, c, true);
    default:
      return;  // no other state has a timer
  }
}

// Requests whose port was bound but did not listen in time.
void Manager::Impl::end_held(Instant now) {
  while (!held.empty() && held.front().deadline <= now) {
    const HeldRequest request = held.front();
    held.pop_front();
    explain(
        fmt::format("rejected a request of {}: its port is bound and nobody called rdma_listen"
                    " in time",
                    address_text(request.back.destination)));
    if (const auto answer = answer_for_nobody(request.mad)) send(request.back, *answer);
  }
}

void Manager::Impl::begin_disconnect(Instant now, Connection& c) {
  set_state(c, State::kDreqSent);
  send_waiting(now, c,
               make_dreq(transaction_high | c.local_id, c.local_id, c.remote_id, c.remote_qpn));
}

// Says no to a REQ, REP or SIDR_REQ; the caller knows that the state allows it.
void Manager::Impl::refuse(Instant now, Connection& c, uint16_t reason,
                           std::span<const uint8_t> private_data) {
  const bool lookup = c.state == State::kSidrReqReceived;
  explain(fmt::format("rejected the connection with {}: {}", peer_text(c),
                      lookup ? sidr_text(kSidrReject) : reject_text(reason)));
  if (lookup) {
    send_last(
        c, make_sidr_rep(c.transaction_id, c.remote_id, kSidrReject, c.service, {}, private_data));
    return linger(now, c);
  }
  const uint8_t message = c.state == State::kRepReceived ? kOfRep
                          : c.state == State::kReqReceived || c.state == State::kMraSent
                              ? kOfReq
                              : kOfNothing;
  send_last(c, make_rej(c.transaction_id, c.local_id, c.remote_id, message, reason, private_data));
  linger(now, c);
}

}  // namespace verbena::cm
