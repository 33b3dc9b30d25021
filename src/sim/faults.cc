// The dice of a road.
#include "sim/faults.h"

#include <algorithm>

namespace verbena::sim {

bool Road::loses(Instant now) {
  if (burst_left_ > 0) {
    --burst_left_;
    return true;
  }
  if (now >= faults_.cut_from && now < faults_.cut_until) return true;
  if (faults_.period && counters_.sent % faults_.period == 0) return true;
  if (prng_.chance_ppm(faults_.burst_ppm)) {
    burst_left_ = faults_.burst_packets - 1;
    return true;
  }
  return prng_.chance_ppm(faults_.drop_ppm);
}

Fate Road::judge(Instant now, size_t bytes) {
  Fate fate;
  Instant begin = std::max(now, free_at_);
  bool full = (begin - now).ps > int64_t{faults_.queue_bytes} * faults_.ps_per_byte;
  if (full || prng_.chance_ppm(faults_.refuse_ppm)) {
    ++counters_.refused;
    fate.refused = true;
    return fate;
  }
  ++counters_.sent;
  free_at_ = begin + Duration{faults_.ps_per_byte * static_cast<int64_t>(bytes)};
  if (loses(now)) {
    ++counters_.lost;
    return fate;
  }
  auto random = [&](Duration most) {
    return Duration{static_cast<int64_t>(prng_.below(static_cast<uint64_t>(most.ps) + 1))};
  };
  Instant arrival = free_at_ + faults_.delay + random(faults_.jitter);
  fate.copies = 1;
  if (prng_.chance_ppm(faults_.reorder_ppm)) {
    ++counters_.reordered;
    arrival = arrival + random(faults_.reorder_by);
  } else {
    arrival = last_arrival_ = std::max(arrival, last_arrival_);
  }
  fate.arrivals[0] = arrival;
  if (prng_.chance_ppm(faults_.duplicate_ppm)) {
    ++counters_.duplicated;
    fate.copies = 2;
    fate.arrivals[1] = arrival + random(faults_.reorder_by);
  }
  if (prng_.chance_ppm(faults_.corrupt_ppm)) {
    ++counters_.corrupted;
    fate.turned_bits = static_cast<uint8_t>(prng_.between(1, 4));
  }
  return fate;
}

}  // namespace verbena::sim
