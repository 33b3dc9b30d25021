// Written by one process, read by the broker after its death: a row that was being written is
// skipped.
#include "broker/connection_rows.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "broker/slot_segment.h"

namespace verbena::broker {
namespace {

constexpr size_t kRowsAtOnce = 64;

}  // namespace

void write_row(ConnectionRows& rows, uint32_t index, const cm::Row& row) {
  if (index >= kMaxConnectionRows) return;
  ConnectionRow& to = rows.rows[index];
  to.valid.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (row.state == cm::State::kIdle) return;
  to.state = static_cast<uint32_t>(row.state);
  to.local_comm_id = row.local_comm_id;
  to.remote_comm_id = row.remote_comm_id;
  to.remote_qpn = row.remote_qpn;
  to.traffic_class = row.route.traffic_class;
  to.hop_limit = row.route.hop_limit;
  to.transaction_id = row.transaction_id;
  std::memcpy(to.source, row.route.source.bytes.data(), sizeof(to.source));
  std::memcpy(to.destination, row.route.destination.bytes.data(), sizeof(to.destination));
  to.valid.store(1, std::memory_order_release);
  if (rows.used.load(std::memory_order_relaxed) <= index)
    rows.used.store(index + 1, std::memory_order_release);
}

void for_each_row(int segment, link::FunctionRef<void(const cm::Row&)> visit) {
  constexpr off_t kBase = offsetof(SlotSegment, connections);
  uint32_t used = 0;
  if (::pread(segment, &used, sizeof(used), kBase + offsetof(ConnectionRows, used)) !=
      static_cast<ssize_t>(sizeof(used)))
    return;
  used = std::min(used, kMaxConnectionRows);
  for (uint32_t first = 0; first < used; first += kRowsAtOnce) {
    ConnectionRow rows[kRowsAtOnce] = {};
    const uint32_t count = std::min<uint32_t>(used - first, kRowsAtOnce);
    const off_t at =
        kBase + static_cast<off_t>(offsetof(ConnectionRows, rows) + first * sizeof(ConnectionRow));
    const ssize_t bytes = static_cast<ssize_t>(count * sizeof(ConnectionRow));
    if (::pread(segment, static_cast<void*>(rows), static_cast<size_t>(bytes), at) != bytes) return;
    for (uint32_t i = 0; i < count; ++i) {
      const ConnectionRow& from = rows[i];
      if (from.valid.load(std::memory_order_relaxed) != 1) continue;
      if (from.state > static_cast<uint32_t>(cm::State::kSidrReqReceived)) continue;
      cm::Row row;
      row.state = static_cast<cm::State>(from.state);
      row.local_comm_id = from.local_comm_id;
      row.remote_comm_id = from.remote_comm_id;
      row.remote_qpn = from.remote_qpn;
      row.transaction_id = from.transaction_id;
      row.route.traffic_class = from.traffic_class;
      row.route.hop_limit = from.hop_limit;
      std::memcpy(row.route.source.bytes.data(), from.source, sizeof(from.source));
      std::memcpy(row.route.destination.bytes.data(), from.destination, sizeof(from.destination));
      visit(row);
    }
  }
}

}  // namespace verbena::broker
