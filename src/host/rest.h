// When a polling loop should give up the processor. A lone spinner must not (its answer is on the
// way); one of sixteen spinners on two cores must, or every message waits for a time slice. The
// yield itself tells which case it is: with nobody else to run it returns in under a microsecond.
// If it takes a whole time slice, others compute: yielding costs a slice per message then, and
// sleeping for the message is the better way, because the scheduler favours who slept.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::host {

class RestPolicy {
 public:
  enum class Rest : uint8_t { kNone, kYield, kDoze };

  static constexpr uint32_t kMinPolls = 4;
  static constexpr uint32_t kMaxPolls = 512;
  static constexpr uint32_t kDozePolls = 16;               // looks before a doze
  static constexpr Duration kSwitched = microseconds(3);   // a yield longer than this ran others
  static constexpr Duration kSlice = microseconds(300);    // than this: others that compute
  static constexpr Duration kDozing = milliseconds(100);   // until the next yield asks again
  static constexpr Duration kMaxDoze = microseconds(500);  // one doze: poll() is late by this

  void found() { empty_polls_ = 0; }
  // One more poll found nothing: what to do now, without the lock. A yield is reported with
  // yielded().
  Rest empty(Instant now) {
    bool dozing = now < doze_until_;
    if (++empty_polls_ < (dozing ? std::min(threshold_, kDozePolls) : threshold_))
      return Rest::kNone;
    empty_polls_ = 0;
    return dozing ? Rest::kDoze : Rest::kYield;
  }
  // Under the lock again.
  void yielded(Instant now, Duration took) {
    bool slice = took > kSlice;
    // Twice in a row: anything may happen once.
    if (slice && slice_before_) doze_until_ = now + kDozing;
    slice_before_ = slice;
    threshold_ = took > kSwitched ? std::max(threshold_ / 4, kMinPolls)
                                  : std::min(threshold_ * 2, kMaxPolls);
  }
  uint32_t threshold() const { return threshold_; }

 private:
  uint32_t empty_polls_ = 0;
  uint32_t threshold_ = kMaxPolls;
  bool slice_before_ = false;
  Instant doze_until_ = kLongAgo;
};

}  // namespace verbena::host
