// Who drives the engine: every hand-over between pollers, blocked threads and the thread.
#include "host/watch.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

using Mode = Watch::Mode;

Instant at_us(int64_t us) {
  return Instant{0} + microseconds(us);
}

// A polling loop of `polls` empty polls a microsecond apart. Returns wake-ups asked for.
int poll_densely(Watch& watch, int polls, int64_t from_us) {
  int wakes = 0;
  for (int i = 0; i < polls; ++i) {
    watch.polled();
    wakes += watch.polled_step(at_us(from_us + i), at_us(from_us + i));
  }
  return wakes;
}

TEST(Watch, idle_process_is_watched_by_the_thread) {
  Watch watch;
  EXPECT_EQ(watch.plan(), Mode::kWatching);
  EXPECT_EQ(watch.plan(), Mode::kWatching);
}

TEST(Watch, polling_loop_sends_the_thread_aside_once) {
  Watch watch;
  watch.plan();
  EXPECT_EQ(poll_densely(watch, 100, 0), 1);
  EXPECT_EQ(watch.mode(), Mode::kAside);
  EXPECT_TRUE(watch.polling());
  EXPECT_EQ(watch.plan(), Mode::kAside);     // 100 polls in this tick
  EXPECT_EQ(watch.plan(), Mode::kWatching);  // none in the next: the loop has ended
  EXPECT_FALSE(watch.polling());
}

TEST(Watch, glances_go_on_while_every_third_finds_packets) {
  Watch watch;
  watch.plan();
  poll_densely(watch, 100, 0);
  EXPECT_FALSE(watch.should_glance(at_us(99 + 14), Watch::kAbsent));
  EXPECT_TRUE(watch.should_glance(at_us(99 + 15), Watch::kAbsent));
  watch.posted(at_us(110), at_us(110));
  EXPECT_FALSE(watch.should_glance(at_us(124), Watch::kAbsent));
  EXPECT_TRUE(watch.should_glance(at_us(125), Watch::kAbsent));
  EXPECT_EQ(watch.until_glance(), Watch::kTick);
  watch.glanced(false);
  EXPECT_EQ(watch.until_glance(), Watch::kTick);
  for (int round = 0; round < 100; ++round) {
    watch.glanced(true);
    EXPECT_EQ(watch.until_glance(), Watch::kGlance);
    watch.glanced(false);
    EXPECT_EQ(watch.until_glance(), Watch::kGlance);
    watch.glanced(false);
  }
  EXPECT_EQ(watch.until_glance(), Watch::kTick);
  for (uint32_t i = 0; i < 100; ++i) watch.glanced(true);
  for (uint32_t i = 0; i < Watch::kMaxCredit; ++i) {
    EXPECT_EQ(watch.until_glance(), Watch::kGlance);
    watch.glanced(false);
  }
  EXPECT_EQ(watch.until_glance(), Watch::kTick);
}

TEST(Watch, thread_does_not_glance_while_a_blocked_thread_drives) {
  Watch watch;
  watch.plan();
  watch.wait_begins();
  EXPECT_FALSE(watch.should_glance(at_us(1000), Watch::kAbsent));
  watch.wait_ends();
  EXPECT_TRUE(watch.should_glance(at_us(1000), Watch::kAbsent));
}

TEST(Watch, sparse_polls_leave_the_thread_in_charge) {
  Watch watch;
  watch.plan();
  for (int i = 0; i < 1000; ++i) {
    watch.polled();
    EXPECT_FALSE(watch.polled_step(at_us(i * 300), at_us(i * 300)));  // wider than kDenseGap
  }
  EXPECT_EQ(watch.plan(), Mode::kWatching);
}

// A step that hands a whole window to the wire: two of them fill a tick.
TEST(Watch, long_steps_are_a_loop_too) {
  Watch watch;
  watch.plan();
  int wakes = 0;
  for (int i = 0; i < 100; ++i) {
    watch.polled();
    wakes += watch.polled_step(at_us(i * 505), at_us(i * 505 + 500));
    if (i > 40 && i % 2 == 0) {
      EXPECT_EQ(watch.plan(), Mode::kAside) << i;
    }
  }
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(watch.polling());
  EXPECT_FALSE(watch.should_glance(at_us(99 * 505 + 500 + 24), Watch::kAbsentOnWire));
  for (int i = 0; i < 2; ++i) watch.posted(at_us(51000 + i * 500), at_us(51500 + i * 500));
  EXPECT_EQ(watch.plan(), Mode::kAside);
  EXPECT_EQ(watch.plan(), Mode::kWatching);
}

