// Counters that other processes can read: a table in every slot segment, written by the process
// that owns it and shown by `verbena stats`. The writer chooses what index means what; the page
// carries the names, so a reader of another version still prints them.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

namespace verbena::broker {

inline constexpr uint32_t kDeviceCounters = 64;
inline constexpr uint32_t kQpCounters = 16;
inline constexpr uint32_t kQpRows = 1024;
inline constexpr uint32_t kCounterNameBytes = 40;  // with the final 0

struct QpRow {
  std::atomic<uint32_t> sequence;  // odd while the writer changes the identity fields below
  std::atomic<uint32_t> qpn;       // 0: row unused
  std::atomic<uint32_t> peer_qpn;  // 0: none (datagram, not connected)
  std::atomic<uint8_t> state;      // ibv_qp_state
  std::atomic<uint8_t> type;       // ibv_qp_type
  std::atomic<uint8_t> path;       // engine::Path
  uint8_t reserved;
  std::atomic<uint64_t> counters[kQpCounters];
};
static_assert(sizeof(QpRow) == 16 + 8 * kQpCounters);

struct CountersPage {
  std::atomic<uint32_t> device_count;  // named entries of device[], at most kDeviceCounters
  std::atomic<uint32_t> qp_count;      // named entries of QpRow::counters, at most kQpCounters
  char program[48];                    // command name of the process, ends with 0
  char device_names[kDeviceCounters][kCounterNameBytes];
  char qp_names[kQpCounters][kCounterNameBytes];
  std::atomic<uint64_t> device[kDeviceCounters];
  QpRow rows[kQpRows];
};

// Writer: every identity change of a row lies between these two.
inline void begin_row_change(QpRow& row) {
  row.sequence.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}
inline void end_row_change(QpRow& row) {
  row.sequence.fetch_add(1, std::memory_order_release);
}

inline void name_counter(char (&to)[kCounterNameBytes], const char* name) {
  std::strncpy(to, name, kCounterNameBytes - 1);
  to[kCounterNameBytes - 1] = 0;
}

// Reader: a consistent copy of one row. False: unused, or the writer never stood still (it may
// have died inside a change).
struct QpSample {
  uint32_t qpn = 0, peer_qpn = 0;
  uint8_t state = 0, type = 0, path = 0;
  uint64_t counters[kQpCounters] = {};
};
inline bool read_row(const QpRow& row, QpSample& out) {
  constexpr auto relaxed = std::memory_order_relaxed;
  for (int attempt = 0; attempt < 100; ++attempt) {
    uint32_t before = row.sequence.load(std::memory_order_acquire);
    if (before & 1) continue;
    out.qpn = row.qpn.load(relaxed);
    out.peer_qpn = row.peer_qpn.load(relaxed);
    out.state = row.state.load(relaxed);
    out.type = row.type.load(relaxed);
    out.path = row.path.load(relaxed);
    for (uint32_t i = 0; i < kQpCounters; ++i) out.counters[i] = row.counters[i].load(relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (row.sequence.load(relaxed) == before) return out.qpn != 0;
  }
  return false;
}

// A name as another process wrote it: bounded, whatever it holds.
inline std::string counter_name(const char (&from)[kCounterNameBytes]) {
  return std::string(from, strnlen(from, kCounterNameBytes));
}

}  // namespace verbena::broker
