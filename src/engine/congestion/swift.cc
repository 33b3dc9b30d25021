// Swift's window; see swift.h.
#include "engine/congestion/swift.h"

#include <algorithm>
#include <cmath>

namespace verbena::engine {

// The scale a and offset b of section 3.5, with a / sqrt(window) + b going from the whole range at
// flow_scale_min_window to nothing at flow_scale_max_window.
Swift::Swift(const SwiftSettings& settings, const FlowShape& shape)
    : settings_(settings), shape_(shape) {
  double most = settings_.max_window, least = std::min(settings_.min_window, most);
  settings_.min_window = least;
  window_ = std::clamp(settings_.initial_window, least, most);
  double between = 1 / std::sqrt(settings_.flow_scale_min_window) -
                   1 / std::sqrt(settings_.flow_scale_max_window);
  if (between > 0) flow_scale_ = settings_.flow_scale_range_us * 1e6 / between;
}

Duration Swift::target(uint32_t switches) const {
  uint32_t hops = settings_.hops == SwiftSettings::kMeasured ? switches : settings_.hops;
  double flows =
      flow_scale_ * (1 / std::sqrt(window_) - 1 / std::sqrt(settings_.flow_scale_max_window));
  flows = std::clamp(flows, 0.0, settings_.flow_scale_range_us * 1e6);
  return settings_.base_target + settings_.hop_scale * hops + Duration{static_cast<int64_t>(flows)};
}

void Swift::on_acknowledged(Instant now, const Acknowledged& what) {
  timeouts_ = 0;
  Duration delay = what.round_trip;
  if (delay.ps <= 0) return;
  Duration aim = target(what.switches);
  round_trip_ = delay;
  if (delay < aim) {
    double packets = static_cast<double>(what.bytes) / shape_.packet_bytes;
    window_ += settings_.additive_increase * packets / std::max(window_, 1.0);
    window_ = std::min(window_, settings_.max_window);
    return;
  }
  double excess = static_cast<double>((delay - aim).ps) / static_cast<double>(delay.ps);
  cut(now, settings_.beta * excess);
}

void Swift::on_loss(Instant now, Loss how) {
  timeouts_ = how == Loss::kTimeout ? timeouts_ + 1 : 0;
  if (timeouts_ >= settings_.retransmit_reset && timeouts_ > 0) {
    window_ = settings_.min_window;
    last_cut_ = now;
    return;
  }
  cut(now, settings_.max_decrease);
}

// Takes `share` of the window away, if the last cut is a round trip past. The paper's listing also
// restarts that time where nothing was cut, by which it would never end while acknowledgements
// come; only a cut does here.
void Swift::cut(Instant now, double share) {
  if (now - last_cut_ < round_trip_) return;
  double before = window_;
  window_ *= 1 - std::min(share, settings_.max_decrease);
  window_ = std::max(window_, settings_.min_window);
  if (window_ < before) last_cut_ = now;
}

uint64_t Swift::rate(Instant) {
  if (window_ >= 1 || round_trip_.ps <= 0) return shape_.port_rate;
  double bits_per_second = wire_bytes_ * 8e12 * window_ / static_cast<double>(round_trip_.ps);
  return std::clamp<uint64_t>(static_cast<uint64_t>(bits_per_second), 1, shape_.port_rate);
}

uint64_t Swift::window() const {
  return static_cast<uint64_t>(std::max(window_, 1.0) * shape_.packet_bytes);
}

}  // namespace verbena::engine
