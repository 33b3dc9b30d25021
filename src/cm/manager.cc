// What the program asks of the machine.
#include "cm/manager.h"

#include <cerrno>

#include <fmt/format.h>

#include "cm/machine.h"

namespace verbena::cm {

namespace {

tl::unexpected<Error> wrong_state(const char* call, const Connection* c) {
  return fail(EINVAL,
              fmt::format("{}: {}", call,
                          c ? fmt::format("the connection is in state {}", state_name(c->state))
                            : "no such connection"));
}

tl::unexpected<Error> too_long(size_t size, size_t room) {
  return fail(EINVAL, fmt::format("{} bytes of private data, the message holds {}", size, room));
}

}  // namespace

const char* state_name(State state) {
  switch (state) {
    case State::kIdle:
      return "IDLE";
    case State::kReqSent:
      return "REQ_SENT";
    case State::kRepWait:
      return "REP_WAIT";
    case State::kReqReceived:
      return "REQ_RCVD";
    case State::kMraSent:
      return "MRA_REQ_SENT";
    case State::kRepSent:
      return "REP_SENT";
    case State::kRepReceived:
      return "REP_RCVD";
    case State::kEstablished:
      return "ESTABLISHED";
    case State::kDreqSent:
      return "DREQ_SENT";
    case State::kDreqReceived:
      return "DREQ_RCVD";
    case State::kTimewait:
      return "TIMEWAIT";
    case State::kSidrReqSent:
      return "SIDR_REQ_SENT";
    case State::kSidrReqReceived:
      return "SIDR_REQ_RCVD";
  }
  return "unknown";
}

Manager::Manager(const Options& options) : impl_(std::make_unique<Impl>(*this, options)) {}
Manager::~Manager() = default;

Result<Handle> Manager::bind(PortSpace space, uint16_t port, const engine::Gid& address,
                             bool one_family) {
  if (impl_->listeners.size() >= kMaxListeners) return fail(ENOMEM, "too many bound ports");
  Listener listener;
  listener.handle = {~uint32_t{0}, impl_->next_generation++};
  listener.space = space;
  listener.port = port;
  listener.address = address;
  listener.one_family = one_family;
  impl_->listeners.push_back(listener);
  return listener.handle;
}

Result<void> Manager::listen(Handle handle, uint32_t backlog) {
  Listener* listener = impl_->find_listener(handle);
  if (!listener) return fail(EINVAL, "listen: no such port");
  listener->listening = true;
  listener->backlog = backlog == 0 ? kDefaultBacklog : std::min(backlog, kMaxConnections);
  // Requests that came too early; those that are not for this port are held again, as long as
  // before.
  std::deque<HeldRequest> early;
  early.swap(impl_->held);
  for (const HeldRequest& request : early) {
    const size_t before = impl_->held.size();
    impl_->dispatch(impl_->latest, request.back, request.mad);
    if (impl_->held.size() > before) impl_->held.back().deadline = request.deadline;
  }
  return {};
}

void Manager::request_taken(Handle connection) {
  if (Connection* c = impl_->find(connection)) impl_->taken(*c);
}

void Manager::close_listener(Instant now, Handle handle) {
  const Listener* found = impl_->find_listener(handle);
  if (!found) return;
  impl_->latest = now;
  impl_->listeners.erase(impl_->listeners.begin() + (found - impl_->listeners.data()));
  std::vector<Handle> unseen;
  for (const Event& event : events_)
    if (event.type == EventType::kRequest && event.incoming && event.incoming->listener == handle)
      unseen.push_back(event.connection);
  for (Handle connection : unseen) destroy(now, connection);
}

Result<Handle> Manager::connect(Instant now, const ConnectRequest& request) {
  const bool datagram = is_datagram(request.space);
  const size_t room = datagram ? kSidrUserBytes : kReqUserBytes;
  if (request.private_data.size() > room) return too_long(request.private_data.size(), room);
  Connection* c = impl_->create();
  if (!c) return fail(ENOMEM, fmt::format("{} connections are all there can be", kMaxConnections));
  impl_->latest = now;
  const Options& options = impl_->options;
  c->active = true;
  c->datagram = datagram;
  c->route = request.route;
  c->service = service_id(request.space, request.destination_port);
  c->transaction_id = impl_->transaction_high | c->local_id;
  c->local_qpn = request.qp.qpn & 0xffffff;
  c->ack_timeout = request.ack_timeout;
  c->max_retries = options.max_retries & 15;
  c->wait = response_time(options.response_timeout);
  c->linger = linger_time(options.response_timeout);
  impl_->set_state(*c, datagram ? State::kSidrReqSent : State::kReqSent);
  impl_->send_waiting(now, *c,
                      datagram ? make_sidr_req(request, c->local_id, c->transaction_id)
                               : make_req(request, options, c->local_id, c->transaction_id));
  return c->handle;
}

Result<void> Manager::accept(Instant now, Handle connection, const QpParameters& qp,
                             std::span<const uint8_t> private_data) {
  Connection* c = impl_->find(connection);
  if (!c) return wrong_state("accept", c);
  const bool datagram = c->state == State::kSidrReqReceived;
  if (!datagram && c->state != State::kReqReceived && c->state != State::kMraSent)
    return wrong_state("accept", c);
  const size_t room =
      datagram ? sizeof(wire::CmSidrRep::private_data) : sizeof(wire::CmRep::private_data);
  if (private_data.size() > room) return too_long(private_data.size(), room);
  impl_->latest = now;
  impl_->taken(*c);
  if (datagram) {
    impl_->send_last(*c, make_sidr_rep(c->transaction_id, c->remote_id, kSidrValid, c->service, qp,
                                       private_data));
    impl_->linger(now, *c);
    return {};
  }
  c->local_qpn = qp.qpn & 0xffffff;
  impl_->set_state(*c, State::kRepSent);
  impl_->send_waiting(now, *c,
                      make_rep(c->transaction_id, c->local_id, c->remote_id, impl_->options.ca_guid,
                               qp, private_data));
  return {};
}

Result<void> Manager::reject(Instant now, Handle connection, uint16_t reason,
                             std::span<const uint8_t> private_data) {
  Connection* c = impl_->find(connection);
  if (!c) return wrong_state("reject", c);
  switch (c->state) {
    case State::kReqReceived:
    case State::kMraSent:
    case State::kRepSent:
    case State::kRepReceived:
    case State::kSidrReqReceived:
      break;
    default:
      return wrong_state("reject", c);
  }
  const size_t room =
      c->datagram ? sizeof(wire::CmSidrRep::private_data) : sizeof(wire::CmRej::private_data);
  if (private_data.size() > room) return too_long(private_data.size(), room);
  impl_->latest = now;
  impl_->refuse(now, *c, reason, private_data);
  return {};
}

Result<void> Manager::establish(Instant now, Handle connection) {
  Connection* c = impl_->find(connection);
  if (!c || c->state != State::kRepReceived) return wrong_state("establish", c);
  impl_->latest = now;
  impl_->set_state(*c, State::kEstablished);
  impl_->send_last(*c, make_rtu(c->transaction_id, c->local_id, c->remote_id));
  impl_->emit(*c, EventType::kEstablished);
  return {};
}

Result<void> Manager::communication_established(Instant now, Handle connection) {
  Connection* c = impl_->find(connection);
  if (!c || c->state != State::kRepSent) return wrong_state("communication established", c);
  impl_->latest = now;
  impl_->arm(*c, kNever);
  impl_->set_state(*c, State::kEstablished);
  impl_->emit(*c, EventType::kEstablished);
  return {};
}

Result<void> Manager::disconnect(Instant now, Handle connection) {
  Connection* c = impl_->find(connection);
  if (!c || (c->state != State::kEstablished && c->state != State::kDreqReceived))
    return wrong_state("disconnect", c);
  impl_->latest = now;
  if (c->state == State::kEstablished) {
    impl_->begin_disconnect(now, *c);
  } else {
    impl_->send(c->route, make_drep(c->dreq_transaction_id, c->local_id, c->remote_id));
    impl_->enter_timewait(now, *c, true);
  }
  return {};
}

void Manager::destroy(Instant now, Handle connection) {
  Connection* c = impl_->find(connection);
  if (!c) return;
  impl_->latest = now;
  std::erase_if(events_, [&](const Event& event) { return event.connection == connection; });
  impl_->taken(*c);
  c->orphan = true;
  switch (c->state) {
    case State::kReqSent:
    case State::kRepWait:  // a REP that comes yet is rejected as unknown
      impl_->explain(fmt::format("gave up connecting to {}: the program destroyed the id: {}",
                                 peer_text(*c), reject_text(kRejTimeout)));
      impl_->send(c->route, make_rej(c->transaction_id, c->local_id, c->remote_id, kOfNothing,
                                     kRejTimeout, {}, impl_->options.ca_guid));
      impl_->become_idle(*c);
      break;
    case State::kReqReceived:
    case State::kMraSent:
    case State::kRepSent:
    case State::kRepReceived:
    case State::kSidrReqReceived:
      impl_->refuse(now, *c, kRejConsumer, {});
      break;
    case State::kEstablished:
      impl_->begin_disconnect(now, *c);
      break;
    case State::kDreqReceived:
      impl_->send(c->route, make_drep(c->dreq_transaction_id, c->local_id, c->remote_id));
      impl_->enter_timewait(now, *c, false);
      break;
    case State::kDreqSent:  // goes on until it is answered
    case State::kTimewait:  // goes on until it ends
      break;
    case State::kSidrReqSent:
      impl_->become_idle(*c);
      break;
    case State::kIdle:
      impl_->release(*c);
      break;
  }
}

State Manager::state(Handle connection) const {
  const Connection* c = impl_->find(connection);
  return c ? c->state : State::kIdle;
}

void Manager::receive(Instant now, const Route& back, std::span<const uint8_t> mad) {
  impl_->latest = now;
  ++counters_.received;
  if (!wire::is_cm_mad(mad)) {
    ++counters_.malformed;
    return impl_->explain(
        fmt::format("dropped {} bytes of {} at queue pair 1: no MAD of a connection manager",
                    mad.size(), address_text(back.destination)));
  }
  impl_->dispatch(now, back, mad);
}

void Manager::on_time(Instant now) {
  impl_->latest = now;
  impl_->end_held(now);
  auto& timers = impl_->timers;
  while (!timers.empty() && timers.begin()->first <= now)
    impl_->expire(now, impl_->connections[timers.begin()->second]);
}

Instant Manager::next_deadline() const {
  const Instant timer = impl_->timers.empty() ? kNever : impl_->timers.begin()->first;
  return impl_->held.empty() ? timer : std::min(timer, impl_->held.front().deadline);
}

std::vector<Row> Manager::rows() const {
  std::vector<Row> rows;
  for (const Connection& c : impl_->connections) {
    if (!c.used) continue;
    if (Row row = impl_->row_of(c); row.state != State::kIdle) rows.push_back(row);
  }
  return rows;
}

const Options& Manager::options() const {
  return impl_->options;
}

uint32_t Manager::next_generation() const {
  return impl_->next_generation;
}

size_t Manager::connection_count() const {
  return impl_->in_use;
}

}  // namespace verbena::cm
