// A frame inside the fabric: a small record that switches touch at every hop, and beside it the
// meaning that only the ends read. Both live in flat arrays under one number; nothing is allocated
// once the arrays have grown to the most frames that were ever under way.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/settings.h"
#include "fabric/units.h"
#include "wire/packet.h"

namespace verbena::fabric {

using PacketId = uint32_t;
inline constexpr PacketId kNoPacket = UINT32_MAX;

enum class FrameKind : uint8_t { kRoce, kPause };

inline constexpr uint8_t kNotEct = 0;
inline constexpr uint8_t kEct0 = 2;
inline constexpr uint8_t kCongestionExperienced = 3;

struct Packet {
  PacketId next = kNoPacket;  // behind it in whatever queue holds it
  uint32_t bytes = 0;         // of the frame, Ethernet header to FCS
  Time arrives = 0;           // its last bit at the end of the link it is on
  uint32_t flow_hash = 0;     // of the 5-tuple
  uint32_t psn = 0;           // as in its header: what a trace tells packets apart by
  uint32_t source = 0;        // hosts
  uint32_t destination = 0;
  uint16_t ingress = 0;  // port number at the switch that holds it
  FrameKind kind = FrameKind::kRoce;
  uint8_t dscp = 0;
  uint8_t ecn = kNotEct;
  uint8_t pcp = 0;
  uint8_t ttl = 64;
  uint8_t priority = 0;  // at the switch that holds it, as are queue and group
  uint8_t queue = 0;
  uint8_t group = 0;
  bool collects = false;  // asks switches for telemetry
};

// IEEE 802.1Qbb: which priorities, and for how many quanta of 512 bit times (0: go on). Or of
// IEEE 802.3 31B (`link`): all of them, by one number.
struct PauseFrame {
  bool link = false;
  uint8_t mask = 0;
  std::array<uint16_t, kPriorities> quanta{};
};
inline constexpr uint32_t kPauseFrameBytes = 64;

// What one switch wrote into a packet on its way (in-band telemetry).
struct Telemetry {
  uint64_t bits_per_second = 0;
  uint64_t transmitted_bytes = 0;  // by the port before this packet
  uint64_t queue_bytes = 0;        // of all its queues, behind this packet
  Time at = 0;
  uint32_t port = 0;  // PortId
};
inline constexpr uint32_t kMaxTelemetry = 8;

struct Body {
  wire::Packet header;
  PauseFrame pause;
  uint32_t payload_bytes = 0;
  uint16_t source_port = 0;  // UDP
  uint8_t hops = 0;          // telemetry records, its own or, on their way back, another packet's
  uint8_t hop_bytes = 0;     // of a record in the frame
  Time sent = 0;
  std::vector<uint8_t> payload;  // empty unless the run carries real bytes
};

class PacketPool {
 public:
  PacketId take() {
    ++used_;
    if (free_ == kNoPacket) {
      packets_.emplace_back();
      bodies_.emplace_back();
      return static_cast<PacketId>(packets_.size() - 1);
    }
    PacketId id = free_;
    free_ = packets_[id].next;
    packets_[id] = Packet{};
    return id;
  }
  void give(PacketId id) {
    --used_;
    packets_[id].next = free_;
    free_ = id;
  }
  // References last until the next take().
  Packet& operator[](PacketId id) { return packets_[id]; }
  const Packet& operator[](PacketId id) const { return packets_[id]; }
  Body& body(PacketId id) { return bodies_[id]; }
  const Body& body(PacketId id) const { return bodies_[id]; }
  // Room for Body::hops records. Apart, since few runs have any.
  std::array<Telemetry, kMaxTelemetry>& telemetry(PacketId id) {
    if (telemetry_.size() < bodies_.size()) telemetry_.resize(bodies_.size());
    return telemetry_[id];
  }
  // Those of a packet of this pool, while an Observer looks at it.
  std::span<const Telemetry> telemetry_of(const Packet& packet, const Body& body) const {
    if (body.hops == 0) return {};
    return {telemetry_[static_cast<size_t>(&packet - packets_.data())].data(), body.hops};
  }
  uint64_t used() const { return used_; }
  uint64_t most() const { return packets_.size(); }

 private:
  std::vector<Packet> packets_;
  std::vector<Body> bodies_;
  std::vector<std::array<Telemetry, kMaxTelemetry>> telemetry_;
  PacketId free_ = kNoPacket;
  uint64_t used_ = 0;
};

// Frames in order, linked through Packet::next.
struct PacketQueue {
  PacketId head = kNoPacket;
  PacketId tail = kNoPacket;

  bool empty() const { return head == kNoPacket; }
  void push(PacketPool& pool, PacketId id) {
    pool[id].next = kNoPacket;
    if (tail == kNoPacket)
      head = id;
    else
      pool[tail].next = id;
    tail = id;
  }
  PacketId pop(PacketPool& pool) {
    PacketId id = head;
    head = pool[id].next;
    if (head == kNoPacket) tail = kNoPacket;
    return id;
  }
};

}  // namespace verbena::fabric
