// A MAD's way in: each attribute has one function, and in it one switch on the state (IBA 12.9.7,
// the state transition tables).
#include <cerrno>

#include <fmt/format.h>

#include "cm/machine.h"

namespace verbena::cm {

using namespace wire;

namespace {

std::vector<uint8_t> bytes_of(std::span<const uint8_t> from) {
  return {from.begin(), from.end()};
}

// 0: no match; 1: any address; 2: this address.
int match(const Listener& listener, const Incoming& incoming) {
  if (listener.space != incoming.space || listener.port != incoming.destination_port) return 0;
  const engine::Gid& wanted = incoming.destination_address;
  if (listener.address == wanted) return 2;
  static constexpr uint8_t kZero[4] = {};
  if (listener.address == engine::Gid::from_ipv4(kZero)) return wanted.is_ipv4();
  if (listener.address != engine::Gid{}) return 0;
  return !(listener.one_family && wanted.is_ipv4());
}

// A peer, perhaps one that was started again, gives the comm id of something over to something new.
bool is_reused(const Connection& older, uint64_t transaction) {
  return older.state == State::kTimewait && older.transaction_id != transaction;
}

}  // namespace

void Manager::Impl::dispatch(Instant now, const Route& back, std::span<const uint8_t> mad) {
  switch (attribute_of(load<MadHeader>(mad.data()))) {
    case CmAttribute::kReq:
      return on_req(now, back, mad);
    case CmAttribute::kMra:
      return on_mra(now, back, body_of<CmMra>(mad));
    case CmAttribute::kRej:
      return on_rej(now, back, body_of<CmRej>(mad));
    case CmAttribute::kRep:
      return on_rep(back, mad);
    case CmAttribute::kRtu:
      return on_rtu(back, body_of<CmRtu>(mad));
    case CmAttribute::kDreq:
      return on_dreq(now, back, mad);
    case CmAttribute::kDrep:
      return on_drep(now, back, body_of<CmDrep>(mad));
    case CmAttribute::kSidrReq:
      return on_sidr_req(now, back, mad);
    case CmAttribute::kSidrRep:
      return on_sidr_rep(back, body_of<CmSidrRep>(mad));
    case CmAttribute::kLap:
    case CmAttribute::kApr:
      ++manager.counters_.unknown;  // no alternate paths here
      return explain(fmt::format("dropped a LAP or APR of {}", address_text(back.destination)));
  }
}

// An exact address before any; among equals one that listens.
Listener* Manager::Impl::listener_for(const Incoming& incoming) {
  Listener* best = nullptr;
  int best_rank = 0;
  for (Listener& listener : listeners) {
    const int matched = match(listener, incoming);
    const int rank = matched == 0 ? 0 : matched + (listener.listening ? 2 : 0);
    if (rank > best_rank) {
      best_rank = rank;
      best = &listener;
    }
  }
  return best;
}

// A request for a port that is bound and does not listen yet. False: no room.
bool Manager::Impl::hold(Instant now, const Route& back, std::span<const uint8_t> mad) {
  for (const HeldRequest& request : held)
    if (request.back.destination == back.destination &&
        std::equal(mad.begin(), mad.end(), request.mad.begin()))
      return true;
  if (held.size() >= kMaxHeld) return false;
  HeldRequest& request = held.emplace_back();
  request.deadline = now + options.listen_grace;
  request.back = back;
  std::copy(mad.begin(), mad.end(), request.mad.begin());
  return true;
}

// IBA 12.9.8.3.1: the peer's queue pair is connected as far as we know. True when it was, and was
// said so. One in timewait is not, as for Linux: the peer knows best when its own number has
// rested, and a program that is run twice in a row may have the same one.
bool Manager::Impl::is_stale(Instant now, const Route& back, uint64_t transaction,
                             const CmReq& req) {
  const auto found = queue_pairs.find(QpKey{back.destination, req.qpn});
  if (found == queue_pairs.end()) return false;
  Connection& older = connections[found->second];
  explain(fmt::format("rejected a request of {}: its QP {:#08x} has a connection in state {}: {}",
                      address_text(back.destination), static_cast<uint32_t>(req.qpn),
                      state_name(older.state), reject_text(kRejStale)));
  send(back, make_rej(transaction, 0, req.local_comm_id, kOfReq, kRejStale));
  if (older.state == State::kEstablished) begin_disconnect(now, older);
  return true;
}

void Manager::Impl::on_req(Instant now, const Route& back, std::span<const uint8_t> mad) {
  const auto req = body_of<CmReq>(mad);
  const uint64_t transaction = load<MadHeader>(mad.data()).transaction_id;
  const auto repeated = peers.find(PeerKey{back.destination, req.local_comm_id, false});
  if (repeated != peers.end()) {
    Connection& older = connections[repeated->second];
    if (!is_reused(older, transaction)) return on_repeated_req(now, older, transaction, req);
    peers.erase(repeated);
  }

  Incoming incoming;
  uint16_t reason = read_req(req, back, incoming);
  Listener* listener = reason == 0 ? listener_for(incoming) : nullptr;
  const bool connects = req.service_id >> 32 == 0 && !is_datagram(incoming.space);
  if (reason == 0 && (!connects || !listener)) reason = kRejInvalidService;
  if (reason != 0) {
    explain(fmt::format("rejected a request of {} for port {}: {}", address_text(back.destination),
                        incoming.destination_port, reject_text(reason)));
    return send(back, make_rej(transaction, 0, req.local_comm_id, kOfReq, reason));
  }
  if (!listener->listening) {
    if (!hold(now, back, mad)) explain("dropped a request: too many wait for a listen()");
    return;
  }
  if (is_stale(now, back, transaction, req)) return;
  // As Linux: silence, so that the peer tries again.
  if (listener->pending >= listener->backlog)
    return explain(
        fmt::format("dropped a request of {} for port {}: its backlog of {} is full; the"
                    " peer tries again, rdma_listen takes a larger one",
                    address_text(back.destination), listener->port, listener->backlog));
  Connection* c = create();
  if (!c) return explain(fmt::format("dropped a request: {} connections", kMaxConnections));
  c->route = incoming.route;
  c->service = req.service_id;
  c->transaction_id = transaction;
  c->remote_id = req.local_comm_id;
  c->remote_qpn = req.qpn;
  c->ack_timeout = incoming.ack_timeout;
  c->max_retries = req.retries >> 4;
  c->wait = response_time(req.local_timeout >> 3);
  c->linger = linger_time(req.remote_timeout >> 3);
  peers[{back.destination, c->remote_id, false}] = c->handle.index;
  queue_pairs[{back.destination, c->remote_qpn}] = c->handle.index;
  set_state(*c, State::kReqReceived);
  deliver(*c, *listener, std::move(incoming),
          std::span(req.private_data).subspan(sizeof(CmIpHeader)));
}

void Manager::Impl::deliver(Connection& c, const Listener& listener, Incoming incoming,
                            std::span<const uint8_t> private_data) {
  c.listener = listener.handle;
  c.pending = true;
  ++find_listener(listener.handle)->pending;
  incoming.listener = listener.handle;
  Event& event = emit(c, EventType::kRequest);
  event.qp = incoming.qp;
  event.private_data = bytes_of(private_data);
  event.incoming = std::move(incoming);
}

// IBA 12.9.8.3: the answer that the peer did not get.
void Manager::Impl::on_repeated_req(Instant now, Connection& c, uint64_t transaction,
                                    const CmReq& req) {
  ++manager.counters_.duplicates;
  if (c.transaction_id != transaction) {
    explain(fmt::format("rejected a request of {}: its comm id {:#x} has another connection: {}",
                        address_text(c.route.destination), c.remote_id,
                        reject_text(kRejDuplicateCommId)));
    return send(c.route, make_rej(transaction, 0, req.local_comm_id, kOfReq, kRejDuplicateCommId));
  }
  switch (c.state) {
    case State::kReqReceived:
      set_state(c, State::kMraSent);
      [[fallthrough]];
    case State::kMraSent:
      return send(c.route, make_mra(c.transaction_id, c.local_id, c.remote_id, kOfReq));
    case State::kRepSent:
      return send(c.route, c.last);
    case State::kTimewait:
      if (!c.has_last) return;
      send(c.route, c.last);
      return arm(c, now + c.linger);
    default:
      return;  // it came late: the peer is further
  }
}

void Manager::Impl::on_sidr_req(Instant now, const Route& back, std::span<const uint8_t> mad) {
  const auto req = body_of<CmSidrReq>(mad);
  const uint64_t transaction = load<MadHeader>(mad.data()).transaction_id;
  const auto repeated = peers.find(PeerKey{back.destination, req.request_id, true});
  if (repeated != peers.end()) {
    Connection& c = connections[repeated->second];
    if (!is_reused(c, transaction)) {
      ++manager.counters_.duplicates;
      if (c.state != State::kTimewait || !c.has_last) return;
      send(c.route, c.last);
      return arm(c, now + c.linger);
    }
    peers.erase(repeated);
  }
  const uint64_t service = req.service_id;
  Incoming incoming;
  incoming.route = back;
  incoming.space = static_cast<PortSpace>(static_cast<uint16_t>(service >> 16));
  incoming.destination_port = static_cast<uint16_t>(service);
  incoming.datagram = true;
  incoming.pkey = req.pkey;
  const bool read = read_addresses(req.private_data, back, incoming);
  const bool datagrams = service >> 32 == 0 && is_datagram(incoming.space);
  Listener* listener = read && datagrams ? listener_for(incoming) : nullptr;
  if (!listener) {
    explain(fmt::format("refused a SIDR_REQ of {} for port {}: no datagram service",
                        address_text(back.destination), incoming.destination_port));
    return send(back, *answer_for_nobody(mad));
  }
  if (!listener->listening) {
    if (!hold(now, back, mad)) explain("dropped a SIDR_REQ: too many wait for a listen()");
    return;
  }
  Connection* c = listener->pending < listener->backlog ? create() : nullptr;
  if (!c) return explain(fmt::format("dropped a SIDR_REQ for port {}: no room", listener->port));
  c->datagram = true;
  c->route = back;
  c->service = service;
  c->transaction_id = transaction;
  c->remote_id = req.request_id;
  c->linger = linger_time(options.response_timeout);
  peers[{back.destination, c->remote_id, true}] = c->handle.index;
  set_state(*c, State::kSidrReqReceived);
  deliver(*c, *listener, std::move(incoming),
          std::span(req.private_data).subspan(sizeof(CmIpHeader)));
}

// IBA 12.6.6: the peer needs longer. Once for each message, so that nobody is held for ever.
void Manager::Impl::on_mra(Instant now, const Route& back, const CmMra& mra) {
  Connection* c = by_comm_id(mra.remote_comm_id, back);
  const uint8_t message = mra.message & 0xc0;
  const Duration longer = response_time(mra.service_timeout >> 3);
  if (c && c->state == State::kReqSent && !c->datagram && message == kOfReq) {
    c->remote_id = mra.local_comm_id;
    set_state(*c, State::kRepWait);
    return arm(*c, now + c->wait + longer);
  }
  const bool knows_us = c && c->remote_id == mra.local_comm_id;
  if (knows_us && c->state == State::kRepSent && message == kOfRep && !c->mra_sent) {
    c->mra_sent = true;
    return arm(*c, now + c->wait + longer);
  }
  ++(c ? manager.counters_.duplicates : manager.counters_.unknown);
}

void Manager::Impl::on_rej(Instant now, const Route& back, const CmRej& rej) {
  Connection* c = by_comm_id(rej.remote_comm_id, back);
  if (!c && rej.remote_comm_id == 0) {  // gave up its REQ without having seen an answer
    const auto found = peers.find(PeerKey{back.destination, rej.local_comm_id, false});
    if (found != peers.end()) c = &connections[found->second];
    // Anybody can name no id of ours: it ends nothing that stands.
    const bool unanswered = c && (c->state == State::kReqReceived || c->state == State::kMraSent ||
                                  c->state == State::kRepSent);
    if (!unanswered) c = nullptr;
  }
  if (!c || c->datagram) {
    ++manager.counters_.unknown;
    return;
  }
  const uint16_t reason = rej.reason;
  const bool knows_us = rej.local_comm_id == c->remote_id;
  const auto rejected = [&] {
    explain(fmt::format("{} rejected the connection in state {}: {}", peer_text(*c),
                        state_name(c->state), reject_text(reason)));
    c->has_last = false;
    emit(*c, EventType::kRejected, reason).private_data = bytes_of(rej.private_data);
  };
  switch (c->state) {
    case State::kRepWait:
      // One who answers without a connection of his own names none (IBA 12.6.7).
      if (!knows_us && rej.local_comm_id != 0) break;
      [[fallthrough]];
    case State::kReqSent:
      rejected();
      if (reason == kRejStale) return enter_timewait(now, *c, true);
      return become_idle(*c);
    case State::kReqReceived:
    case State::kMraSent:
    case State::kRepSent:
      if (!knows_us) break;
      rejected();
      return linger(now, *c);
    case State::kRepReceived:
      if (!knows_us) break;
      rejected();
      return enter_timewait(now, *c, true);
    case State::kEstablished:
    case State::kDreqSent:
      if (!knows_us) break;  // of an earlier answer to a REQ that was sent again
      explain(fmt::format("{} ended the connection of QP {:#08x}: {}",
                          address_text(c->route.destination), c->local_qpn, reject_text(reason)));
      emit(*c, EventType::kDisconnected);
      return enter_timewait(now, *c, true);
    default:
      break;
  }
  ++manager.counters_.duplicates;
}

void Manager::Impl::on_rep(const Route& back, std::span<const uint8_t> mad) {
  const auto rep = body_of<CmRep>(mad);
  Connection* c = by_comm_id(rep.remote_comm_id, back);
  const bool waits = c && !c->datagram &&
                     (c->state == State::kReqSent ||
                      (c->state == State::kRepWait && c->remote_id == rep.local_comm_id));
  if (!waits && (!c || !c->active || c->remote_id != rep.local_comm_id)) {
    ++manager.counters_.unknown;
    explain(fmt::format("rejected a REP of {}: {}", address_text(back.destination),
                        reject_text(kRejInvalidCommId)));
    return send(back, *answer_for_nobody(mad));
  }
  if (waits) {
    arm(*c, kNever);
    c->remote_id = rep.local_comm_id;
    c->remote_qpn = rep.qpn;
    queue_pairs[{c->route.destination, c->remote_qpn}] = c->handle.index;
    set_state(*c, State::kRepReceived);
    Event& event = emit(*c, EventType::kResponse);
    event.qp.qpn = rep.qpn;
    event.qp.qkey = rep.qkey;
    event.qp.starting_psn = rep.starting_psn;
    event.qp.responder_resources = rep.responder_resources;
    event.qp.initiator_depth = rep.initiator_depth;
    event.qp.rnr_retry_count = rep.rnr_retry >> 5;
    event.qp.flow_control = rep.ack_delay & 1;
    event.qp.srq = rep.rnr_retry & 0x10;
    event.private_data = bytes_of(rep.private_data);
    return;
  }
  ++manager.counters_.duplicates;
  switch (c->state) {
    case State::kRepReceived:
      return send(c->route, make_mra(c->transaction_id, c->local_id, c->remote_id, kOfRep));
    case State::kEstablished:  // the RTU was lost
    case State::kTimewait:     // or our REJ
      if (c->has_last) send(c->route, c->last);
      return;
    default:
      return;
  }
}

void Manager::Impl::on_rtu(const Route& back, const CmRtu& rtu) {
  Connection* c = by_comm_id(rtu.remote_comm_id, back);
  if (!c || c->remote_id != rtu.local_comm_id || c->datagram) {
    ++manager.counters_.unknown;
    return;
  }
  if (c->state != State::kRepSent) {
    ++manager.counters_.duplicates;
    return;
  }
  arm(*c, kNever);
  set_state(*c, State::kEstablished);
  emit(*c, EventType::kEstablished).private_data = bytes_of(rtu.private_data);
}

void Manager::Impl::on_dreq(Instant now, const Route& back, std::span<const uint8_t> mad) {
  const auto dreq = body_of<CmDreq>(mad);
  const uint64_t transaction = load<MadHeader>(mad.data()).transaction_id;
  Connection* c = by_comm_id(dreq.remote_comm_id, back);
  if (!c || c->datagram || c->remote_id != dreq.local_comm_id) {
    ++manager.counters_.unknown;
    return send(back, *answer_for_nobody(mad));
  }
  if (dreq.remote_qpn != c->local_qpn) {
    ++manager.counters_.unknown;
    return explain(fmt::format(
        "dropped a DREQ of {}: it names QP {:#08x}, the connection has"
        " QP {:#08x}",
        address_text(back.destination), static_cast<uint32_t>(dreq.remote_qpn), c->local_qpn));
  }
  switch (c->state) {
    case State::kRepSent:  // the RTU was lost, and this proves it
      emit(*c, EventType::kEstablished).private_data.assign(sizeof(CmRtu::private_data), 0);
      [[fallthrough]];
    case State::kEstablished:
      explain(
          fmt::format("{} ended the connection of QP {:#08x} (DREQ): its program disconnected,"
                      " destroyed the id, or ended or was killed",
                      address_text(back.destination), c->local_qpn));
      arm(*c, kNever);
      c->dreq_transaction_id = transaction;
      emit(*c, EventType::kDisconnected).private_data = bytes_of(dreq.private_data);
      return set_state(*c, State::kDreqReceived);
    case State::kDreqSent:  // both at once
      send(c->route, make_drep(transaction, c->local_id, c->remote_id));
      emit(*c, EventType::kDisconnected).private_data = bytes_of(dreq.private_data);
      return enter_timewait(now, *c, true);
    case State::kTimewait:
      ++manager.counters_.duplicates;
      return send(c->route, make_drep(transaction, c->local_id, c->remote_id));
    default:  // kDreqReceived: the program has not answered yet; before establish(): it comes again
      ++manager.counters_.duplicates;
      return;
  }
}

void Manager::Impl::on_drep(Instant now, const Route& back, const CmDrep& drep) {
  Connection* c = by_comm_id(drep.remote_comm_id, back);
  if (!c || c->remote_id != drep.local_comm_id || c->state != State::kDreqSent) {
    ++(c ? manager.counters_.duplicates : manager.counters_.unknown);
    return;
  }
  emit(*c, EventType::kDisconnected).private_data = bytes_of(drep.private_data);
  enter_timewait(now, *c, true);
}

void Manager::Impl::on_sidr_rep(const Route& back, const CmSidrRep& rep) {
  Connection* c = by_comm_id(rep.request_id, back);
  if (!c || c->state != State::kSidrReqSent) {
    ++(c ? manager.counters_.duplicates : manager.counters_.unknown);
    return;
  }
  if (rep.status != kSidrValid)
    explain(fmt::format("{} refused the lookup: {}", peer_text(*c), sidr_text(rep.status)));
  Event& event = emit(*c, EventType::kSidrResponse, rep.status);
  event.qp.qpn = rep.qpn;
  event.qp.qkey = rep.qkey;
  event.private_data = bytes_of(rep.private_data);
  become_idle(*c);
}

}  // namespace verbena::cm
