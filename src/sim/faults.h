// What a simulated road does to packets: loss, repetition, reordering, damage, delay, back-pressure
// and partitions, each decided by the road's own generator, so that a seed tells the whole story.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/prng.h"
#include "base/time.h"

namespace verbena::sim {

struct Faults {
  uint32_t drop_ppm = 0;       // packets lost, one in a million each
  uint32_t duplicate_ppm = 0;  // packets that arrive twice
  uint32_t reorder_ppm = 0;    // packets that are held back by up to reorder_by
  uint32_t corrupt_ppm = 0;    // packets with one to four bits turned over
  uint32_t refuse_ppm = 0;     // packets the sender's sink refuses: the road is full
  uint32_t burst_ppm = 0;      // packets that begin a run of burst_packets losses
  uint32_t burst_packets = 8;
  uint32_t period = 0;  // every period-th packet is lost; 0: none
  Duration delay = microseconds(2);
  Duration jitter{};  // added to the delay, 0 .. jitter, without changing the order
  Duration reorder_by = microseconds(20);
  int64_t ps_per_byte = 80;         // 100 Gb/s
  uint32_t queue_bytes = 1u << 20;  // waiting to leave; the sink refuses what would be more
  Instant cut_from = kNever;        // packets sent in cut_from .. cut_until are lost
  Instant cut_until = kNever;
};

// What happens to one packet.
struct Fate {
  bool refused = false;
  uint8_t copies = 0;  // 0: lost, 1, 2
  uint8_t turned_bits = 0;
  std::array<Instant, 2> arrivals{};
};

struct FaultCounters {
  uint64_t sent = 0;
  uint64_t refused = 0;
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
};

// One direction of a road between two hosts.
class Road {
 public:
  Road(const Faults& faults, uint64_t seed) : faults_(faults), prng_(seed) {}

  Fate judge(Instant now, size_t bytes);
  Faults& faults() { return faults_; }
  Prng& prng() { return prng_; }
  const FaultCounters& counters() const { return counters_; }

 private:
  bool loses(Instant now);

  Faults faults_;
  Prng prng_;
  FaultCounters counters_;
  uint32_t burst_left_ = 0;
  Instant free_at_{};       // when the last packet has left
  Instant last_arrival_{};  // of packets that keep their order
};

}  // namespace verbena::sim
