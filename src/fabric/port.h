// One end of a link: its egress queues, what is under way to it, who has stopped it and whom it
// has stopped.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/packet.h"
#include "fabric/routing.h"
#include "fabric/scheduler.h"
#include "fabric/settings.h"
#include "fabric/units.h"

namespace verbena::fabric {

enum class DropCause : uint8_t {
  kNoBuffer,  // ingress: no shared buffer, and no headroom for a lossless class
  kTail,      // egress queue of a lossy class full
  kWred,
  kTtl,
  kNoRoute,
  kMtu,
  kLinkDown,
  kWatchdog,
  kHostBuffer,  // a slow adapter's receive buffer
};
inline constexpr uint32_t kDropCauses = 9;
const char* name(DropCause cause);

struct PriorityCounters {  // ethtool's rx_prioN_*, tx_prioN_*
  uint64_t tx_packets = 0, tx_bytes = 0;
  uint64_t tx_pause = 0, rx_pause = 0;    // frames that stop
  uint64_t tx_resume = 0, rx_resume = 0;  // frames that let go
  uint64_t expired = 0;                   // pauses that ended by their quanta
  Time paused = 0;                        // this port may not send it
};

struct PortCounters {
  uint64_t tx_bytes = 0;  // frames, without gaps
  uint64_t tx_packets = 0;
  Time busy = 0;                                   // time spent sending
  uint64_t lossless_drops = 0;                     // of `drops`, in lossless classes
  std::array<uint64_t, kPriorities> most_bytes{};  // longest each queue was
  std::array<PriorityCounters, kPriorities> priority{};
  std::array<uint64_t, kPriorities> marks{};  // CE, by queue
  std::array<uint64_t, kDropCauses> drops{};
};

struct EgressQueue {
  PacketQueue frames;
  uint64_t bytes = 0;
  uint64_t sent = 0;  // frames since the start: the watchdog sees whether it moves
};

// In the order of use: what every frame touches first, together.
struct alignas(64) Port {
  uint32_t node = 0;
  PortId peer = 0;
  uint16_t number = 0;  // at its node
  bool is_host = false;
  bool up = true;
  bool free_pending = false;  // kPortFree is planned
  uint8_t ready = 0;          // queues that hold frames
  uint8_t stopped = 0;        // queues that a pause holds
  uint8_t ignore_pause = 0;   // queues that the watchdog lets go on
  uint8_t discard = 0;        // queues that the watchdog empties
  uint8_t paused = 0;         // priorities that the peer has stopped
  uint8_t pausing = 0;        // priorities of the peer that we have stopped
  uint8_t busy_grade = 0;     // adaptive routing
  Time busy_until = 0;
  PacketQueue incoming;                    // on the link, toward this port
  PacketQueue control;                     // pause frames: before all else, never stopped
  const PortSettings* settings = nullptr;  // null at a host
  Serialiser wire;
  LinkSettings link;
  std::array<EgressQueue, kPriorities> queues;
  Scheduler scheduler;

  PortCounters counters;

  // --- pauses by the peer
  std::array<Time, kPriorities> paused_until{};  // kForever: until XON
  std::array<Time, kPriorities> paused_since{};
  struct Late {
    Time at;
    PauseFrame frame;
  };
  std::vector<Late> late;  // pause frames whose effect is still to come

  // --- pauses of the peer
  std::array<Time, kPriorities> renew_at{};
  Time pause_timer = kForever;  // of the kPauseTimer event that counts

  // --- adaptive routing: bytes sent when the last window began
  Time window_start = 0;
  uint64_t window_bytes = 0;

  Time quanta_time(uint16_t quanta) const {
    return static_cast<Time>(static_cast<unsigned __int128>(quanta) * 512 * kSecond /
                             link.bits_per_second);
  }
  uint64_t queued_bytes() const {
    uint64_t sum = 0;
    for (const EgressQueue& queue : queues) sum += queue.bytes;
    return sum;
  }
};

}  // namespace verbena::fabric
