// The pace of one queue pair: its congestion control, and when the next packet that carries data
// may leave. Requests and READ responses share it, because they share the way. A queue pair without
// congestion control has none of this.
#pragma once

#include <memory>
#include <vector>

#include "base/psn.h"
#include "base/time.h"
#include "engine/congestion/control.h"
#include "engine/transfer.h"

namespace verbena::engine {

class Pacing {
 public:
  // `port_rate` as DeviceOptions::port_bits_per_second.
  Pacing(std::unique_ptr<CongestionControl> control, uint64_t port_rate)
      : control_(std::move(control)), port_rate_(port_rate) {
    if (control_->wants_round_trips()) asked_.resize(kMostAsked);
  }

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
  // Whether a packet with `bytes` leaves no room for one with `next`.
  bool closes_after(uint32_t bytes, uint32_t next) const {
    return in_flight_ + bytes + next > control_->window();
  }
  // After going back: what is sent again might be measured from its first time.
  void in_flight(uint64_t bytes) {
    in_flight_ = bytes;
    asked_count_ = 0;
  }
  uint64_t in_flight() const { return in_flight_; }
  void add_in_flight(uint32_t bytes) { in_flight_ += bytes; }

  // A packet left for the first time and asks for an acknowledgement: its round trip is measured.
  void asked(Instant now, Psn psn);
  // What arrived and is being worked on; taken into account by the acknowledgement it makes.
  void arrived(Instant now, const RxPacket& packet);
  // `packets` more are acknowledged, with `bytes` of payload; `unacknowledged` sent ones are left.
  void acknowledged(Instant now, uint32_t packets, uint32_t bytes, uint32_t unacknowledged);
  // End of what arrived: a mark that acknowledged nothing new is told all the same.
  void arrival_done(Instant now, uint32_t unacknowledged) {
    if (!reported_ && (ecn_echo_ || telemetry_)) acknowledged(now, 0, 0, unacknowledged);
    telemetry_ = nullptr;
    ecn_echo_ = false;
  }

 private:
  // Packets that ask may be that many in flight; those beyond are not measured.
  static constexpr uint32_t kMostAsked = 512;
  struct Asked {
    Psn psn;
    uint64_t at = 0;  // ps; differences hold for half of the range
  };
  Duration round_trip_to(Instant now, Psn psn);

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
  Duration round_trip_;  // of what arrived; 0: not known
  uint8_t switches_ = 0;
  std::vector<Asked> asked_;  // a ring; empty where nobody wants to know
  uint32_t asked_head_ = 0;
  uint32_t asked_count_ = 0;
};

}  // namespace verbena::engine
