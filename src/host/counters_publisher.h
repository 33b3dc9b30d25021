// Copies the engine's counters to the page that `verbena stats` reads and to the counter files of
// the generated tree, now and then and when the engine comes to rest, so that reading never
// disturbs the data path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "broker/counters_page.h"
#include "engine/device.h"
#include "host/tree_counters.h"

namespace verbena::host {

class CountersPublisher {
 public:
  static constexpr Duration kInterval = milliseconds(50);  // while requests are outstanding
  static constexpr Duration kRestInterval = milliseconds(kCounterLifespanMs);  // while none is

  // Writes names and program into a fresh page (zeroed memory of this process). What `device` has
  // counted up to now was another process's, the parent's. `tree`: the generated tree this process
  // runs in ($VERBENA_TREE), null or empty for none.
  void open(broker::CountersPage* page, const engine::Device& device, const char* tree);
  void close() { page_ = nullptr; }

  // The engine's port (below engine::kMaxPorts) for the verbs device of that name, the same at
  // every call. Devices beyond kMaxPorts share the last one.
  uint8_t port(std::string_view device_name);

  // The engine did something: the page is out of date.
  void touch() { stale_ = true; }
  bool stale() const { return stale_ && page_; }
  bool due(Instant now, const engine::Device& device) const {
    return stale() && now >= due_at(device);
  }
  // When a sleeper has to come back to bring the page up to date; kNever when it is.
  Instant deadline(const engine::Device& device) const { return stale() ? due_at(device) : kNever; }
  void publish(Instant now, const engine::Device& device);
  // The process ends: the tree's files get what they still lack. Waits up to 50 ms for another
  // process that writes them.
  void flush(const engine::Device& device);

 private:
  // Coming to rest after work publishes at once: who waited for the last completion and then reads
  // a counter finds it complete.
  Instant due_at(const engine::Device& device) const {
    if (device.next_deadline() != kNever) return published_ + kInterval;
    return rested_ ? published_ + kRestInterval : published_;
  }
  void publish_page(const engine::Device& device);
  bool publish_tree(const engine::Device& device);
  void publish_row(broker::QpRow& row, const engine::QueuePair& qp);

  broker::CountersPage* page_ = nullptr;
  bool stale_ = false;
  bool rested_ = false;  // the engine was at rest when last published
  Instant published_ = kLongAgo;
  uint32_t rows_used_ = 0;
  std::string tree_;
  std::vector<std::string> ports_;                                   // names of verbs devices
  uint64_t in_tree_[engine::kMaxPorts][engine::kCounterCount] = {};  // added so far, file's unit
};

}  // namespace verbena::host
