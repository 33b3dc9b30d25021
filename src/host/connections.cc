// Datagrams to QP1 always take the wire, to this host too: the broker that reads them is no
// neighbour in shared memory.
#include "host/connections.h"

#include <cstring>

namespace verbena::host {
namespace {

constexpr uint32_t kManagementQp = 1;
constexpr uint32_t kManagementQkey = 0x80010000;  // IBA 9.8.1
constexpr Duration kReconnect = milliseconds(5);  // between two looks for the next broker

engine::Gid gid(const uint8_t (&bytes)[16]) {
  engine::Gid out;
  std::memcpy(out.bytes.data(), bytes, sizeof(bytes));
  return out;
}

}  // namespace

uint32_t Connections::receive(Instant now, bool look) {
  uint32_t taken = 0;
  if (look || line_->lost()) {
    taken = static_cast<uint32_t>(line_->receive([&](const broker::MadMessage& message) {
      cm::Route back;
      back.source = gid(message.destination);
      back.destination = gid(message.source);
      back.traffic_class = message.traffic_class;
      manager_.receive(now, back, message.mad);
    }));
  }
  if (manager_.next_deadline() <= now) manager_.on_time(now);
  return taken;
}

bool Connections::put_out(engine::PacketSink& out, Sink sink) {
  // In this order: whoever hears of an event may end the process.
  write_rows();
  outgoing_.swap(manager_.outgoing());
  for (cm::OutgoingMad& mad : outgoing_) {
    engine::AddressVector route;
    route.source = mad.route.source;
    route.destination = mad.route.destination;
    route.traffic_class = mad.route.traffic_class;
    route.hop_limit = mad.route.hop_limit;
    route.flow_label = mad.route.flow_label;
    memory::Segment segment{mad.bytes.data(), mad.bytes.size()};
    engine::TxPacket packet;
    packet.route = &route;
    packet.source_qpn = kManagementQp;
    packet.header.opcode = wire::Opcode::kUdSendOnly;
    packet.header.dest_qpn = kManagementQp;
    packet.header.psn = psn_;
    packet.header.deth = {kManagementQkey, kManagementQp};
    packet.payload = {{&segment, 1}, static_cast<uint32_t>(mad.bytes.size()), nullptr};
    psn_ += 1;
    out.send(packet);
  }
  const bool sent = !outgoing_.empty();
  outgoing_.clear();
  events_.swap(manager_.events());
  for (cm::Event& event : events_)
    if (sink != nullptr) sink(std::move(event));
  events_.clear();
  return sent;
}

void Connections::write_rows() {
  std::vector<cm::ChangedRow>& changed = manager_.changed_rows();
  for (const cm::ChangedRow& row : changed) broker::write_row(rows_, row.index, row.row);
  changed.clear();
}

Instant Connections::next_deadline(Instant now) const {
  const Instant machine = manager_.next_deadline();
  return line_->lost() ? std::min(machine, now + kReconnect) : machine;
}

}  // namespace verbena::host
