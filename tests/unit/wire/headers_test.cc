// The UDP source port hash against ports seen in captures of Linux peers.
#include "wire/headers.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(UdpSourcePort, FollowsTheFlowLabel) {
  EXPECT_EQ(udp_source_port(1, 0x11, 0x22), 0xc001);
  EXPECT_EQ(udp_source_port(0xfffff, 0, 0), 0xc000 | (0x3fff ^ 0x3f));
}

TEST(UdpSourcePort, FromQueuePairNumbersIsSymmetric) {
  EXPECT_EQ(udp_source_port(0, 0x11, 0x11), 0xc000 | 0x121);
  for (uint32_t a = 1; a < 0xffffff; a = a * 7 + 3) {
    EXPECT_EQ(udp_source_port(0, a, 0x123457), udp_source_port(0, 0x123457, a));
    EXPECT_GE(udp_source_port(0, a, 0x123457), 0xc000);
  }
}

TEST(Ipv4Checksum, KnownHeader) {
  Ipv4Header ip{};  // the adapter's CNP: checksum 0x9161
  ip.version_length = 0x45;
  ip.tos = 0xc2;
  ip.total_length = 60;
  ip.identification = 0x718c;
  ip.fragment = 0x4000;
  ip.ttl = 64;
  ip.protocol = 17;
  const uint8_t source[4] = {10, 0, 17, 1};
  const uint8_t destination[4] = {10, 0, 18, 1};
  std::memcpy(ip.source, source, 4);
  std::memcpy(ip.destination, destination, 4);
  EXPECT_EQ(ipv4_checksum(ip), 0x9161);
}

}  // namespace
}  // namespace verbena::wire
