// A PFC frame byte by byte (IEEE 802.3 annex 31D).
#include "wire/pause.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace verbena::wire {
namespace {

TEST(Pause, PrioritiesOfTheMaskOnly) {
  const uint8_t source[6] = {2, 0x57, 0, 1, 0, 2};
  const std::array<uint16_t, 8> quanta = {1, 2, 3, 0xffff, 5, 6, 7, 0x1234};
  std::array<uint8_t, kPfcFrameBytes> frame;
  frame.fill(0xee);
  emit_pfc(frame, source, 0b10001000, quanta);
  const uint8_t expected[34] = {0x01, 0x80, 0xc2, 0, 0, 1,     // MAC control
                                2,    0x57, 0,    1, 0, 2,     //
                                0x88, 0x08, 0x01, 1, 0, 0x88,  // type, opcode, priorities 7 and 3
                                0,    0,    0,    0, 0, 0,    0xff, 0xff,
                                0,    0,    0,    0, 0, 0,    0x12, 0x34};
  EXPECT_EQ(std::memcmp(frame.data(), expected, sizeof(expected)), 0);
  for (size_t i = sizeof(expected); i < frame.size(); ++i) EXPECT_EQ(frame[i], 0) << i;
}

// IEEE 802.3 annex 31B.
TEST(Pause, OfTheLink) {
  const uint8_t source[6] = {2, 0x57, 0, 1, 0, 2};
  std::array<uint8_t, kPfcFrameBytes> frame;
  frame.fill(0xee);
  emit_link_pause(frame, source, 0x1234);
  const uint8_t expected[18] = {0x01, 0x80, 0xc2, 0,    0, 1, 2,    0x57, 0,
                                1,    0,    2,    0x88, 8, 0, 0x01, 0x12, 0x34};
  EXPECT_EQ(std::memcmp(frame.data(), expected, sizeof(expected)), 0);
  for (size_t i = sizeof(expected); i < frame.size(); ++i) EXPECT_EQ(frame[i], 0) << i;
}

}  // namespace
}  // namespace verbena::wire
