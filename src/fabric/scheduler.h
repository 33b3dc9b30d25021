// Which queue of a port goes next: strict queues first, the higher number before the lower, then
// deficit round robin by weight (Shreedhar and Varghese 1996).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "fabric/settings.h"

namespace verbena::fabric {

class Scheduler {
 public:
  Scheduler() = default;
  explicit Scheduler(const std::array<QueueSettings, kPriorities>& queues) {
    uint64_t heaviest = 1;
    for (const QueueSettings& queue : queues)
      if (!queue.strict) heaviest = std::max<uint64_t>(heaviest, queue.weight);
    for (uint32_t q = 0; q < kPriorities; ++q) {
      if (queues[q].strict) strict_ |= static_cast<uint8_t>(1u << q);
      quantum_[q] = static_cast<int32_t>(
          std::max<uint64_t>(1, queues[q].weight * uint64_t{kRoundBytes} * kScale / heaviest));
    }
  }

  // A queue of `ready` (not 0); `bytes(queue)` is the length of its first frame.
  template <typename HeadBytes>
  uint32_t pick(uint8_t ready, HeadBytes bytes) {
    if (uint8_t strict = ready & strict_; strict != 0)
      return 7 - static_cast<uint32_t>(std::countl_zero(strict));
    if ((ready & (ready - 1)) == 0)  // one alone owes nobody anything
      return static_cast<uint32_t>(std::countr_zero(ready));
    for (;;) {
      if ((ready >> turn_ & 1) != 0) {
        if (arrived_) deficit_[turn_] += quantum_[turn_];
        arrived_ = false;
        auto length = static_cast<int32_t>(bytes(turn_) * kScale);
        if (deficit_[turn_] >= length) {
          deficit_[turn_] -= length;
          return turn_;
        }
      } else {
        deficit_[turn_] = 0;
      }
      turn_ = (turn_ + 1) % kPriorities;
      arrived_ = true;
    }
  }

 private:
  // What the heaviest queue may send in one round: more than a frame, so that a round mostly serves
  // somebody, and little enough that queues alternate often.
  static constexpr uint32_t kRoundBytes = 4096;
  static constexpr uint32_t kScale = 64;  // deficits count parts of a byte: small shares are exact

  uint8_t strict_ = 0;
  uint8_t turn_ = 0;
  bool arrived_ = true;  // the round has just come to this queue
  std::array<int32_t, kPriorities> quantum_{};
  std::array<int32_t, kPriorities> deficit_{};
};

}  // namespace verbena::fabric
