// The process lock: exclusion, sleeping waiters, and no starvation beside a polling loop.
#include "host/mutex.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "host/yield.h"

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

TEST(YieldPolicy, lone_spinner_keeps_the_processor) {
  YieldPolicy policy;
  int yields = 0;
  for (int i = 0; i < 512 * 10; ++i) {
    if (!policy.empty()) continue;
    ++yields;
    policy.yielded(nanoseconds(400));
  }
  EXPECT_EQ(yields, 10);
}

TEST(YieldPolicy, crowded_spinner_gives_it_up_quickly_and_recovers) {
  YieldPolicy policy;
  while (!policy.empty()) {
  }
  policy.yielded(microseconds(50));
  EXPECT_EQ(policy.threshold(), 128u);
  policy.yielded(microseconds(50));
  policy.yielded(microseconds(50));
  policy.yielded(microseconds(50));
  EXPECT_EQ(policy.threshold(), YieldPolicy::kMinPolls);
  for (int i = 0; i < 7; ++i) policy.yielded(nanoseconds(300));
  EXPECT_EQ(policy.threshold(), YieldPolicy::kMaxPolls);
}

}  // namespace
}  // namespace verbena::host
