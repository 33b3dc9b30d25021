// The list only grows, at its end, so walking it needs no lock. A mutex that another thread makes
// during a fork is in nobody's use yet.
#include "host/fork_mutex.h"

namespace verbena::host {
namespace {

std::atomic<ForkMutex*> g_first{nullptr};
std::atomic<uint32_t> g_generation{0};
ForkMutex* g_last_at_fork = nullptr;  // where the walks after the fork end, as the first one did

}  // namespace

ForkMutex::ForkMutex() {
  std::atomic<ForkMutex*>* end = &g_first;
  ForkMutex* last = nullptr;
  while (!end->compare_exchange_strong(last, this, std::memory_order_acq_rel)) {
    end = &last->next_;
    last = nullptr;
  }
}

void ForkMutex::before_fork() {
  g_last_at_fork = nullptr;
  for (ForkMutex* each = g_first.load(std::memory_order_acquire); each;
       each = each->next_.load(std::memory_order_acquire)) {
    each->mutex_.lock();
    g_last_at_fork = each;
  }
}

void ForkMutex::after_fork_parent() {
  ForkMutex* last = g_last_at_fork;
  for (ForkMutex* each = g_first.load(std::memory_order_acquire); last && each;
       each = each->next_.load(std::memory_order_acquire)) {
    each->mutex_.unlock();
    if (each == last) return;
  }
}

void ForkMutex::after_fork_child() {
  g_generation.fetch_add(1, std::memory_order_relaxed);
  for (ForkMutex* each = g_first.load(std::memory_order_acquire); each;
       each = each->next_.load(std::memory_order_acquire))
    each->mutex_.reset();
}

uint32_t fork_generation() {
  return g_generation.load(std::memory_order_relaxed);
}

}  // namespace verbena::host
