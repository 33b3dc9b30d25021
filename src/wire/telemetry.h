// In-band telemetry in a frame, in the layout of HPCC (SIGCOMM 2019, section 4.1): two bytes, then
// eight for each switch that the packet has passed. An acknowledgement carries back that of the
// packet that it answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"

namespace verbena::wire {

// nHop in 4 bits, a mix of the ports in 12.
inline constexpr size_t kTelemetryBytes = 2;

// From the highest bit: rate (a code) 4, time in ns 24, bytes sent in units of 128 20, queue in
// units of 80 bytes 16.
struct TelemetryHop {
  be64 fields;
};
static_assert(sizeof(TelemetryHop) == 8);

// What one switch says, before it is cut to those units: times and bytes wrap, a queue stays at
// the most that fits.
struct TelemetryRecord {
  uint64_t bits_per_second = 0;
  uint64_t ns = 0;
  uint64_t transmitted_bytes = 0;
  uint64_t queue_bytes = 0;
  uint32_t port = 0;
};

inline constexpr size_t kMostTelemetryRecords = 15;
// Writes kTelemetryBytes and a TelemetryHop for each record, at most kMostTelemetryRecords; `to`
// has that many bytes.
void emit_telemetry(std::span<uint8_t> to, std::span<const TelemetryRecord> records);

}  // namespace verbena::wire
