// When a polling loop should give up the processor. A lone spinner must not (its answer is on the
// way); one of sixteen spinners on two cores must, or every message waits for a time slice. The
// yield itself tells which case it is: with nobody else to run it returns in under a microsecond.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace verbena::host {

class YieldPolicy {
 public:
  static constexpr uint32_t kMinPolls = 4;
  static constexpr uint32_t kMaxPolls = 512;
  static constexpr Duration kSwitched = microseconds(3);  // a yield longer than this ran others

  void found() { empty_polls_ = 0; }
  // One more poll found nothing. True: yield now, without the lock, and report with yielded().
  bool empty() {
    if (++empty_polls_ < threshold_.load(std::memory_order_relaxed)) return false;
    empty_polls_ = 0;
    return true;
  }
  // Any thread, no lock needed.
  void yielded(Duration took) {
    uint32_t now = threshold_.load(std::memory_order_relaxed);
    uint32_t next = took > kSwitched ? std::max(now / 4, kMinPolls) : std::min(now * 2, kMaxPolls);
    threshold_.store(next, std::memory_order_relaxed);
  }
  uint32_t threshold() const { return threshold_.load(std::memory_order_relaxed); }

 private:
  uint32_t empty_polls_ = 0;  // under the process lock
  std::atomic<uint32_t> threshold_{kMaxPolls};
};

}  // namespace verbena::host
