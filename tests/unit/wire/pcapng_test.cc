// Blocks byte by byte, against the format's description.
#include "wire/pcapng.h"

#include <gtest/gtest.h>

#include <cstring>

namespace verbena::wire {
namespace {

uint32_t word(const std::vector<uint8_t>& bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

TEST(Pcapng, BeginsWithASectionAndItsInterface) {
  std::vector<uint8_t> file;
  append_pcapng_begin(file, "me", "leaf0:3", 100'000'000'000);
  EXPECT_EQ(word(file, 0), 0x0a0d0d0au);
  // 12 bytes of type and lengths, 16 of fields, the option (4 + "me" padded to 4), the end of them.
  const uint32_t section = 28 + 8 + 4;
  EXPECT_EQ(word(file, 4), section);
  EXPECT_EQ(word(file, 8), 0x1a2b3c4du);
  EXPECT_EQ(word(file, 12), 1u);           // version 1.0
  EXPECT_EQ(word(file, 16), 0xffffffffu);  // length not known
  EXPECT_EQ(word(file, 20), 0xffffffffu);
  EXPECT_EQ(word(file, 24), 2u << 16 | 4u);  // shb_userappl, 2 bytes
  EXPECT_EQ(std::memcmp(file.data() + 28, "me\0\0", 4), 0);
  EXPECT_EQ(word(file, 32), 0u);  // opt_endofopt
  EXPECT_EQ(word(file, section - 4), section);

  const size_t i = section;
  EXPECT_EQ(word(file, i), 1u);
  EXPECT_EQ(word(file, i + 4), file.size() - section);
  EXPECT_EQ(word(file, i + 8), 1u);  // Ethernet
  EXPECT_EQ(word(file, i + 12), 262144u);
  EXPECT_EQ(word(file, i + 16), 7u << 16 | 2u);  // if_name
  EXPECT_EQ(std::memcmp(file.data() + i + 20, "leaf0:3\0", 8), 0);
  EXPECT_EQ(word(file, i + 28), 8u << 16 | 8u);  // if_speed
  EXPECT_EQ(word(file, i + 32), 1'215'752'192u);
  EXPECT_EQ(word(file, i + 36), 23u);
  EXPECT_EQ(word(file, i + 40), 1u << 16 | 9u);   // if_tsresol
  EXPECT_EQ(word(file, i + 44), 12u);             // 10^-12 s
  EXPECT_EQ(word(file, i + 48), 1u << 16 | 13u);  // if_fcslen
  EXPECT_EQ(word(file, i + 52), 0u);
  EXPECT_EQ(word(file, i + 56), 0u);
  EXPECT_EQ(word(file, i + 60), file.size() - section);
  EXPECT_EQ(file.size(), i + 64);
}

TEST(Pcapng, AFrameIsPaddedAndSaysItsWay) {
  const uint8_t frame[5] = {1, 2, 3, 4, 5};
  std::vector<uint8_t> file;
  append_pcapng_packet(file, 0x123456789abc, frame, true);
  ASSERT_EQ(file.size(), 28u + 8u + 8u + 4u + 4u);
  EXPECT_EQ(word(file, 0), 6u);
  EXPECT_EQ(word(file, 4), file.size());
  EXPECT_EQ(word(file, 8), 0u);
  EXPECT_EQ(word(file, 12), 0x1234u);  // time, upper half first
  EXPECT_EQ(word(file, 16), 0x56789abcu);
  EXPECT_EQ(word(file, 20), 5u);
  EXPECT_EQ(word(file, 24), 5u);
  EXPECT_EQ(std::memcmp(file.data() + 28, "\1\2\3\4\5\0\0\0", 8), 0);
  EXPECT_EQ(word(file, 36), 4u << 16 | 2u);  // epb_flags
  EXPECT_EQ(word(file, 40), 2u);             // outbound
  EXPECT_EQ(word(file, 44), 0u);
  EXPECT_EQ(word(file, 48), file.size());

  std::vector<uint8_t> in;
  append_pcapng_packet(in, 0, frame, false);
  EXPECT_EQ(word(in, 40), 1u);
}

}  // namespace
}  // namespace verbena::wire
