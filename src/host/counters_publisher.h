// Copies the engine's counters to the page that `verbena stats` and `verbena top` read, now and
// then and when the engine comes to rest, so that reading never disturbs the data path.
#pragma once

#include "broker/counters_page.h"
#include "engine/device.h"

namespace verbena::host {

class CountersPublisher {
 public:
  static constexpr Duration kInterval = milliseconds(50);

  // Writes names and program into a fresh page (zeroed memory of this process).
  void open(broker::CountersPage* page);
  void close() { page_ = nullptr; }

  // The engine did something: the page is out of date.
  void touch() { stale_ = true; }
  bool stale() const { return stale_ && page_; }
  bool due(Instant now) const { return stale() && now - published_ >= kInterval; }
  // When a sleeper has to come back to bring the page up to date; kNever when it is.
  Instant deadline() const { return stale() ? published_ + kInterval : kNever; }
  void publish(Instant now, engine::Device& device);

 private:
  void publish_row(broker::QpRow& row, const engine::QueuePair& qp);

  broker::CountersPage* page_ = nullptr;
  bool stale_ = false;
  Instant published_{INT64_MIN / 2};
  uint32_t rows_used_ = 0;
};

}  // namespace verbena::host
