// Writes it; see telemetry.h.
#include "wire/telemetry.h"

#include <algorithm>

#include "wire/headers.h"

namespace verbena::wire {

namespace {

// Rates have codes, in Gb/s; 0 is another rate.
uint64_t rate_code(uint64_t bits_per_second) {
  static constexpr uint64_t kRates[] = {10, 25, 40, 50, 100, 200, 400, 800};
  const uint64_t* found =
      std::find(std::begin(kRates), std::end(kRates), bits_per_second / 1'000'000'000);
  return found == std::end(kRates) ? 0 : static_cast<uint64_t>(found - kRates) + 1;
}

}  // namespace

void emit_telemetry(std::span<uint8_t> to, std::span<const TelemetryRecord> records) {
  uint32_t way = 0;
  for (const TelemetryRecord& record : records) way ^= record.port;
  uint8_t* at = store(to.data(), be16(static_cast<uint16_t>(records.size() << 12 | (way & 0xfff))));
  for (const TelemetryRecord& record : records) {
    TelemetryHop hop;
    hop.fields = rate_code(record.bits_per_second) << 60 | (record.ns & 0xffffff) << 36 |
                 (record.transmitted_bytes / 128 & 0xfffff) << 16 |
                 std::min<uint64_t>(record.queue_bytes / 80, 0xffff);
    at = store(at, hop);
  }
}

}  // namespace verbena::wire
