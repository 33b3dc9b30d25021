// The host's clock: CLOCK_MONOTONIC, counted from an origin near the process's first use of it.
// That clock counts from boot; from a later origin an Instant is a small number. Outside the
// process an Instant is seen only as a completion timestamp and as the raw clock of
// ibv_query_rt_values_ex(), which both come from here; what processes share holds none.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbena::host {

class Clock {
 public:
  // `monotonic_ns`: CLOCK_MONOTONIC now. Instants start at one second, so that none is 0 or before.
  explicit constexpr Clock(int64_t monotonic_ns) : base_ns_(monotonic_ns - 1'000'000'000) {}

  constexpr Instant at(int64_t monotonic_ns) const {
    return {Instant::Picoseconds{monotonic_ns - base_ns_} * 1000};
  }

 private:
  int64_t base_ns_;
};

}  // namespace verbena::host
