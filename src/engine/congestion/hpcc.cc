// HPCC's window; see hpcc.h.
#include "engine/congestion/hpcc.h"

#include <algorithm>

namespace verbena::engine {

namespace {

// Bytes in `time` at `rate` bits per second.
double bytes_in(Duration time, uint64_t rate) {
  return static_cast<double>(time.ps) * static_cast<double>(rate) / 8e12;
}

}  // namespace

Hpcc::Hpcc(const HpccSettings& settings, const FlowShape& shape)
    : settings_(settings), port_rate_(shape.port_rate) {
  settings_.base_round_trip = std::max(settings_.base_round_trip, picoseconds(1));
  most_ = bytes_in(settings_.base_round_trip, port_rate_);
  least_ = std::min(most_, bytes_in(settings_.base_round_trip, settings_.min_rate));
  step_ = bytes_in(settings_.base_round_trip, settings_.additive_bits_per_second);
  window_ = reference_ = most_;
}

bool Hpcc::same_way(std::span<const Hop> hops) const {
  return std::equal(hops.begin(), hops.end(), hops_.begin(), hops_.begin() + hop_count_,
                    [](const Hop& a, const Hop& b) { return a.port == b.port; });
}

void Hpcc::remember(std::span<const Hop> hops) {
  hop_count_ = static_cast<uint32_t>(hops.size());
  std::copy(hops.begin(), hops.end(), hops_.begin());
}

// MeasureInflight. False: the hops say nothing new.
bool Hpcc::measure(std::span<const Hop> hops) {
  Duration round_trip = settings_.base_round_trip, over{};
  double most = -1;
  for (size_t i = 0; i < hops.size(); ++i) {
    const Hop &now = hops[i], &before = hops_[i];
    Duration passed = now.at - before.at;
    if (passed.ps <= 0 || now.bits_per_second == 0) continue;
    double queue = static_cast<double>(std::min(now.queue_bytes, before.queue_bytes)) /
                   bytes_in(round_trip, now.bits_per_second);
    double sent = static_cast<double>(now.transmitted_bytes - before.transmitted_bytes) /
                  bytes_in(passed, now.bits_per_second);
    if (queue + sent <= most) continue;
    most = queue + sent;
    over = passed;
  }
  if (most < 0) return false;
  double share =
      static_cast<double>(std::min(over, round_trip).ps) / static_cast<double>(round_trip.ps);
  utilisation_ = (1 - share) * utilisation_ + share * most;
  return true;
}

void Hpcc::on_acknowledged(Instant, const Acknowledged& what) {
  if (what.hops.empty() || what.hops.size() > kMaxHops) return;
  // The first acknowledgement, or the first over another way, is what later ones are compared with.
  if (!same_way(what.hops)) {
    if (hop_count_ == 0) renewed_at_ = what.sent_psn;
    return remember(what.hops);
  }
  if (!measure(what.hops)) return;
  remember(what.hops);
  bool multiplicative = utilisation_ >= settings_.eta || stage_ >= settings_.max_stage;
  double wanted = reference_;
  if (multiplicative) wanted = utilisation_ > 0 ? wanted / (utilisation_ / settings_.eta) : most_;
  window_ = std::clamp(wanted + step_, least_, most_);
  if (what.next_psn <= renewed_at_) return;
  renewed_at_ = what.sent_psn;
  reference_ = window_;
  stage_ = multiplicative ? 0 : stage_ + 1;
}

uint64_t Hpcc::rate(Instant) {
  double bits_per_second = window_ * 8e12 / static_cast<double>(settings_.base_round_trip.ps);
  return std::clamp<uint64_t>(static_cast<uint64_t>(bits_per_second), 1, port_rate_);
}

}  // namespace verbena::engine
