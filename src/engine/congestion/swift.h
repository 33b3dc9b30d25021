// Swift (SIGCOMM 2020, section 3 and algorithm 1): the delay of each acknowledged packet, from one
// adapter to the other and back, against a target. Below it the window grows by a packet in a round
// trip; above it it is cut by as much as the delay is too long, at most once in a round trip. The
// target grows with the way and, for small windows, with the number of flows that they tell of. A
// window below one packet is a pace.
//
// Acknowledgements are made by adapters, so all of the delay is the fabric's: the window that the
// paper keeps for the ends beside this one has nothing to measure.
#pragma once

#include "engine/congestion/control.h"
#include "engine/congestion/settings.h"

namespace verbena::engine {

class Swift final : public CongestionControl {
 public:
  Swift(const SwiftSettings& settings, const FlowShape& shape);

  void on_cnp(Instant) override {}
  void on_acknowledged(Instant now, const Acknowledged& what) override;
  void on_loss(Instant now, Loss how) override;
  void on_sent(Instant, uint32_t wire_bytes) override { wire_bytes_ = wire_bytes; }
  uint64_t rate(Instant now) override;
  Instant next_change(Instant) override { return kNever; }
  uint64_t window() const override;
  bool wants_round_trips() const override { return true; }

  double packets() const { return window_; }  // the window
  // The delay that the window of now aims at, over a way through so many switches.
  Duration target(uint32_t switches) const;

 private:
  void cut(Instant now, double share);

  SwiftSettings settings_;
  FlowShape shape_;
  double flow_scale_ = 0;  // the paper's alpha, in ps
  double window_;          // packets
  Duration round_trip_;    // the last one; 0: none yet
  Instant last_cut_ = kLongAgo;
  uint32_t timeouts_ = 0;    // in a row
  uint32_t wire_bytes_ = 0;  // of the last packet
};

}  // namespace verbena::engine
