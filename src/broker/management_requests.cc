// The broker's half of the connection managers: who has which port, whose a datagram is, and the
// last word for processes that were killed.
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "broker/connection_rows.h"
#include "broker/server.h"
#include "broker/slot_segment.h"

namespace verbena::broker {
namespace {

constexpr size_t kMaxLate = 4096;  // datagrams that wait for one process

}  // namespace

// After a takeover the processes tell their ports first, or their peers would hear that nobody
// listens; meanwhile datagrams wait in the socket.
void Server::watch_slot_zero() {
  if (slot_zero_from_ < 0 || now_ms() < slot_zero_from_) return;
  slot_zero_from_ = -1;
  const SlotSockets& zero = custody_.sockets().at(0);
  watch(zero.udp4.get(), tag(Tag::kSlotZero));
  if (zero.udp6.valid()) watch(zero.udp6.get(), tag(Tag::kSlotZero));
}

void Server::on_slot_zero() {
  if (!management_) {
    Result<std::unique_ptr<Management>> opened =
        Management::open(custody_.sockets().at(0), custody_.sockets().port());
    if (opened) management_ = std::move(*opened);
  }
  if (!management_) {  // no descriptor left: at least nothing stays in the buffer
    custody_.sockets().drain(0);
    return;
  }
  management_->receive([this](const cm::Destination& to, const MadMessage& message) {
    return deliver(to, message);
  });
}

int Server::look_again() {
  if (!management_) return -1;
  return management_->look_again(now_ms(),
                                 [this](const cm::Destination& to, const MadMessage& message) {
                                   return deliver(to, message);
                                 });
}

// perftest's client looks a datagram service up before its server has bound the port, and makes its
// second connection while the server is between two listeners: without an adapter's slower calls
// it would often come first.
Management::Fate Server::deliver(const cm::Destination& to, const MadMessage& message) {
  using Fate = Management::Fate;
  if (to.to_all) {
    for (uint32_t each = link::kFirstSlot; each <= link::kLastSlot; ++each)
      if (custody_.lease(each).used) forward(custody_.lease(each).manager, message, false);
    return Fate::kTaken;
  }
  std::optional<uint32_t> slot = to.slot;
  if (to.by_service) {
    const auto space = static_cast<uint16_t>(to.service_id >> 16);
    const auto port = static_cast<uint16_t>(to.service_id);
    slot = ports_.owner(space, port, to.address);
    const bool datagrams = cm::is_datagram(static_cast<cm::PortSpace>(space));
    if (!slot && (datagrams || ports_.just_left(space, port, now_ms()))) return Fate::kNobodyYet;
  }
  if (!slot || !link::is_process_slot(*slot) || !custody_.lease(*slot).used) return Fate::kNobody;
  const int manager = custody_.lease(*slot).manager;
  // Between two brokers a process has none for a moment: its peer repeats the datagram.
  if (manager < 0) return now_ms() < lines_until_ ? Fate::kTaken : Fate::kNobody;
  forward(manager, message, true);
  return Fate::kTaken;
}

// A listener that a thousand peers call at once reads its line when it comes to it. What goes to
// every process does not wait: one packet would fill as many queues.
void Server::forward(int manager, const MadMessage& message, bool may_wait) {
  const auto found = connections_.find(manager);
  if (found == connections_.end()) return;
  Connection& to = found->second;
  if (!to.unsaid && to.late.empty() &&
      send_message(manager, &message, sizeof(message), {}, MSG_DONTWAIT) != EAGAIN)
    return;
  if (!may_wait || to.late.size() >= kMaxLate)
    return;  // as a wire might lose it: its sender repeats it
  to.late.push_back(message);
  watch_connection(to);
}

Reply Server::manage(Connection& from, const Request& request) {
  std::optional<uint32_t> slot = custody_.find(request.token);
  if (!slot || *slot != request.slot || from.slot)
    return refuse(ESTALE, "no process of this host has this slot");
  LeaseRow& lease = custody_.lease(*slot);
  const int older = lease.manager;
  end_management(*slot);
  close_connection(older);  // mute and open, its process would wait on it for ever
  lease.manager = from.fd.get();
  from.slot = *slot;
  from.manages = true;
  Reply reply;
  reply.slot = *slot;
  return reply;
}

Reply Server::bind_port(const Connection& from, const Request& request) {
  if (!from.manages || !from.slot) return refuse(EPROTO, "no connection manager's connection");
  Result<uint16_t> bound = ports_.bind(from.slot, request.service);
  if (!bound) return refuse(bound.error().code, bound.error().message);
  Reply reply;
  reply.slot = *bound;
  return reply;
}

void Server::end_management(uint32_t slot) {
  LeaseRow& lease = custody_.lease(slot);
  auto connection = connections_.find(lease.manager);
  if (connection != connections_.end()) connection->second.slot = 0;
  lease.manager = -1;
  ports_.forget(slot);
}

// A kernel would tell the peers of a killed process; here nobody else can.
void Server::say_goodbye_for(uint32_t slot) {
  const int segment = custody_.lease(slot).segment.get();
  for_each_row(segment, [this](const cm::Row& row) {
    const auto mad = cm::farewell(row);
    if (!mad) return;
    if (!management_) {
      auto opened = Management::open(custody_.sockets().at(0), custody_.sockets().port());
      if (!opened) return;
      management_ = std::move(*opened);
    }
    management_->send(row.route, *mad);
  });
  if (management_) management_->flush();
}

}  // namespace verbena::broker
