// When the next packet may leave, and what congestion control hears of those that arrived.
#include "engine/pacing.h"

#include <algorithm>

namespace verbena::engine {

namespace {

// The time that `bytes` take at `rate` bits per second, rounded up.
Duration time_of(uint32_t bytes, uint64_t rate) {
  constexpr uint64_t kByte = 8'000'000'000'000;  // picosecond bits per second
  if (bytes < 2'000'000) return {static_cast<int64_t>((bytes * kByte + rate - 1) / rate)};
  // More than 64 bits hold on the way.
  return {static_cast<int64_t>((Instant::Picoseconds{bytes} * kByte + rate - 1) / rate)};
}

}  // namespace

bool Pacing::allows(Instant now) {
  uint64_t rate = control_->rate(now);
  if (port_rate_ != 0 && rate >= port_rate_) return true;
  Instant eligible = last_sent_ + time_of(last_bytes_, rate);
  if (eligible <= now) return true;
  wakes_at_ = std::max(std::min(eligible, control_->next_change(now)), now + picoseconds(1));
  return false;
}

void Pacing::acknowledged(Instant now, uint32_t packets, uint32_t bytes, uint32_t unacknowledged) {
  reported_ = true;
  acknowledged_packets_ += packets;
  in_flight_ -= std::min<uint64_t>(in_flight_, bytes);
  Acknowledged what;
  what.bytes = bytes;
  what.ecn_echo = ecn_echo_;
  what.next_psn = acknowledged_packets_;
  what.sent_psn = acknowledged_packets_ + unacknowledged;
  if (telemetry_) what.hops = {telemetry_->hops, telemetry_->count};
  control_->on_acknowledged(now, what);
}

}  // namespace verbena::engine
