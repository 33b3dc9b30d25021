// Everything here comes from the wire: what is no datagram to QP 1 with its Q_Key and a whole MAD
// is dropped.
#include "broker/management.h"

#include <cstring>

#include "memory/payload.h"

namespace verbena::broker {
namespace {

constexpr uint32_t kManagementQp = 1;
constexpr uint32_t kManagementQkey = 0x80010000;  // IBA 9.8.1

}  // namespace

Result<std::unique_ptr<Management>> Management::open(const SlotSockets& zero, uint16_t port) {
  link::UdpOptions options;
  options.udp4 = zero.udp4.get();
  options.udp6 = zero.udp6.get();
  options.slot = 0;
  options.port = port;
  options.segmentation = false;
  options.interface_of = [](const engine::AddressVector&) { return 0u; };
  Result<std::unique_ptr<link::UdpLink>> udp = link::UdpLink::open(options);
  if (!udp) return tl::unexpected<Error>(udp.error());
  std::unique_ptr<Management> made(new Management);
  made->udp_ = std::move(*udp);
  return made;
}

void Management::receive(Deliver deliver) {
  udp_->receive([&](const engine::RxPacket& packet) { on_packet(packet, deliver); },
                [](uint8_t, const engine::RxPacket&) { return false; }, /*thorough=*/true);
  udp_->flush();
}

void Management::on_packet(const engine::RxPacket& packet, Deliver deliver) {
  const wire::Packet& header = packet.header;
  if (header.opcode != wire::Opcode::kUdSendOnly || header.dest_qpn != kManagementQp ||
      header.deth.qkey != kManagementQkey || packet.payload.length != cm::kMadBytes)
    return;
  MadMessage message;
  message.traffic_class = packet.traffic_class;
  message.hop_limit = packet.hop_limit;
  std::memcpy(message.source, packet.source.bytes.data(), sizeof(message.source));
  std::memcpy(message.destination, packet.destination.bytes.data(), sizeof(message.destination));
  if (!packet.payload.copy_out(0, message.mad, cm::kMadBytes)) return;
  const std::optional<cm::Destination> to = cm::destination_of(message.mad);
  if (!to || deliver(*to, message)) return;
  if (const auto answer = cm::answer_for_nobody(message.mad)) {
    cm::Route back;
    back.source = packet.destination;
    back.destination = packet.source;
    send(back, *answer);
  }
}

void Management::send(const cm::Route& route, std::span<const uint8_t, cm::kMadBytes> mad) {
  engine::AddressVector where;
  where.source = route.source;
  where.destination = route.destination;
  where.traffic_class = route.traffic_class;
  where.hop_limit = route.hop_limit;
  memory::Segment segment{const_cast<uint8_t*>(mad.data()), cm::kMadBytes};
  engine::TxPacket packet;
  packet.route = &where;
  packet.source_qpn = kManagementQp;
  packet.header.opcode = wire::Opcode::kUdSendOnly;
  packet.header.dest_qpn = kManagementQp;
  packet.header.psn = psn_;
  packet.header.deth = {kManagementQkey, kManagementQp};
  packet.payload = {{&segment, 1}, cm::kMadBytes, nullptr};
  psn_ += 1;
  udp_->send(packet);  // a full socket loses it, as the wire might
}

}  // namespace verbena::broker
