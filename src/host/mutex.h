// The process lock. Pollers take it millions of times a second and hold it for the length of one
// step, so it spins first and sleeps (futex) only when the holder was descheduled. A plain mutex
// of this kind starves sleepers beside a polling loop; here a sleeper that lost the race once asks
// newcomers to let it pass.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace verbena::host {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Mutex {
 public:
  void lock() {
    if (hungry_.load(std::memory_order_relaxed) != 0) let_pass();
    uint32_t free = kFree;
    if (!word_.compare_exchange_strong(free, kTaken, std::memory_order_acquire)) lock_slowly();
  }

  bool try_lock() {
    uint32_t free = kFree;
    return word_.compare_exchange_strong(free, kTaken, std::memory_order_acquire);
  }

  void unlock() {
    if (word_.exchange(kFree, std::memory_order_release) == kSleepers) futex(FUTEX_WAKE_PRIVATE, 1);
  }

  // After fork, in the child: the other threads, and what they waited for, are gone.
  void reset() {
    word_.store(kFree, std::memory_order_relaxed);
    hungry_.store(0, std::memory_order_relaxed);
  }

 private:
  enum : uint32_t { kFree, kTaken, kSleepers };
  static constexpr int kSpins = 200;     // about 5 us: longer than a usual step
  static constexpr int kPassYields = 8;  // bounds what politeness costs a poller

  void let_pass() {
    for (int i = 0; i < kPassYields && hungry_.load(std::memory_order_relaxed) != 0; ++i)
      ::sched_yield();
  }

  void lock_slowly() {
    for (int i = 0; i < kSpins; ++i) {
      if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
      pause_cpu();
    }
    bool counted = false;
    while (word_.exchange(kSleepers, std::memory_order_acquire) != kFree) {
      futex(FUTEX_WAIT_PRIVATE, kSleepers);
      if (!counted) hungry_.fetch_add(1, std::memory_order_relaxed);
      counted = true;
    }
    if (counted) hungry_.fetch_sub(1, std::memory_order_relaxed);
  }

  void futex(int operation, uint32_t value) {
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), operation, value, nullptr, nullptr,
              0);
  }

  std::atomic<uint32_t> word_{kFree};
  std::atomic<uint32_t> hungry_{0};
};

}  // namespace verbena::host
