// Telemetry in frames: each field where HPCC's figure has it.
#include "wire/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

using testing::ElementsAre;

TEST(Telemetry, EachFieldAtItsPlace) {
  const TelemetryRecord records[] = {
      {100'000'000'000, 0x1234567, 0x89abcd * 128 + 127, 0x4321 * 80 + 79, 0x10a3},
      {3'000'000'000, 1, 128, 80, 0x001},
  };
  uint8_t to[18];
  emit_telemetry(to, records);
  // Two hops, ports a3 ^ 1; then rate code 5, 24 bits of time, 20 of bytes, 16 of the queue.
  EXPECT_THAT(to, ElementsAre(0x20, 0xa2,                                      //
                              0x52, 0x34, 0x56, 0x79, 0xab, 0xcd, 0x43, 0x21,  //
                              0x00, 0x00, 0x00, 0x10, 0x00, 0x01, 0x00, 0x01));
}

TEST(Telemetry, ALongQueueStaysAtTheMostThatFits) {
  const TelemetryRecord record{400'000'000'000, 0, 0, 1 << 30, 0};
  uint8_t to[10];
  emit_telemetry(to, {&record, 1});
  EXPECT_THAT(to, ElementsAre(0x10, 0x00, 0x70, 0, 0, 0, 0, 0, 0xff, 0xff));
}

TEST(Telemetry, ASenderAsksWithoutRecords) {
  uint8_t to[2] = {0xff, 0xff};
  emit_telemetry(to, {});
  EXPECT_THAT(to, ElementsAre(0, 0));
}

}  // namespace
}  // namespace verbena::wire
