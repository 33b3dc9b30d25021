// The GRH area as consumers read it: the two forms are told apart by version and IPv4 checksum.
#include "wire/grh.h"

#include <gtest/gtest.h>

#include "wire/headers.h"

namespace verbena::wire {
namespace {

TEST(Grh, Ipv4) {
  uint8_t source[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2};
  uint8_t destination[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
  EXPECT_TRUE(is_v4_mapped(source));
  uint8_t area[40];
  std::fill(area, area + 40, 0xaa);
  fill_grh_area(area, source, destination, 0x6b, 64, 100);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(area[i], 0);
  const auto ip = load<Ipv4Header>(area + 20);
  EXPECT_EQ(ip.version_length, 0x45);
  EXPECT_EQ(ip.tos, 0x6b);
  EXPECT_EQ(ip.total_length, 128);
  EXPECT_EQ(ip.fragment, 0x4000);
  EXPECT_EQ(ip.ttl, 64);
  EXPECT_EQ(ip.protocol, 17);
  EXPECT_EQ(ipv4_checksum(ip), 0);  // a sum that includes the right checksum complements to 0
  EXPECT_EQ(ip.source[3], 2);
  EXPECT_EQ(ip.destination[3], 1);
}

TEST(Grh, Ipv6) {
  uint8_t source[16] = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  uint8_t destination[16] = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_FALSE(is_v4_mapped(source));
  uint8_t area[40];
  fill_grh_area(area, source, destination, 0x6b, 63, 100);
  const auto ip = load<Ipv6Header>(area);
  EXPECT_EQ(ip.version_class_flow, 0x66b00000u);
  EXPECT_EQ(ip.payload_length, 108);
  EXPECT_EQ(ip.next_header, 17);
  EXPECT_EQ(ip.hop_limit, 63);
  EXPECT_EQ(ip.source[15], 2);
  EXPECT_EQ(ip.destination[15], 1);
}

}  // namespace
}  // namespace verbena::wire
