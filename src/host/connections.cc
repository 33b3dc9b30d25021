// Datagrams go out by the road of all packets and come in by the broker.
#include "host/connections.h"

#include <cstring>

#include "cm/management_packet.h"

namespace verbena::host {
namespace {

engine::Gid gid(const uint8_t (&bytes)[16]) {
  engine::Gid out;
  std::memcpy(out.bytes.data(), bytes, sizeof(bytes));
  return out;
}

}  // namespace

uint32_t Connections::receive(Instant now, bool look) {
  uint32_t taken = 0;
  if (look || line_->busy()) {
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

bool Connections::deliver(engine::PacketSink& out, Sink sink) {
  // In this order: whoever hears of an event may end the process.
  write_rows();
  outgoing_.swap(manager_.outgoing());
  for (const cm::OutgoingMad& mad : outgoing_) cm::send_mad(out, mad.route, mad.bytes, psn_);
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
  return line_->busy() ? std::min(machine, now + milliseconds(line_->look_ms())) : machine;
}

std::vector<std::string> Connections::explanations() {
  std::vector<std::string> texts;
  texts.swap(manager_.explanations());
  std::vector<std::string>& more = line_->explanations();
  texts.insert(texts.end(), more.begin(), more.end());
  more.clear();
  return texts;
}

}  // namespace verbena::host
