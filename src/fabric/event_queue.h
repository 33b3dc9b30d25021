// What happens next: a heap of (time, order, who). Whoever is told knows what to do, so an event is
// 16 bytes and nothing is allocated for it. Events of one time come in the order in which they were
// made, which is what makes a run repeat.
#pragma once

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

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  Time next() const { return heap_.empty() ? kForever : heap_[0].at; }
  uint64_t pushed() const { return order_; }

  void push(Time at, EventKind kind, uint32_t index) {
    CHECK(index < 1u << kIndexBits);
    Entry entry{at, order_++ << 24 | static_cast<uint64_t>(kind) << kIndexBits | index};
    size_t slot = heap_.size();
    heap_.push_back(entry);
    while (slot > 0) {
      size_t parent = (slot - 1) / kArity;
      if (!entry.before(heap_[parent])) break;
      heap_[slot] = heap_[parent];
      slot = parent;
    }
    heap_[slot] = entry;
  }

  Event pop() {
    Entry top = heap_[0];
    Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return {top.at, static_cast<EventKind>(top.key >> kIndexBits & 7),
            static_cast<uint32_t>(top.key & ((1u << kIndexBits) - 1))};
  }

 private:
  static constexpr size_t kArity = 4;  // children of a node share a cache line
  struct Entry {
    Time at;
    uint64_t key;  // order 63:24, kind 23:21, index 20:0
    bool before(const Entry& other) const {
      return at < other.at || (at == other.at && key < other.key);
    }
  };

  void sink(const Entry& entry) {
    const size_t count = heap_.size();
    size_t slot = 0;
    for (;;) {
      size_t first = slot * kArity + 1;
      if (first >= count) break;
      size_t end = first + kArity < count ? first + kArity : count;
      size_t least = first;
      for (size_t child = first + 1; child < end; ++child)
        if (heap_[child].before(heap_[least])) least = child;
      if (!heap_[least].before(entry)) break;
      heap_[slot] = heap_[least];
      slot = least;
    }
    heap_[slot] = entry;
  }

  std::vector<Entry> heap_;
  uint64_t order_ = 0;
};

}  // namespace verbena::fabric
