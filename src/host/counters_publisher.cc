// One pass over the device's counters and up to kQpRows queue pairs.
#include "host/counters_publisher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace verbena::host {
namespace {

static_assert(engine::kCounterCount <= static_cast<int>(broker::kDeviceCounters));

constexpr const char* kQpNames[] = {
    "packets_sent",    "packets_received", "bytes_sent",  "bytes_received",
    "retransmissions", "timeouts",         "naks_sent",   "naks_received",
    "rnr_sent",        "rnr_received",     "completions", "errors",
};
constexpr uint32_t kQpNameCount = std::size(kQpNames);
static_assert(kQpNameCount <= broker::kQpCounters);
static_assert(sizeof(engine::QpCounters) == kQpNameCount * sizeof(uint64_t));

void read_program(char (&to)[48]) {
  int fd = ::open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t n = ::read(fd, to, sizeof(to) - 1);
  ::close(fd);
  to[n > 0 ? n - 1 : 0] = 0;  // without the line break
}

}  // namespace

void CountersPublisher::open(broker::CountersPage* page) {
  page_ = page;
  rows_used_ = 0;
  read_program(page->program);
  for (int i = 0; i < engine::kCounterCount; ++i)
    broker::name_counter(page->device_names[i], engine::kCounterInfo[i].name);
  for (uint32_t i = 0; i < kQpNameCount; ++i) broker::name_counter(page->qp_names[i], kQpNames[i]);
  page->device_count.store(engine::kCounterCount, std::memory_order_release);
  page->qp_count.store(kQpNameCount, std::memory_order_release);
  stale_ = true;
}

void CountersPublisher::publish(Instant now, engine::Device& device) {
  if (!page_) return;
  stale_ = false;
  published_ = now;
  const auto* values = reinterpret_cast<const uint64_t*>(&device.counters());
  for (int i = 0; i < engine::kCounterCount; ++i)
    page_->device[i].store(values[i], std::memory_order_relaxed);
  uint32_t used = 0;
  for (const engine::QueuePair* qp : device.queue_pairs()) {
    if (!qp) continue;
    if (used == broker::kQpRows) break;
    publish_row(page_->rows[used++], *qp);
  }
  for (uint32_t i = used; i < rows_used_; ++i) {
    broker::begin_row_change(page_->rows[i]);
    page_->rows[i].qpn.store(0, std::memory_order_relaxed);
    broker::end_row_change(page_->rows[i]);
  }
  rows_used_ = used;
}

void CountersPublisher::publish_row(broker::QpRow& row, const engine::QueuePair& qp) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const engine::QpAttributes& attributes = qp.attributes();
  const auto* values = reinterpret_cast<const uint64_t*>(&qp.counters());
  // Rows move when queue pairs come and go: the counters change with the identity, so both lie
  // between the marks.
  broker::begin_row_change(row);
  row.qpn.store(qp.qpn(), relaxed);
  row.peer_qpn.store(attributes.dest_qpn, relaxed);
  row.state.store(static_cast<uint8_t>(qp.state()), relaxed);
  row.type.store(static_cast<uint8_t>(qp.type()), relaxed);
  row.path.store(static_cast<uint8_t>(attributes.path), relaxed);
  for (uint32_t i = 0; i < kQpNameCount; ++i) row.counters[i].store(values[i], relaxed);
  broker::end_row_change(row);
}

}  // namespace verbena::host
