// One pass over the device's counters and up to kQpRows queue pairs, and the tree's files of those
// counters that moved.
#include "host/counters_publisher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace verbena::host {
namespace {

static_assert(engine::kCounterCount <= static_cast<int>(broker::kDeviceCounters));

constexpr const char* kQpNames[] = {
    "packets_sent", "packets_received", "bytes_sent",      "bytes_received", "retransmissions",
    "timeouts",     "naks_sent",        "naks_received",   "rnr_sent",       "rnr_received",
    "completions",  "errors",           "bytes_delivered",
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

const uint64_t* values_of(const engine::Counters& counters) {
  return reinterpret_cast<const uint64_t*>(&counters);
}

uint64_t in_file_unit(const engine::Counters& counters, int index) {
  return values_of(counters)[index] / counter_divisor(engine::kCounterInfo[index].name);
}

}  // namespace

void CountersPublisher::open(broker::CountersPage* page, const engine::Device& device,
                             const char* tree) {
  page_ = page;
  tree_ = tree ? tree : "";
  for (uint8_t port = 0; port < engine::kMaxPorts; ++port)
    for (int i = 0; i < engine::kCounterCount; ++i)
      in_tree_[port][i] = in_file_unit(device.port_counters(port), i);
  rows_used_ = 0;
  read_program(page->program);
  for (int i = 0; i < engine::kCounterCount; ++i)
    broker::name_counter(page->device_names[i], engine::kCounterInfo[i].name);
  for (uint32_t i = 0; i < kQpNameCount; ++i) broker::name_counter(page->qp_names[i], kQpNames[i]);
  page->device_count.store(engine::kCounterCount, std::memory_order_release);
  page->qp_count.store(kQpNameCount, std::memory_order_release);
  stale_ = true;
}

uint8_t CountersPublisher::port(std::string_view device_name) {
  auto found = std::find(ports_.begin(), ports_.end(), device_name);
  if (found == ports_.end() && ports_.size() < engine::kMaxPorts) {
    ports_.emplace_back(device_name);
    found = ports_.end() - 1;
  }
  const auto index = static_cast<size_t>(found - ports_.begin());
  return static_cast<uint8_t>(std::min<size_t>(index, engine::kMaxPorts - 1));
}

void CountersPublisher::publish(Instant now, const engine::Device& device) {
  if (!page_) return;
  published_ = now;
  rested_ = device.next_deadline() == kNever;
  publish_page(device);
  stale_ = !publish_tree(device);
}

void CountersPublisher::flush(const engine::Device& device) {
  for (int attempt = 0; page_ && attempt < 50; ++attempt) {
    if (publish_tree(device)) return;
    ::usleep(1000);
  }
}

// False: somebody else is writing, come again. A tree that is gone or damaged takes no counters.
bool CountersPublisher::publish_tree(const engine::Device& device) {
  if (tree_.empty() || ports_.empty()) return true;
  Result<TreeCounters> tree = TreeCounters::lock(tree_);
  if (!tree) return tree.error().code != EWOULDBLOCK;
  for (size_t port = 0; port < ports_.size(); ++port) {
    const engine::Counters& counted = device.port_counters(static_cast<uint8_t>(port));
    CounterDelta deltas[engine::kCounterCount];
    size_t count = 0;
    for (int i = 0; i < engine::kCounterCount; ++i) {
      const uint64_t value = in_file_unit(counted, i);
      if (value == in_tree_[port][i]) continue;
      deltas[count++] = {engine::kCounterInfo[i].name, value - in_tree_[port][i]};
      in_tree_[port][i] = value;
    }
    if (count != 0) (void)tree->add(ports_[port], std::span(deltas, count));
  }
  return true;
}

void CountersPublisher::publish_page(const engine::Device& device) {
  const engine::Counters total = device.total_counters();
  const uint64_t* values = values_of(total);
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
