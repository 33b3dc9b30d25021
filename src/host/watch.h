// Who drives the engine: a thread of the application that polls, one that blocks on a channel, or
// the background thread. Exactly one must be responsible at any time, two on the same sockets wake
// each other for nothing, and an idle process must not wake at all. This is the bookkeeping of that
// choice, without threads or descriptors; the caller holds the process lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::host {

class Watch {
 public:
  // What the background thread does now.
  enum class Mode : uint8_t {
    kWatching,  // sleeps on the links and the engine's deadline: it is responsible
    kAside,   // the application drives; looks every kTick whether that is still so, glances between
    kParked,  // a thread blocked in a channel drives; sleeps until told
  };
  static constexpr Duration kTick = milliseconds(1);
  static constexpr Duration kGlance = microseconds(20);
  // Without a poll or post for so long, the loop is elsewhere. On the wire these take system calls.
  static constexpr Duration kAbsent = microseconds(15);
  static constexpr Duration kAbsentOnWire = microseconds(25);
  static constexpr uint32_t kMaxCredit = 8;
  static constexpr Duration kDenseGap = microseconds(200);  // polls closer than this are a loop
  static constexpr uint32_t kDensePolls = 32;
  static constexpr uint32_t kTickPolls = 8;      // polls in a tick that mean "still polling"
  static constexpr uint32_t kMaxDrivers = 2;     // blocked threads that drive at the same time
  static constexpr uint32_t kMaxFruitless = 64;  // wake-ups of one that found nothing for it

  Mode mode() const { return mode_; }
  // A polling loop drives and nobody else does: it will be back within microseconds.
  bool polling() const { return dense_ && mode_ == Mode::kAside && drivers_ == 0; }

  // --- pollers. Each returns whether the background thread must be woken to take its new mode.
  void polled() { ++polls_in_tick_; }
  // A poll that found no completion and drove the engine from `begin` to `end`: handing a window's
  // packets to the wire takes most of a millisecond.
  bool polled_step(Instant begin, Instant end);
  // Posted, and handed its packets to the links meanwhile.
  void posted(Instant begin, Instant end) { spent(begin, end); }
  // A completion queue was armed: the caller is likely to sleep, in a channel of ours or in
  // epoll. Which of the two it did last time decides whether the thread takes over at once.
  bool armed();

  // --- threads that block in a channel
  bool may_drive() const { return drivers_ < kMaxDrivers && !dense_; }
  bool wait_begins();  // as a driver; may_drive() was true
  bool wait_ends();
  // One that may not drive because enough others do: needs the thread as soon as they leave.
  bool must_queue() const { return drivers_ >= kMaxDrivers; }
  void queue_begins() { ++queued_; }
  void queue_ends() { --queued_; }
  // A driver should leave the work to others: somebody polls, or its wake-ups are not for it (it
  // waits for async events, say).
  bool should_step_back(uint32_t fruitless) const { return dense_ || fruitless > kMaxFruitless; }
  uint32_t drivers() const { return drivers_; }

  // --- the background thread
  // Chooses the mode for its next sleep.
  Mode plan();
  // While aside: a program that polls its completions may spin on its memory in between, as every
  // latency test of RDMA WRITE does, and nobody receives what it waits for. So the thread glances,
  // and does so often while every third time finds something. Rarer finds are those of a poller
  // that this very thread has interrupted.
  bool should_glance(Instant now, Duration absent) const {
    return drivers_ == 0 && now - last_call_ >= absent;
  }
  void glanced(bool found) {
    if (found)
      glance_credit_ = std::min(glance_credit_ + 2, kMaxCredit);
    else if (glance_credit_ > 0)
      --glance_credit_;
  }
  Duration until_glance() const { return glance_credit_ > 0 ? kGlance : kTick; }
  // The lock was refused so many times in a row. A thread that hands whole windows to the wire has
  // it nearly always, and each look in vain takes a processor from somebody.
  static Duration until_next_try(uint32_t refused) {
    return std::min(kTick, microseconds(kGlance.ns() / 1000 << std::min(refused, 6u)));
  }
  // The sleepers' deadline: who makes an earlier one must wake a sleeper.
  void sleeping_until(Instant deadline) { sleeping_until_ = deadline; }
  // Whether a sleeper is responsible for work due at `deadline` and does not know of it; says so
  // once per deadline, because the caller wakes it then.
  bool sleeper_is_late(Instant deadline) {
    if (drivers_ == 0 && mode_ != Mode::kWatching) return false;
    if (deadline >= sleeping_until_) return false;
    sleeping_until_ = deadline;
    return true;
  }

  // After fork, in the child.
  void reset() { *this = Watch(); }

 private:
  // In a call: time in which the caller could not make another one counts as polls.
  void spent(Instant begin, Instant end) {
    last_call_ = end;
    polls_in_tick_ += static_cast<uint32_t>((end - begin).ns() / (kTick.ns() / kTickPolls));
  }

  Mode mode_ = Mode::kAside;      // until the thread has planned for the first time
  bool dense_ = false;            // a polling loop was seen and has not been seen to end
  Instant last_poll_ = kLongAgo;  // its end
  Instant last_call_ = kLongAgo;  // poll or post
  uint32_t glance_credit_ = 0;
  uint32_t run_ = 0;  // polls in a row, each within kDenseGap of the one before
  uint32_t polls_in_tick_ = 0;
  uint32_t waits_in_tick_ = 0;  // beginnings and ends
  uint32_t drivers_ = 0;
  uint32_t queued_ = 0;
  bool hand_over_ = false;      // armed, and the application does not block in our channels
  bool blocks_inside_ = false;  // it does
  bool arm_unclaimed_ = false;  // armed and not yet blocked; counts ticks
  uint32_t unclaimed_ticks_ = 0;
  Instant sleeping_until_ = kNever;
};

}  // namespace verbena::host
