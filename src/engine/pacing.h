// The pace of one queue pair: its congestion control, and when the next packet that carries data
// may leave. Requests and READ responses share it, because they share the way. A queue pair without
// congestion control has none of this.
#pragma once

#include <memory>

#include "base/psn.h"
#include "base/time.h"
#include "engine/congestion/control.h"

namespace verbena::engine {

class Pacing {
 public:
  // `port_rate` as DeviceOptions::port_bits_per_second.
  Pacing(std::unique_ptr<CongestionControl> control, uint64_t port_rate)
      : control_(std::move(control)), port_rate_(port_rate) {}

  CongestionControl& control() { return *control_; }

  // True: the last packet is as long past as its bytes take at the rate of now. False: wakes_at()
  // is when to ask again, unless something arrives before.
  bool allows(Instant now);
  Instant wakes_at() const { return wakes_at_; }
  // The timer of wakes_at() fired; whether it was due.
  bool expire(Instant now) {
    if (now < wakes_at_) return false;
    wakes_at_ = kNever;
    return true;
  }
  void sent(Instant now, uint32_t wire_bytes) {
    control_->on_sent(now, wire_bytes);
    last_sent_ = now;
    last_bytes_ = wire_bytes;
    wakes_at_ = kNever;
  }

  // --- the requester's window, in payload bytes and in packets counted without wrapping
  bool window_open(uint32_t bytes) const {
    return in_flight_ == 0 || in_flight_ + bytes <= control_->window();
  }
  void in_flight(uint64_t bytes) { in_flight_ = bytes; }  // after going back
  uint64_t in_flight() const { return in_flight_; }
  void add_in_flight(uint32_t bytes) { in_flight_ += bytes; }

  // What arrived and is being worked on; taken into account by the acknowledgement it makes.
  void arrived(bool ecn_echo, const Telemetry* telemetry) {
    ecn_echo_ = ecn_echo;
    telemetry_ = telemetry;
    reported_ = false;
  }
  // `packets` more are acknowledged, with `bytes` of payload; `unacknowledged` sent ones are left.
  void acknowledged(Instant now, uint32_t packets, uint32_t bytes, uint32_t unacknowledged);
  // End of what arrived: a mark that acknowledged nothing new is told all the same.
  void arrival_done(Instant now, uint32_t unacknowledged) {
    if (!reported_ && (ecn_echo_ || telemetry_)) acknowledged(now, 0, 0, unacknowledged);
    telemetry_ = nullptr;
    ecn_echo_ = false;
  }

 private:
  std::unique_ptr<CongestionControl> control_;
  uint64_t port_rate_;
  Instant last_sent_ = kLongAgo;
  uint32_t last_bytes_ = 0;
  Instant wakes_at_ = kNever;
  uint64_t in_flight_ = 0;
  uint64_t acknowledged_packets_ = 0;
  bool ecn_echo_ = false;
  bool reported_ = true;
  const Telemetry* telemetry_ = nullptr;
};

}  // namespace verbena::engine
