// Both sides of queue pair 1 in one place: the broker sends for the dead as processes do for
// themselves.
#include "cm/management_packet.h"

namespace verbena::cm {

void send_mad(engine::PacketSink& out, const Route& route, std::span<const uint8_t, kMadBytes> mad,
              Psn& psn) {
  engine::AddressVector where;
  where.source = route.source;
  where.destination = route.destination;
  where.traffic_class = route.traffic_class;
  where.hop_limit = route.hop_limit;
  where.flow_label = route.flow_label;
  memory::Segment segment{const_cast<uint8_t*>(mad.data()), kMadBytes};
  engine::TxPacket packet;
  packet.route = &where;
  packet.source_qpn = kManagementQpn;
  packet.header.opcode = wire::Opcode::kUdSendOnly;
  packet.header.dest_qpn = kManagementQpn;
  packet.header.psn = psn;
  packet.header.deth = {kManagementQkey, kManagementQpn};
  packet.payload = {{&segment, 1}, kMadBytes, nullptr};
  psn += 1;
  out.send(packet);
}

bool is_management(const engine::RxPacket& packet) {
  const wire::Packet& header = packet.header;
  return header.opcode == wire::Opcode::kUdSendOnly && header.dest_qpn == kManagementQpn &&
         header.deth.qkey == kManagementQkey && packet.payload.length == kMadBytes;
}

}  // namespace verbena::cm
