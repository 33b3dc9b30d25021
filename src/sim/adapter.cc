// Frames to packets and back; see adapter.h.
#include "sim/adapter.h"

#include <algorithm>

#include "base/check.h"
#include "engine/congestion/control.h"
#include "wire/headers.h"
#include "wire/telemetry.h"

namespace verbena::sim {

using fabric::PacketId;
using fabric::Time;

namespace {

// Polled after every step, which completes few work requests of one queue pair.
constexpr uint32_t kCompletions = 256;
constexpr uint32_t kFirstQpnBase = 1 << 16;
constexpr uint32_t kEthernetBytes = 14, kFcsBytes = 4, kLeastFrame = 64;
constexpr uint32_t kIpUdpBytes = 28;

uint32_t host_number(const engine::Gid& gid) {
  return (uint32_t{gid.bytes[13]} << 16 | uint32_t{gid.bytes[14]} << 8 | gid.bytes[15]) - 1;
}

engine::DeviceOptions device_options(const scenario::Adapter& settings, uint64_t bits_per_second,
                                     uint64_t seed) {
  engine::DeviceOptions options;
  options.seed = seed;
  options.wire_window_bytes = static_cast<uint32_t>(
      settings.window_bytes == 0 ? UINT32_MAX
                                 : std::min<uint64_t>(settings.window_bytes, UINT32_MAX));
  options.max_window_packets = 1u << 22;
  using Congestion = engine::CongestionSettings;
  const Congestion::Algorithm algorithm = settings.congestion.algorithm;
  bool each = algorithm == Congestion::kSwift || algorithm == Congestion::kHpcc;
  options.ack_interval = settings.ack_every == 0 && each ? 1 : settings.ack_every;
  options.loss_window = false;
  options.frame_overhead_bytes =
      settings.header_bytes != 0
          ? settings.header_bytes
          : kEthernetBytes + kIpUdpBytes + wire::kBthBytes + wire::kIcrcBytes + kFcsBytes +
                (algorithm == Congestion::kHpcc ? wire::kTelemetryBytes : 0);
  options.port_bits_per_second = bits_per_second;
  if (algorithm != Congestion::kNone) options.notification = settings.congestion.np;
  options.acknowledgements_apart = settings.ack_priority != scenario::Adapter::kSame;
  return options;
}

}  // namespace

engine::Gid fabric_gid(uint32_t host) {
  uint32_t n = host + 1;
  const uint8_t address[4] = {10, static_cast<uint8_t>(n >> 16), static_cast<uint8_t>(n >> 8),
                              static_cast<uint8_t>(n)};
  return engine::Gid::from_ipv4(address);
}

Adapter::Adapter(fabric::Network& network, uint32_t host, const scenario::Host& settings,
                 uint64_t bits_per_second, uint64_t seed)
    : network_(network),
      host_(host),
      settings_(settings.adapter),
      device_(std::make_unique<engine::Device>(
          device_options(settings.adapter, bits_per_second, seed))),
      completions_(std::make_unique<engine::CompletionQueue>(kCompletions)),
      scheduler_(settings.port.queues),
      gid_(fabric_gid(host)) {
  region_.domain = &domain_;
  region_.iova = kAbsentMemory;
  region_.base = reinterpret_cast<uint8_t*>(kAbsentMemory);
  region_.length = kAbsentMemory;
  region_.access =
      memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
  region_.backing = memory::Backing::kNull;
  // Numbers 0 and 1 are management's; what reads captures takes packets to them for such.
  device_->qpn_base(kFirstQpnBase);
  CHECK(device_->keys().insert(&region_) != 0);
}

Adapter::~Adapter() = default;

// --- out

uint8_t Adapter::priority_of(const engine::TxPacket& packet) const {
  using wire::Operation;
  Operation operation = wire::opcode_info(packet.header.opcode).operation;
  if (operation == Operation::kCnp) return settings_.congestion.np.cnp_802p_prio;
  if (settings_.ack_priority != scenario::Adapter::kSame && operation == Operation::kAcknowledge)
    return settings_.ack_priority;
  return packet.route->service_level & 7;
}

uint32_t Adapter::frame_bytes(const engine::TxPacket& packet) const {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
  if (settings_.ack_bytes != 0 && packet.payload.length == 0) return settings_.ack_bytes;
  if (settings_.header_bytes != 0) return settings_.header_bytes + packet.payload.length;
  uint32_t bytes = kEthernetBytes + kIpUdpBytes + info.header_length + packet.payload.length +
                   packet.header.pad_count + static_cast<uint32_t>(wire::kIcrcBytes) + kFcsBytes;
  if (collects(packet)) bytes += wire::kTelemetryBytes;
  if (packet.telemetry)
    bytes += static_cast<uint32_t>(wire::kTelemetryBytes +
                                   packet.telemetry->count * sizeof(wire::TelemetryHop));
  return std::max(kLeastFrame, bytes);
}

// Whether switches are to write telemetry into the packet: what the sender's own control slows.
bool Adapter::collects(const engine::TxPacket& packet) const {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
  return settings_.congestion.algorithm == engine::CongestionSettings::kHpcc && !info.response &&
         info.operation != wire::Operation::kCnp;
}

namespace {

// An acknowledgement takes back what the packet that it answers collected.
void echo_telemetry(const engine::Telemetry* from, fabric::PacketPool& pool, PacketId to) {
  fabric::Body& body = pool.body(to);
  body.hops = 0;
  if (!from) return;
  for (uint32_t i = 0; i < from->count; ++i) {
    const engine::Hop& hop = from->hops[i];
    pool.telemetry(to)[body.hops++] = {hop.bits_per_second, hop.transmitted_bytes, hop.queue_bytes,
                                       fabric::time_of(hop.at), hop.port};
  }
}

engine::Telemetry collected(fabric::PacketPool& pool, PacketId id) {
  engine::Telemetry out;
  for (; out.count < pool.body(id).hops; ++out.count) {
    const fabric::Telemetry& hop = pool.telemetry(id)[out.count];
    out.hops[out.count] = {hop.bits_per_second, hop.transmitted_bytes, hop.queue_bytes,
                           fabric::instant(hop.at), hop.port};
  }
  return out;
}

}  // namespace

bool Adapter::send(const engine::TxPacket& packet) {
  PacketId id = network_.pool().take();
  fabric::Packet& frame = network_.pool()[id];
  fabric::Body& body = network_.pool().body(id);
  frame.bytes = frame_bytes(packet);
  frame.source = host_;
  frame.destination = host_number(packet.route->destination);
  frame.dscp = packet.route->traffic_class >> 2;
  frame.ecn = packet.route->traffic_class & 3;
  frame.priority = frame.pcp = priority_of(packet);
  frame.ttl = packet.route->ttl();
  body.header = packet.header;
  body.payload_bytes = packet.payload.length;
  body.source_port =
      wire::udp_source_port(packet.route->flow_label, packet.source_qpn, packet.header.dest_qpn);
  frame.psn = packet.header.psn.value();
  frame.collects = collects(packet);
  body.hop_bytes = settings_.header_bytes == 0 ? sizeof(wire::TelemetryHop) : 0;
  echo_telemetry(packet.telemetry, network_.pool(), id);
  body.sent = network_.now();
  body.payload.clear();
  if (settings_.payload && packet.payload.length > 0) {
    body.payload.resize(packet.payload.length);
    packet.payload.copy_out(0, body.payload.data(), packet.payload.length);
  }
  frame.flow_hash = fabric::flow_hash(frame.source, frame.destination, body.source_port);
  wire::Operation operation = wire::opcode_info(packet.header.opcode).operation;
  counters_.cnps += operation == wire::Operation::kCnp;
  counters_.acknowledgements += operation == wire::Operation::kAcknowledge;
  if (to_queue_) {
    waiting_[frame.priority].push(network_.pool(), id);
    waiting_mask_ |= static_cast<uint8_t>(1u << frame.priority);
  } else {
    CHECK(taken_ == fabric::kNoPacket);
    taken_ = id;
  }
  return true;
}

PacketId Adapter::next(Time now, uint8_t open) {
  taken_ = fabric::kNoPacket;
  uint8_t lanes = device_->lanes_ready();
  for (;;) {
    auto ready = static_cast<uint8_t>((waiting_mask_ | lanes) & open);
    if (ready == 0) break;
    uint32_t lane = scheduler_.pick(ready, [&](uint32_t p) {
      if ((waiting_mask_ >> p & 1) != 0) return network_.pool()[waiting_[p].head].bytes;
      return settings_.path_mtu;
    });
    auto bit = static_cast<uint8_t>(1u << lane);
    if ((waiting_mask_ & bit) != 0) {
      taken_ = waiting_[lane].pop(network_.pool());
      if (waiting_[lane].empty()) waiting_mask_ = static_cast<uint8_t>(waiting_mask_ & ~bit);
      break;
    }
    device_->transmit(fabric::instant(now), *this, 1, bit);
    if (taken_ != fabric::kNoPacket) break;
    lanes = device_->lanes_ready();
  }
  arm();
  PacketId id = taken_;
  taken_ = fabric::kNoPacket;
  return id;
}

// --- in

void Adapter::receive(Time now, PacketId id) {
  engine::RxPacket packet;
  {
    const fabric::Packet& frame = network_.pool()[id];
    fabric::Body& body = network_.pool().body(id);
    packet.header = body.header;
    packet.payload.length = body.payload_bytes;
    memory::Segment bytes{body.payload.data(), body.payload.size()};
    if (!body.payload.empty()) packet.payload.segments = {&bytes, 1};
    packet.source = fabric_gid(frame.source);
    packet.destination = gid_;
    packet.traffic_class = static_cast<uint8_t>(frame.dscp << 2 | frame.ecn);
    packet.hop_limit = frame.ttl;
    engine::Telemetry telemetry;
    if (body.hops > 0) {
      telemetry = collected(network_.pool(), id);
      packet.telemetry = &telemetry;
    }
    if (wire::opcode_info(body.header.opcode).operation != wire::Operation::kCnp)
      counters_.data_bytes += body.payload_bytes;
    device_->receive(fabric::instant(now), packet);
  }
  network_.release(id);
  after_step();
}

void Adapter::on_time(Time now) {
  device_->on_time(fabric::instant(now));
  after_step();
}

void Adapter::kick() {
  after_step();
}

void Adapter::after_step() {
  to_queue_ = true;
  device_->transmit_answers(fabric::instant(network_.now()), *this);
  to_queue_ = false;
  while (const engine::WorkCompletion* front = completions_->front()) {
    engine::WorkCompletion completion = *front;
    completions_->pop();
    if (on_completion) on_completion(completion);
  }
  device_->events().clear();
  arm();
  if ((waiting_mask_ | device_->lanes_ready()) != 0) network_.wake(host_);
}

void Adapter::arm() {
  network_.set_timer(host_, fabric::time_of(device_->next_deadline()));
}

}  // namespace verbena::sim
