// Congestion control of one flow, behind one small interface: what arrived, what was sent, and how
// fast the next packet may follow. Time is a parameter and nothing keeps a timer of its own: state
// that changes by itself (alpha decays, rates recover) is brought up to date when somebody asks, so
// ten thousand flows cost no events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/time.h"

namespace verbena::engine {

// What one switch on the way wrote into a packet (in-band telemetry, HPCC section 3.1).
struct Hop {
  uint64_t bits_per_second = 0;
  uint64_t transmitted_bytes = 0;  // by the egress port before this packet
  uint64_t queue_bytes = 0;        // behind it
  Instant at;                      // when the packet left
  uint32_t port = 0;               // which egress port it was, since ways change
};
inline constexpr uint32_t kMaxHops = 8;

// The hops of one packet, in path order. Beside a packet because few packets have it.
struct Telemetry {
  Hop hops[kMaxHops];
  uint32_t count = 0;  // at most kMaxHops
};

struct Acknowledged {
  uint32_t bytes = 0;         // newly acknowledged payload
  Duration round_trip;        // of the packet that asked for it, sent once; 0: not known
  uint8_t switches = 0;       // that the acknowledgement passed, by its hop limit
  bool ecn_echo = false;      // a CE mark came back with it (BTH BECN)
  uint64_t next_psn = 0;      // one after the highest acknowledged, free-running
  uint64_t sent_psn = 0;      // one after the highest sent, free-running
  std::span<const Hop> hops;  // telemetry that the packet collected, in path order
};

enum class Loss : uint8_t { kReported, kTimeout };  // a NAK or a gap; nothing came back at all

class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  virtual void on_cnp(Instant now) = 0;
  virtual void on_acknowledged(Instant now, const Acknowledged& what) = 0;
  virtual void on_loss(Instant now, Loss how) = 0;
  virtual void on_sent(Instant now, uint32_t wire_bytes) = 0;
  // Bits per second at `now`, 1..10^15; what wants pacing sends the next packet not before the last
  // one's wire bytes at this rate.
  virtual uint64_t rate(Instant now) = 0;
  // When the rate changes next if nothing arrives; kNever when it does not.
  virtual Instant next_change(Instant now) = 0;
  // Payload bytes in flight at most.
  virtual uint64_t window() const { return UINT64_MAX; }
  // Whether Acknowledged::round_trip is to be measured.
  virtual bool wants_round_trips() const { return false; }
  // For reports: DCQCN's alpha and the like, 0..1.
  virtual double alpha(Instant /*now*/) { return 0; }
};

// What a control must know of its flow.
struct FlowShape {
  uint64_t port_rate = 0;     // bit/s, at least 1
  uint32_t packet_bytes = 0;  // payload of a full packet, at least 1
};

struct CongestionSettings;
// The control that `settings` name; null for none.
std::unique_ptr<CongestionControl> make_control(const CongestionSettings& settings,
                                                const FlowShape& shape);

}  // namespace verbena::engine