TEST(Watch, arming_hands_over_at_once_when_the_program_sleeps_in_epoll) {
  Watch watch;
  watch.plan();
  poll_densely(watch, 100, 0);
  EXPECT_TRUE(watch.armed());
  EXPECT_EQ(watch.mode(), Mode::kWatching);
  EXPECT_FALSE(watch.armed());  // it watches already
  EXPECT_EQ(watch.plan(), Mode::kWatching);
  EXPECT_EQ(poll_densely(watch, 100, 1000), 1);  // it polls after all
  EXPECT_EQ(watch.plan(), Mode::kAside);
}

TEST(Watch, blocked_thread_drives_and_the_thread_parks) {
  Watch watch;
  watch.plan();
  ASSERT_TRUE(watch.may_drive());
  EXPECT_TRUE(watch.wait_begins());
  EXPECT_EQ(watch.plan(), Mode::kAside);   // something happened in this tick
  EXPECT_EQ(watch.plan(), Mode::kParked);  // still blocked: no ticks while idle
  EXPECT_TRUE(watch.wait_ends());
  EXPECT_EQ(watch.plan(), Mode::kAside);
  EXPECT_EQ(watch.plan(), Mode::kWatching);
}

TEST(Watch, event_loop_needs_no_wake_ups_of_the_thread) {
  Watch watch;
  watch.plan();
  int wakes = 0;
  for (int round = 0; round < 10; ++round) {
    wakes += watch.armed();
    for (int i = 0; i < 3; ++i) {
      watch.polled();
      wakes += watch.polled_step(at_us(round * 20 + i), at_us(round * 20 + i));
    }
    wakes += watch.wait_begins();
    wakes += watch.wait_ends();
  }
  EXPECT_EQ(wakes, 1);  // the first wait_begins()
}

TEST(Watch, arm_without_blocking_is_noticed_by_the_ticks) {
  Watch watch;
  watch.plan();
  watch.wait_begins();
  watch.wait_ends();
  EXPECT_FALSE(watch.armed());  // expected to block in a channel
  watch.plan();
  EXPECT_EQ(watch.plan(), Mode::kWatching);  // it did not: take over
  EXPECT_FALSE(watch.armed());               // watching already
  poll_densely(watch, 100, 0);
  EXPECT_TRUE(watch.armed());  // and from now on at once
}

TEST(Watch, at_most_two_drivers_and_the_next_is_served_by_the_thread) {
  Watch watch;
  watch.plan();
  watch.wait_begins();
  watch.wait_begins();
  EXPECT_FALSE(watch.may_drive());
  EXPECT_TRUE(watch.must_queue());
  watch.queue_begins();
  EXPECT_FALSE(watch.wait_ends());
  EXPECT_TRUE(watch.wait_ends());  // the last driver left one behind
  EXPECT_EQ(watch.plan(), Mode::kWatching);
  watch.queue_ends();
}

TEST(Watch, driver_steps_back_for_pollers_and_when_nothing_is_for_it) {
  Watch watch;
  watch.plan();
  watch.wait_begins();
  EXPECT_FALSE(watch.should_step_back(Watch::kMaxFruitless));
  EXPECT_TRUE(watch.should_step_back(Watch::kMaxFruitless + 1));
  poll_densely(watch, 100, 0);
  EXPECT_TRUE(watch.should_step_back(0));
}

TEST(Watch, sleeper_is_told_once_of_an_earlier_deadline) {
  Watch watch;
  watch.plan();
  watch.sleeping_until(at_us(1000));
  EXPECT_FALSE(watch.sleeper_is_late(at_us(1000)));
  EXPECT_FALSE(watch.sleeper_is_late(kNever));
  EXPECT_TRUE(watch.sleeper_is_late(at_us(500)));
  EXPECT_FALSE(watch.sleeper_is_late(at_us(500)));
  EXPECT_TRUE(watch.sleeper_is_late(at_us(400)));
  poll_densely(watch, 100, 0);  // aside: the poller is responsible
  EXPECT_FALSE(watch.sleeper_is_late(at_us(1)));
}

}  // namespace
}  // namespace verbena::host
