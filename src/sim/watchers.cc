// Frames as a person or a dissector reads them; see watchers.h.
#include "sim/watchers.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>

#include "link/roce_frame.h"
#include "link/trace_lens.h"
#include "wire/pause.h"
#include "wire/pcapng.h"
#include "wire/telemetry.h"

namespace verbena::sim {

using fabric::Body;
using fabric::DropCause;
using fabric::Packet;
using fabric::PortId;
using fabric::Time;

// --- several

void Watchers::on_sent(Time now, PortId port, const Packet& packet, const Body& body) {
  for (Observer* watcher : watchers_) watcher->on_sent(now, port, packet, body);
}

void Watchers::on_received(Time now, PortId port, const Packet& packet, const Body& body) {
  for (Observer* watcher : watchers_) watcher->on_received(now, port, packet, body);
}

void Watchers::on_drop(Time now, PortId port, const Packet& packet, DropCause cause) {
  for (Observer* watcher : watchers_) watcher->on_drop(now, port, packet, cause);
}

// --- bytes

namespace {

void append_roce(std::vector<uint8_t>& to, const Packet& packet, const Body& body) {
  const memory::Segment bytes{const_cast<uint8_t*>(body.payload.data()), body.payload.size()};
  memory::Payload payload;
  payload.length = body.payload_bytes;
  if (!body.payload.empty()) payload.segments = {&bytes, 1};
  wire::DatagramHeaders headers;
  headers.source_port = body.source_port;
  headers.traffic_class = static_cast<uint8_t>(packet.dscp << 2 | packet.ecn);
  headers.hop_limit = packet.ttl;
  link::append_frame(to, body.header, payload, payload.length, fabric_gid(packet.source),
                     fabric_gid(packet.destination), headers);
}

// Telemetry as a trailer behind the IP packet, which readers of captures pass over: there is no
// header for it that they know. Its bytes are those that the frame had on the link.
void append_telemetry(std::vector<uint8_t>& to, std::span<const fabric::Telemetry> hops) {
  wire::TelemetryRecord records[fabric::kMaxTelemetry];
  for (size_t i = 0; i < hops.size(); ++i)
    records[i] = {hops[i].bits_per_second, static_cast<uint64_t>(hops[i].at / fabric::kNanosecond),
                  hops[i].transmitted_bytes, hops[i].queue_bytes, hops[i].port};
  size_t at = to.size();
  to.resize(at + wire::kTelemetryBytes + hops.size() * sizeof(wire::TelemetryHop));
  wire::emit_telemetry({to.data() + at, to.size() - at}, {records, hops.size()});
}

// The port that sent it: a host's own address, or the switch's with the number of the port.
void append_pause(std::vector<uint8_t>& to, const fabric::Network& network, PortId sender,
                  const fabric::PauseFrame& pause) {
  const fabric::Port& port = network.port(sender);
  uint8_t mac[6] = {0x02,
                    0x57,
                    static_cast<uint8_t>(port.node >> 8),
                    static_cast<uint8_t>(port.node),
                    static_cast<uint8_t>(port.number >> 8),
                    static_cast<uint8_t>(port.number)};
  if (port.is_host) link::put_mac(mac, fabric_gid(port.node));
  to.resize(wire::kPfcFrameBytes);
  const std::span<uint8_t, wire::kPfcFrameBytes> frame(to.data(), to.size());
  if (pause.link)
    wire::emit_link_pause(frame, mac, pause.quanta[0]);
  else
    wire::emit_pfc(frame, mac, pause.mask, pause.quanta);
}

}  // namespace

Capture::Capture(const Experiment& experiment, PortId port, Write write)
    : experiment_(experiment), port_(port), write_(std::move(write)) {
  wire::append_pcapng_begin(block_, "verbena sim", experiment.port_name(port),
                            experiment.network().port(port).link.bits_per_second);
  write_(block_);
}

void Capture::record(Time now, bool outbound, const Packet& packet, const Body& body) {
  frame_.clear();
  if (packet.kind == fabric::FrameKind::kPause)
    append_pause(frame_, experiment_.network(),
                 outbound ? port_ : experiment_.network().port(port_).peer, body.pause);
  else
    append_roce(frame_, packet, body);
  if (packet.kind == fabric::FrameKind::kRoce && body.hop_bytes != 0 &&
      (packet.collects || body.hops != 0))
    append_telemetry(frame_, experiment_.network().pool().telemetry_of(packet, body));
  block_.clear();
  wire::append_pcapng_packet(block_, static_cast<uint64_t>(now), frame_, outbound);
  write_(block_);
  ++frames_;
}

void Capture::on_sent(Time now, PortId port, const Packet& packet, const Body& body) {
  if (port == port_) record(now, true, packet, body);
}

void Capture::on_received(Time now, PortId port, const Packet& packet, const Body& body) {
  if (port == port_) record(now, false, packet, body);
}

// --- words

namespace {

const char* ecn_name(uint8_t ecn) {
  static constexpr const char* kNames[4] = {"not-ECT", "ECT(1)", "ECT(0)", "CE"};
  return kNames[ecn & 3];
}

std::string describe_pause(const fabric::PauseFrame& pause) {
  if (pause.link)
    return pause.quanta[0] == 0
               ? "PAUSE: the link goes on"
               : fmt::format("PAUSE: the link stops for {} quanta", pause.quanta[0]);
  std::string out = "PFC";
  for (uint32_t p = 0; p < fabric::kPriorities; ++p) {
    if ((pause.mask >> p & 1) == 0) continue;
    out += pause.quanta[p] == 0
               ? fmt::format(" priority {} goes on", p)
               : fmt::format(" priority {} stops for {} quanta", p, pause.quanta[p]);
  }
  return out;
}

std::string describe_frame(const Packet& packet, const Body& body) {
  if (packet.kind == fabric::FrameKind::kPause) return describe_pause(body.pause);
  return fmt::format("{} frame {} dscp {} {} ttl {}",
                     link::describe(body.header, body.payload_bytes, fabric_gid(packet.source),
                                    fabric_gid(packet.destination), engine::Path::kWire),
                     packet.bytes, packet.dscp, ecn_name(packet.ecn), packet.ttl);
}

}  // namespace

TraceText::TraceText(const Experiment& experiment, Write write)
    : experiment_(experiment), write_(std::move(write)) {
  for (PortId id = 0; id < experiment_.network().ports(); ++id)
    names_.push_back(experiment_.port_name(id));
}

void TraceText::line(Time now, PortId port, std::string_view what) {
  write_(fmt::format("{}.{:03} {} {}\n", now / fabric::kNanosecond, now % fabric::kNanosecond,
                     names_[port], what));
}

void TraceText::on_sent(Time now, PortId port, const Packet& packet, const Body& body) {
  line(now, port, "sent " + describe_frame(packet, body));
}

void TraceText::on_received(Time now, PortId port, const Packet& packet, const Body& body) {
  line(now, port, "received " + describe_frame(packet, body));
}

void TraceText::on_drop(Time now, PortId port, const Packet& packet, DropCause cause) {
  line(now, port,
       fmt::format("dropped ({}) frame {} of {} > {} priority {}", fabric::name(cause),
                   packet.bytes, engine::address_text(fabric_gid(packet.source)),
                   engine::address_text(fabric_gid(packet.destination)), packet.priority));
}

// --- names

Result<PortId> find_port(const Experiment& experiment, std::string_view name) {
  const size_t colon = name.rfind(':');
  const std::string_view node = name.substr(0, colon);
  const auto& nodes = experiment.scenario().topology.nodes;
  uint32_t index = 0;
  while (index < nodes.size() && nodes[index].name != node) ++index;
  if (index == nodes.size())
    return fail(EINVAL, fmt::format("no node is called {}; there are {} to {}", node,
                                    nodes.front().name, nodes.back().name));
  const std::vector<PortId>& ports = experiment.network().ports_of(index);
  if (colon == std::string_view::npos && ports.size() == 1) return ports[0];
  uint32_t number = UINT32_MAX;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (code != std::errc() || end != digits.data() + digits.size()) number = UINT32_MAX;
  }
  if (number >= ports.size())
    return fail(EINVAL, fmt::format("{} is no port; {} has {}:0 to {}:{}", name, node, node, node,
                                    ports.size() - 1));
  return ports[number];
}

}  // namespace verbena::sim
