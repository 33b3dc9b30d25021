// Rules of hand-over between pollers, blocked threads and the background thread.
#include "host/watch.h"

namespace verbena::host {

bool Watch::polled_step(Instant begin, Instant end) {
  run_ = begin - last_poll_ < kDenseGap ? run_ + 1 : 0;
  last_poll_ = end;
  spent(begin, end);
  if (run_ < kDensePolls) return false;
  dense_ = true;
  hand_over_ = false;
  if (mode_ != Mode::kWatching) return false;
  mode_ = Mode::kAside;
  return true;
}

bool Watch::armed() {
  run_ = 0;
  dense_ = false;
  if (blocks_inside_) {
    arm_unclaimed_ = true;
    unclaimed_ticks_ = 0;
    return false;
  }
  hand_over_ = true;
  if (mode_ == Mode::kWatching || drivers_ != 0) return false;
  mode_ = Mode::kWatching;
  sleeping_until_ = kNever;
  return true;
}

bool Watch::wait_begins() {
  ++drivers_;
  ++waits_in_tick_;
  blocks_inside_ = true;
  arm_unclaimed_ = false;
  hand_over_ = false;
  dense_ = false;
  if (mode_ != Mode::kWatching) return false;
  mode_ = Mode::kAside;
  return true;
}

bool Watch::wait_ends() {
  --drivers_;
  ++waits_in_tick_;
  // Others may sleep on an older deadline than the one this thread knew.
  sleeping_until_ = kNever;
  if (drivers_ != 0) return false;
  if (queued_ != 0) {
    hand_over_ = true;
    mode_ = Mode::kWatching;
    return true;
  }
  if (mode_ != Mode::kParked) return false;
  mode_ = Mode::kAside;
  return true;
}

Watch::Mode Watch::plan() {
  if (arm_unclaimed_ && drivers_ == 0 && ++unclaimed_ticks_ > 1) {
    // It slept somewhere else: from now on arming hands over at once.
    arm_unclaimed_ = false;
    blocks_inside_ = false;
    hand_over_ = true;
  }
  if (drivers_ != 0) {
    mode_ = waits_in_tick_ != 0 ? Mode::kAside : Mode::kParked;
  } else if (mode_ != Mode::kWatching) {
    bool active = polls_in_tick_ >= kTickPolls || waits_in_tick_ != 0;
    mode_ = active && !hand_over_ ? Mode::kAside : Mode::kWatching;
  }
  if (mode_ == Mode::kWatching) dense_ = false;
  polls_in_tick_ = 0;
  waits_in_tick_ = 0;
  return mode_;
}

}  // namespace verbena::host
