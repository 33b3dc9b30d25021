// What happens next. Whoever is told knows what to do, so an event is 16 bytes: when, in which
// order it was made, who. Events of one time come in the order in which they were made, which is
// what makes a run repeat.
//
// Nearly all events are a frame's time or a cable's away. They go into a wheel of buckets of a
// nanosecond (Brown 1988, calendar queues); a bucket is sorted when its time has come. What lies
// beyond the wheel waits in a heap, and the earlier of both is next.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "fabric/units.h"

namespace verbena::fabric {

enum class EventKind : uint8_t {
  kArrival,      // port: the oldest frame on its way reaches it
  kPortFree,     // port: may send again
  kPauseTimer,   // port: a pause expires or is to be renewed
  kHostTimer,    // host
  kHostReceive,  // host: a slow adapter has taken a frame
  kStorm,        // host: a broken adapter pauses again
  kControl,      // an action that somebody planned
};

struct Event {
  Time at = 0;
  EventKind kind{};
  uint32_t index = 0;
};

class EventQueue {
 public:
  static constexpr uint32_t kIndexBits = 21;

  EventQueue() : heads_(kBuckets, kNone) {}

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  uint64_t pushed() const { return order_; }

  // Not before the time of the event popped last.
  void push(Time at, EventKind kind, uint32_t index) {
    CHECK(index < 1u << kIndexBits);
    Entry entry{at, order_++ << 24 | static_cast<uint64_t>(kind) << kIndexBits | index};
    uint64_t slot = slot_of(at);
    ++size_;
    if (slot - slot_ >= kBuckets) return push_far(entry);
    if (slot == slot_ && loaded_) return push_current(entry);
    link(slot, entry);
  }

  // The earliest event, if its time is not after `until`.
  bool pop(Time until, Event& to) {
    if (size_ == 0) return false;
    uint64_t bucket = 0;
    const Entry* near = nearest(bucket);
    bool from_far = !far_.empty() && (!near || far_[0].before(*near));
    Time at = from_far ? far_[0].at : near->at;
    if (at > until) return false;
    Entry entry;
    if (from_far) {
      entry = far_[0];
      std::pop_heap(far_.begin(), far_.end(), later);
      far_.pop_back();
      if (slot_of(at) != slot_) {
        slot_ = slot_of(at);
        loaded_ = false;
      }
    } else {
      if (current_.empty()) load(bucket);
      entry = current_.back();
      current_.pop_back();
    }
    --size_;
    to = {entry.at, static_cast<EventKind>(entry.key >> kIndexBits & 7),
          static_cast<uint32_t>(entry.key & ((1u << kIndexBits) - 1))};
    return true;
  }

 private:
  static constexpr uint32_t kShift = 10;      // a bucket is 1.024 ns
  static constexpr uint64_t kBuckets = 8192;  // 8.4 us: most cables
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kWords = kBuckets / 64;

  struct Entry {
    Time at = 0;
    uint64_t key = 0;  // order 63:24, kind 23:21, index 20:0
    bool before(const Entry& other) const {
      return at < other.at || (at == other.at && key < other.key);
    }
  };
  struct Node {
    Entry entry;
    uint32_t next = kNone;
  };
  static bool later(const Entry& a, const Entry& b) { return b.before(a); }
  static uint64_t slot_of(Time at) { return static_cast<uint64_t>(at) >> kShift; }

  void push_far(const Entry& entry) {
    far_.push_back(entry);
    std::push_heap(far_.begin(), far_.end(), later);
  }

  // Into the bucket that is being emptied: sorted, the earliest at the back.
  void push_current(const Entry& entry) {
    auto at = current_.end();
    while (at != current_.begin() && (at - 1)->before(entry)) --at;
    current_.insert(at, entry);
  }

  void link(uint64_t slot, const Entry& entry) {
    uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    uint64_t bucket = slot % kBuckets;
    nodes_[node] = {entry, heads_[bucket]};
    heads_[bucket] = node;
    full_[bucket / 64] |= uint64_t{1} << bucket % 64;
  }

  // The earliest entry of the wheel, null when it has none; `bucket` when it is not loaded yet.
  const Entry* nearest(uint64_t& bucket) const {
    if (!current_.empty()) return &current_.back();
    uint64_t start = slot_ % kBuckets;
    uint64_t word = full_[start / 64] & ~uint64_t{0} << start % 64;
    for (size_t i = 0; i <= kWords; ++i) {
      size_t at = (start / 64 + i) % kWords;
      if (i > 0) word = full_[at];
      if (word == 0) continue;
      bucket = at * 64 + static_cast<uint64_t>(std::countr_zero(word));
      const Entry* least = nullptr;
      for (uint32_t node = heads_[bucket]; node != kNone; node = nodes_[node].next)
        if (!least || nodes_[node].entry.before(*least)) least = &nodes_[node].entry;
      return least;
    }
    return nullptr;
  }

  void load(uint64_t bucket) {
    for (uint32_t node = heads_[bucket]; node != kNone;) {
      current_.push_back(nodes_[node].entry);
      uint32_t next = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
      node = next;
    }
    heads_[bucket] = kNone;
    full_[bucket / 64] &= ~(uint64_t{1} << bucket % 64);
    slot_ = slot_of(current_.front().at);
    loaded_ = true;
    if (current_.size() > 1) std::sort(current_.begin(), current_.end(), later);
  }

  std::vector<uint32_t> heads_;  // by bucket: its entries, in no order
  std::array<uint64_t, kWords> full_{};
  std::vector<Node> nodes_;
  uint32_t free_ = kNone;
  std::vector<Entry> current_;  // of the bucket of slot_, once loaded
  uint64_t slot_ = 0;           // bucket of the last event, counted from time 0
  bool loaded_ = false;         // its entries are in current_
  std::vector<Entry> far_;      // heap
  size_t size_ = 0;
  uint64_t order_ = 0;
};

}  // namespace verbena::fabric
