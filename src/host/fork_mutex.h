// A mutex for data that a forked child goes on using. fork() copies a mutex as it is, and a thread
// that holds it does not exist in the child: so fork waits until every one of these is free.
#pragma once

#include <atomic>

#include "host/mutex.h"

namespace verbena::host {

// Lockable (std::lock_guard). For objects that live as long as the process: there is no way out of
// the list. Rules that keep fork free of deadlock: whoever holds one takes neither the process lock
// nor that of a channel; of two held together, the outer one was made first.
class ForkMutex {
 public:
  ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  // The fork handlers of Process call these with the process lock held.
  static void before_fork();
  static void after_fork_parent();
  static void after_fork_child();

 private:
  Mutex mutex_;
  std::atomic<ForkMutex*> next_{nullptr};  // in the order of making
};

// How many forks lie between the process that loaded this code and this one.
uint32_t fork_generation();

}  // namespace verbena::host
