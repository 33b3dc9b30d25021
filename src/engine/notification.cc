// Congestion notifications of a queue pair: marks that arrive become CNPs (IBA A17.9.3) or ride on
// acknowledgements; CNPs that arrive slow it down.
#include "engine/device.h"
#include "engine/queue_pair.h"

namespace verbena::engine {

// A packet that was marked, brought telemetry, or may carry out what an earlier mark asked for.
// Acknowledgements do not count: what slows down
// for them sends no data.
void QueuePair::note_congestion(Instant now, const RxPacket& packet) {
  const std::optional<NpSettings>& settings = device_.options().notification;
  wire::Operation operation = wire::opcode_info(packet.header.opcode).operation;
  if (!settings || type() == QpType::kUd || operation == wire::Operation::kAcknowledge ||
      operation == wire::Operation::kAtomicAcknowledge)
    return;
  if (!notification_) {
    notification_ = std::make_unique<Notification>();
    notification_->route = attributes_.route;
    notification_->route.traffic_class = static_cast<uint8_t>(settings->cnp_dscp << 2);
    notification_->route.service_level = settings->cnp_802p_prio;
  }
  if (packet.telemetry) notification_->telemetry = *packet.telemetry;
  if (notification_->arrived(now, (packet.traffic_class & 3) == 3, *settings))
    device_.owe_notification(this);
}

bool QueuePair::send_notification(PacketSink& sink) {
  TxPacket packet;
  memory::Segment reserved;
  memory::zero_segments(wire::kCnpReservedBytes, {&reserved, 1});
  packet.payload = {{&reserved, 1}, wire::kCnpReservedBytes, nullptr};
  packet.route = &notification_->route;
  packet.path = attributes_.path;
  packet.source_qpn = qpn_;
  packet.header.opcode = wire::Opcode::kCnp;
  packet.header.dest_qpn = attributes_.dest_qpn;
  packet.header.becn = true;
  if (!sink.send(packet)) return false;
  Counters& counters = device_.counters();
  ++counters.np_cnp_sent;
  ++counters.port_xmit_packets;
  return true;
}

void QueuePair::receive_notification(Instant now, const RxPacket& packet) {
  const AddressVector& route = attributes_.route;
  bool connected = state() == QpState::kRtr || state() == QpState::kRts || state() == QpState::kSqd;
  if (!pacing_ || !connected || packet.source != route.destination ||
      packet.destination != route.source)
    return;
  pacing_->control().on_cnp(now);
}

}  // namespace verbena::engine
