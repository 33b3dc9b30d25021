// Strange days on demand: drops, duplicates, reorders, corrupts and delays packets on their way to
// the sink below, from a seed, so that a failure can be repeated (VERBENA_FAULT).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "engine/transfer.h"

namespace verbena::link {

struct FaultPlan {
  uint64_t seed = 1;
  uint32_t drop_ppm = 0;  // parts per million of the packets
  uint32_t duplicate_ppm = 0;
  uint32_t reorder_ppm = 0;  // held back until 1 to 8 later packets have passed
  uint32_t corrupt_ppm = 0;
  Duration delay;  // of every packet that is short enough to be held
};

// "drop=1%,duplicate=0.5%,reorder=2%,corrupt=100ppm,delay=50us,seed=7"; every part optional, an
// empty text is no fault. EINVAL names the part that is wrong and what would be right.
Result<FaultPlan> parse_fault_plan(std::string_view text);

struct FaultCounters {
  uint64_t offered = 0;
  uint64_t dropped = 0;  // also those to hold whose payload had vanished
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t delayed = 0;
};

class FaultLens : public engine::PacketSink {
 public:
  // `spoil_next` makes the next packet given to `below` fail its ICRC (UdpLink::spoil_next); used
  // for packets on the wire path. Without it, and on the local path, corrupting means dropping:
  // the receiver would see no difference.
  FaultLens(engine::PacketSink& below, const FaultPlan& plan,
            std::function<void()> spoil_next = nullptr);

  bool send(const engine::TxPacket& packet) override;
  // Tells the time and sends what was held long enough.
  void on_time(Instant now);
  // When on_time() has something to do; kNever if nothing is held.
  Instant next_deadline() const;

  const FaultCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kMaxHeld = 1024;
  static constexpr uint32_t kMaxHeldBytes = 4096;  // longer payloads pass at once
  static constexpr Duration kMaxReorder = milliseconds(1);

  struct Held {  // a packet that outlives the caller's send()
    engine::TxPacket packet;
    engine::AddressVector route;
    std::vector<uint8_t> bytes;
    memory::Segment segment{};
    Instant due;
    uint32_t overtakers = 0;  // reordered: packets that still pass first
  };

  bool pass(const engine::TxPacket& packet);
  // Takes the packet and counts it in `held_packets`, or drops it; false: it must pass at once.
  bool hold(std::deque<Held>& where, const engine::TxPacket& packet, Instant due,
            uint32_t overtakers, uint64_t& held_packets);
  bool release(Held& held);
  void overtake();

  engine::PacketSink& below_;
  FaultPlan plan_;
  std::function<void()> spoil_next_;
  Prng prng_;
  Instant now_;
  std::deque<Held> delayed_;  // in order of their due times
  std::deque<Held> reordered_;
  FaultCounters counters_;
};

}  // namespace verbena::link
