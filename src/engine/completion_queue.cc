// The ring behind ibv_poll_cq.
#include "engine/completion_queue.h"

#include <bit>
#include <utility>

namespace verbena::engine {

// The ring's size is a power of two so that free-running indices stay right when they wrap; the
// limit is what the caller asked for.
Slots<WorkCompletion> CompletionQueue::allocate(uint32_t capacity) {
  uint32_t slots = std::bit_ceil(capacity);
  Slots<WorkCompletion> ring(slots);
  std::swap(ring, ring_);
  limit_ = capacity;
  mask_ = slots - 1;
  return ring;
}

bool CompletionQueue::push(const WorkCompletion& completion) {
  if (overrun_ || size() >= limit_) {
    overrun_ = true;
    return false;
  }
  ring_[tail_++ & mask_] = completion;
  return true;
}

uint32_t CompletionQueue::pop(WorkCompletion* to, uint32_t count) {
  uint32_t n = 0;
  for (; n < count && head_ != tail_; ++n) to[n] = ring_[head_++ & mask_];
  return n;
}

// What waits is younger than the last event when anything untold waits: completions leave in order.
bool CompletionQueue::arm(bool solicited_only) {
  armed_ = solicited_only && armed_ != kAny ? kSolicited : kAny;
  if (size() == 0 || !(armed_ == kAny ? untold_ : untold_solicited_)) return false;
  armed_ = kNone;
  untold_ = untold_solicited_ = false;
  return true;
}

bool CompletionQueue::take_event(bool solicited_or_error) {
  if (armed_ == kNone || (armed_ == kSolicited && !solicited_or_error)) {
    untold_ = true;
    untold_solicited_ |= solicited_or_error;
    return false;
  }
  armed_ = kNone;
  untold_ = untold_solicited_ = false;
  return true;
}

bool CompletionQueue::resize(uint32_t capacity) {
  if (size() > capacity) return false;
  uint32_t old_mask = mask_, count = size();
  Slots<WorkCompletion> old_ring = allocate(capacity);
  for (uint32_t i = 0; i < count; ++i) ring_[i] = old_ring[(head_ + i) & old_mask];
  head_ = 0;
  tail_ = count;
  return true;
}

void CompletionQueue::forget(uint32_t qp_num) {
  uint32_t to = head_;
  for (uint32_t from = head_; from != tail_; ++from)
    if (ring_[from & mask_].qp_num != qp_num) ring_[to++ & mask_] = ring_[from & mask_];
  tail_ = to;
}

}  // namespace verbena::engine
