// DCQCN, the sender's side (SIGCOMM 2015, section 5): a flow is cut when a mark comes back and
// climbs again by a timer and a byte counter, in three stages. The four sources differ in the order
// of steps, in clamps and in what a stage is (DcqcnSettings::Order); each rule below says for whom.
//
// Lazy: nothing here is a timer. Ticks of alpha that have passed are one power; stages that have
// passed are a loop that ends when the rate has come home. What is asked never changes what comes
// out: alpha and rates are settled at the same instants however often somebody looks.
#pragma once

#include "engine/congestion/control.h"
#include "engine/congestion/settings.h"

namespace verbena::engine {

class Dcqcn final : public CongestionControl {
 public:
  // `port_rate`: bit/s, at least 1; rpg_max_rate 0 means this.
  Dcqcn(const DcqcnSettings& settings, uint64_t port_rate);

  void on_cnp(Instant now) override { mark(now); }
  void on_acknowledged(Instant now, const Acknowledged& what) override {
    if (what.ecn_echo) mark(now);
  }
  void on_loss(Instant, Loss) override {}
  void on_sent(Instant now, uint32_t wire_bytes) override;
  uint64_t rate(Instant now) override;
  Instant next_change(Instant now) override;
  double alpha(Instant now) override;

  uint64_t target(Instant now);

 private:
  // Alpha that decays at every tick. With a mark since the last one it also gains (kNvidia,
  // kHpccNs3); or a mark changes it at once and starts the ticks anew (kPaper, kAuthors).
  struct Alpha {
    double value = 1;         // at `settled`
    Instant settled;          // a tick
    Instant marked = kNever;  // the tick that takes the marks before it into account
  };

  void mark(Instant now);
  void advance(Instant now);
  void settle_alpha(Instant now);
  double alpha_at(Instant now) const;
  Instant next_tick(Instant now) const;
  void cut(Instant now);
  uint64_t reduced(double alpha) const;
  bool keeps_target() const;
  void restart(Instant now);
  void timer_stage();
  void byte_stage();
  void increase(uint32_t own_stage);
  void skip(Instant now);
  bool settled() const { return rate_ == most_ && target_ == most_; }

  DcqcnSettings settings_;
  uint64_t most_;  // bit/s
  double keep_;    // share of alpha that a tick leaves: 1 - g
  uint64_t rate_;
  uint64_t target_;
  Alpha alpha_;
  bool marked_before_ = false;   // the first mark starts the timers
  Instant last_cut_ = kLongAgo;  // kNvidia: at most one in a period
  Instant first_mark_;           // kHpccNs3: cut checks count from here
  Instant cut_due_ = kNever;     // kHpccNs3: the check that will see the marks so far
  Instant stage_at_ = kNever;    // the rate timer's next expiry
  uint32_t time_stage_ = 0;
  uint32_t byte_stage_ = 0;
  uint64_t byte_limit_ = 0;
  uint64_t bytes_ = 0;  // since the byte counter's last expiry
  bool hyper_ = false;  // kAuthors: the counters run twice as fast
};

}  // namespace verbena::engine
