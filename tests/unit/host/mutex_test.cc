// The process lock: exclusion, sleeping waiters, and no starvation beside a polling loop.
#include "host/mutex.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "host/rest.h"

namespace verbena::host {
namespace {

TEST(Mutex, excludes) {
  Mutex mutex;
  uint64_t counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        std::lock_guard guard(mutex);
        ++counter;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 80000u);
}

TEST(Mutex, waiter_sleeps_until_the_holder_leaves) {
  Mutex mutex;
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock());
  bool entered = false;
  timespec cpu{};
  std::thread waiter([&] {
    std::lock_guard guard(mutex);
    entered = true;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(entered);
  mutex.unlock();
  waiter.join();
  EXPECT_TRUE(entered);
  EXPECT_LT(cpu.tv_sec * 1'000'000'000 + cpu.tv_nsec, 20'000'000);  // it did not spin for 100 ms
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(Mutex, polling_loops_do_not_starve_others) {
  Mutex mutex;
  std::atomic<bool> stop{false};
  std::vector<std::thread> pollers;
  for (int t = 0; t < 4; ++t)
    pollers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        std::lock_guard guard(mutex);
        for (int i = 0; i < 100; ++i) pause_cpu();
      }
    });
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    std::lock_guard guard(mutex);
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  stop = true;
  for (std::thread& thread : pollers) thread.join();
  EXPECT_LT(seconds, 10.0);
}

using Rest = RestPolicy::Rest;

// Polls until the policy says something; returns what, and how many polls it took.
std::pair<Rest, uint32_t> poll_until_rest(RestPolicy& policy, Instant now) {
  for (uint32_t polls = 1;; ++polls)
    if (Rest rest = policy.empty(now); rest != Rest::kNone) return {rest, polls};
}

TEST(RestPolicy, lone_spinner_keeps_the_processor) {
  RestPolicy policy;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(poll_until_rest(policy, Instant{0}), std::pair(Rest::kYield, RestPolicy::kMaxPolls));
    policy.yielded(Instant{0}, nanoseconds(400));
  }
}

TEST(RestPolicy, spinner_among_spinners_yields_quickly_and_recovers) {
  RestPolicy policy;
  policy.yielded(Instant{0}, microseconds(50));
  EXPECT_EQ(poll_until_rest(policy, Instant{0}), std::pair(Rest::kYield, 128u));
  for (int i = 0; i < 3; ++i) policy.yielded(Instant{0}, microseconds(50));
  EXPECT_EQ(poll_until_rest(policy, Instant{0}), std::pair(Rest::kYield, RestPolicy::kMinPolls));
  for (int i = 0; i < 7; ++i) policy.yielded(Instant{0}, nanoseconds(300));
  EXPECT_EQ(policy.threshold(), RestPolicy::kMaxPolls);
}

TEST(RestPolicy, spinner_among_computing_threads_dozes_and_asks_again) {
  RestPolicy policy;
  Instant now{0};
  policy.yielded(now, milliseconds(3));
  EXPECT_EQ(poll_until_rest(policy, now).first, Rest::kYield);  // once is no rule
  policy.yielded(now, milliseconds(3));
  EXPECT_EQ(poll_until_rest(policy, now), std::pair(Rest::kDoze, RestPolicy::kDozePolls));
  now = now + RestPolicy::kDozing - nanoseconds(1);
  EXPECT_EQ(poll_until_rest(policy, now).first, Rest::kDoze);
  now = now + nanoseconds(1);
  EXPECT_EQ(poll_until_rest(policy, now).first, Rest::kYield);
  policy.yielded(now, milliseconds(3));  // still crowded
  EXPECT_EQ(poll_until_rest(policy, now).first, Rest::kDoze);
  now = now + RestPolicy::kDozing;
  policy.yielded(now, nanoseconds(300));  // they have gone
  EXPECT_EQ(poll_until_rest(policy, now).first, Rest::kYield);
}

}  // namespace
}  // namespace verbena::host
