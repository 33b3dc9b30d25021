// HPCC (SIGCOMM 2019, algorithm 1): every acknowledgement brings what each switch on the way had
// queued and sent. The busiest link's use, smoothed over a round trip, sets the window, which sets
// the pace. The window that cuts start from is renewed once in a round trip, so that several
// acknowledgements of the same congestion cut once; the others react at once, from the same base.
#pragma once

#include <array>

#include "engine/congestion/control.h"
#include "engine/congestion/settings.h"

namespace verbena::engine {

class Hpcc final : public CongestionControl {
 public:
  Hpcc(const HpccSettings& settings, const FlowShape& shape);

  void on_cnp(Instant) override {}
  void on_acknowledged(Instant now, const Acknowledged& what) override;
  void on_loss(Instant, Loss) override {}
  void on_sent(Instant, uint32_t) override {}
  uint64_t rate(Instant now) override;
  Instant next_change(Instant) override { return kNever; }
  uint64_t window() const override { return static_cast<uint64_t>(window_); }
  double alpha(Instant) override { return utilisation_ < 1 ? utilisation_ : 1; }

  double utilisation() const { return utilisation_; }  // of the busiest link; 1 is all of it
  double window_bytes() const { return window_; }

 private:
  bool measure(std::span<const Hop> hops);
  void remember(std::span<const Hop> hops);
  bool same_way(std::span<const Hop> hops) const;

  HpccSettings settings_;
  uint64_t port_rate_;
  double least_, most_, step_;      // bytes: bounds of the window, W_AI
  double window_;                   // W
  double reference_;                // Wc
  double utilisation_ = 1;          // U
  uint32_t stage_ = 0;              // incStage
  uint64_t renewed_at_ = 0;         // lastUpdateSeq: acknowledgements beyond it renew the reference
  std::array<Hop, kMaxHops> hops_;  // of the acknowledgement before
  uint32_t hop_count_ = 0;
};

}  // namespace verbena::engine
