// What a process's connection manager writes into its slot segment, so that the broker can say
// goodbye to its peers when it is killed: one row for each connection that a peer believes in.
#pragma once

#include <atomic>
#include <cstdint>

#include "cm/manager.h"
#include "link/function_ref.h"

namespace verbena::broker {

inline constexpr uint32_t kMaxConnectionRows = 4096;  // what is above has no row: peers time out

struct ConnectionRow {
  std::atomic<uint32_t> valid;  // 0 while it is empty or being written
  uint32_t state;               // cm::State
  uint32_t local_comm_id;
  uint32_t remote_comm_id;
  uint32_t remote_qpn;
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint16_t reserved;
  uint64_t transaction_id;
  uint8_t source[16];
  uint8_t destination[16];
};
static_assert(sizeof(ConnectionRow) == 64);

struct ConnectionRows {
  std::atomic<uint32_t> used;  // rows beyond were never written
  uint32_t reserved[15];
  ConnectionRow rows[kMaxConnectionRows];
};

// Writes `row` at `index`; kIdle empties it. No-op for an index without a row.
void write_row(ConnectionRows& rows, uint32_t index, const cm::Row& row);

// Every whole row of the segment behind `fd`, read without mapping it: its owner is dead, or lies.
void for_each_row(int segment, link::FunctionRef<void(const cm::Row&)> visit);

}  // namespace verbena::broker
