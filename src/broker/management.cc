// Everything here comes from the wire: what is no datagram to QP 1 with its Q_Key and a whole MAD
// is dropped.
#include "broker/management.h"

#include <cstring>

namespace verbena::broker {
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
  if (!cm::is_management(packet)) return;
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

}  // namespace verbena::broker
