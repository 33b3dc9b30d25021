// What an operator sets on a switch: plain values, no behaviour. Every field names its unit and the
// term that vendors use for it, so that an imported configuration and a scenario fill the same
// struct. Priorities ("switch priority", SONiC "traffic class") run 0..7; a queue is Cumulus'
// "traffic class", SONiC's "queue"; a group is the ingress priority group (PG).
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "fabric/units.h"

namespace verbena::fabric {

inline constexpr uint32_t kPriorities = 8;
inline constexpr uint32_t kDscps = 64;
inline constexpr uint64_t kNoLimit = UINT64_MAX;
inline constexpr uint8_t kNoRemark = 0xff;

// Which field of a frame decides its priority. kBoth: DSCP of an IP packet, else PCP.
enum class Trust : uint8_t { kPort, kPcp, kDscp, kBoth };

// ECN and WRED of one egress queue: nothing below `min_bytes`, a probability that rises linearly to
// `probability` at `max_bytes`, always above it (RFC 3168; RED).
struct EcnSettings {
  bool mark = false;               // CE on packets that are ECT
  bool drop = false;               // WRED: drops packets that are not ECT
  uint64_t min_bytes = 150'000;    // Kmin
  uint64_t max_bytes = 1'500'000;  // Kmax
  double probability = 1.0;        // Pmax, 0..1
  enum At : uint8_t { kDequeue, kEnqueue } at = kDequeue;
};

struct QueueSettings {
  EcnSettings ecn;
  bool strict = false;  // before all DWRR queues; among strict ones the higher number first
  uint32_t weight = 1;  // DWRR share, 1..1000
  // Egress threshold: tail drop above it. kNoLimit for lossless queues.
  uint64_t max_bytes = kNoLimit;
  double alpha = 0;  // of the free shared buffer, for lossy queues; 0: max_bytes alone
};

struct GroupSettings {
  bool lossless = false;          // XOFF before the shared part is used up, headroom behind it
  uint64_t reserved_bytes = 0;    // guaranteed, before the shared pool
  uint64_t headroom_bytes = 0;    // taken after XOFF; SONiC profile `xoff`
  uint64_t xon_offset_bytes = 0;  // XON when the use is this far below the threshold
  // Threshold of the shared pool: alpha times its free part, or a fixed number of bytes.
  bool dynamic = true;
  double alpha = 0.125;
  uint64_t static_bytes = 0;
};

// IEEE 802.1Qbb. Pause frames carry quanta of 512 bit times.
struct PfcSettings {
  uint8_t rx_mask = 0;  // priorities whose pause frames are obeyed
  uint8_t tx_mask = 0;  // priorities that pause their sender
  uint16_t quanta = 0xffff;
  bool expires = true;   // false: a pause lasts until its XON (as in the HPCC simulator)
  double refresh = 0.5;  // an XOFF that lasts is sent again after this share of its time
  Time response = 0;     // from the frame's arrival to its effect
  // What headroom was computed for ("cable-length", CABLE_LENGTH); 0: the link's own length.
  double cable_metres = 0;
};

// A queue that is paused although it has data, for too long. Two machines, by vendor.
struct WatchdogSettings {
  enum Machine : uint8_t { kOff, kSonic, kCumulus } machine = kOff;
  uint8_t mask = 0xff;  // priorities it watches
  // SONiC.
  Time detection = 200 * kMillisecond;
  Time restoration = 400 * kMillisecond;
  Time poll = 100 * kMillisecond;  // also Cumulus' polling interval
  enum Action : uint8_t { kDrop, kForward, kAlert } action = kDrop;
  // Cumulus.
  uint32_t robustness = 3;  // polls in a row
};

struct PortSettings {
  Trust trust = Trust::kBoth;
  uint8_t default_priority = 0;                    // of frames without a trusted field
  std::array<uint8_t, kDscps> dscp_to_priority{};  // default: DSCP div 8
  std::array<uint8_t, kPriorities> pcp_to_priority{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<uint8_t, kPriorities> priority_to_queue{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<uint8_t, kPriorities> priority_to_group{0, 1, 2, 3, 4, 5, 6, 7};
  // PFC frames for a priority stop these queues (SONiC MAP_PFC_PRIORITY_TO_QUEUE).
  std::array<uint8_t, kPriorities> pfc_priority_to_queue{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<uint8_t, kPriorities> remark_dscp;  // at egress, by priority; kNoRemark: as it came
  std::array<QueueSettings, kPriorities> queues;
  std::array<GroupSettings, kPriorities> groups;
  PfcSettings pfc;
  bool link_pause = false;  // 802.3x instead: every priority at once
  WatchdogSettings watchdog;
  uint32_t mtu = 9216;  // bytes of an IP packet; longer ones are dropped
  PortSettings() {
    for (uint32_t d = 0; d < kDscps; ++d) dscp_to_priority[d] = static_cast<uint8_t>(d / 8);
    remark_dscp.fill(kNoRemark);
  }
};

// How a switch chooses among equal paths.
struct RoutingSettings {
  enum Mode : uint8_t { kEcmp, kAdaptive, kFlowlet } mode = kEcmp;
  Time flowlet_gap = 50 * kMicrosecond;
  uint32_t flowlet_entries = 1024;     // hash table, a power of two
  double utilisation_threshold = 0.7;  // kAdaptive: a port above it is graded down
  uint64_t queue_step_bytes = 10'000;  // kAdaptive: queue bytes of one grade; grades 0..4
};

struct SwitchSettings {
  uint64_t buffer_bytes = 32ull << 20;
  PortSettings port;                       // of every port that `ports` does not name
  std::map<uint32_t, PortSettings> ports;  // by port number, from 0
  RoutingSettings routing;
  Time latency = 0;        // from the last bit in to the first bit out, beside queueing
  bool telemetry = true;   // packets that ask get rate, bytes sent and queue of each egress port
  uint32_t hash_seed = 0;  // of ECMP; each switch mixes its own number in
  // What the shared pool is: the buffer less reserved and headroom of every port and priority
  // (kPerGroup), or with one headroom for each port, as the HPCC simulator counts (kPerPort).
  enum Headroom : uint8_t { kPerGroup, kPerPort } headroom = kPerGroup;
};

struct LinkSettings {
  uint64_t bits_per_second = 100'000'000'000;
  Time delay = kMicrosecond;  // propagation, one way
  uint32_t gap_bytes = 20;    // preamble, start delimiter and inter-packet gap of each frame
};

// A host's port on the fabric, below its adapter's engine.
struct HostSettings {
  PfcSettings pfc;  // rx_mask obeyed, tx_mask sent
  // Receive side of the adapter: 0 takes everything at once.
  uint64_t receive_bits_per_second = 0;
  uint64_t receive_buffer_bytes = 1 << 20;
  uint64_t receive_xoff_bytes = 512 << 10;
  uint64_t receive_xon_bytes = 256 << 10;
  // A broken adapter: sends pause frames for `storm_mask` without end, from .. until.
  uint8_t storm_mask = 0;
  Time storm_from = 0;
  Time storm_until = kForever;
  Time storm_interval = 50 * kMicrosecond;
  // Egress: which priorities go first.
  std::array<QueueSettings, kPriorities> queues;
};

}  // namespace verbena::fabric
