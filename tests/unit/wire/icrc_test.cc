// The ICRC against packets of an adapter and of another implementation (spec crib section 12), and
// the recovery of hidden IPv4 identifications.
#include "wire/icrc.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/prng.h"

namespace verbena::wire {
namespace {

std::vector<uint8_t> bytes_of(std::string_view hex) {
  std::vector<uint8_t> bytes;
  int high = -1;
  for (char c : hex) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<uint8_t>(high << 4 | digit));
      high = -1;
    }
  }
  return bytes;
}

// A congestion notification packet as a ConnectX-4 Lx sent it.
const std::vector<uint8_t> kAdapterFrame = bytes_of(
    "e41d2dab2bc2 7cfe90643b32 0800 45c2003c718c400040119161 0a001101 0a001201 000012b700280000"
    "8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a");

TEST(Icrc, AdapterFrame) {
  const auto ip = load<Ipv4Header>(kAdapterFrame.data() + 14);
  const auto udp = load<UdpHeader>(kAdapterFrame.data() + 34);
  const auto payload = std::span(kAdapterFrame).subspan(42);
  const uint32_t crc = icrc_of_payload(icrc_begin(ip, udp), payload);
  EXPECT_EQ(crc, icrc_load(payload.data() + payload.size() - 4));
  EXPECT_EQ(crc, 0x2a00fd82u);
  const IcrcIpv4 covered = {.source = ip.source,
                            .destination = ip.destination,
                            .total_length = 60,
                            .identification = 0x718c,
                            .source_port = 0};
  EXPECT_EQ(icrc_begin_ipv4(covered), icrc_begin(ip, udp));
}

TEST(Icrc, UcSendOnlyInPieces) {
  const uint8_t address[4] = {192, 168, 0, 7};
  const IcrcIpv4 covered = {.source = address,
                            .destination = address,
                            .total_length = 64,
                            .identification = 1144,
                            .source_port = 49152};
  const auto bth = bytes_of("2460ffff 000000d3 00cf1710");
  ASSERT_EQ(uint32_t{0xcf1710}, 13571856u);
  const auto rest = bytes_of("4630818be28935d90e9a95505401be885e500000");
  uint32_t crc = icrc_begin_ipv4(covered);
  crc = icrc_bth(crc, std::span<const uint8_t, 12>(bth));
  for (size_t at = 0; at < rest.size(); at += 5)
    crc = icrc_update(crc, std::span(rest).subspan(at, 5));
  uint8_t stored[4];
  icrc_store(stored, crc);
  EXPECT_EQ(std::vector<uint8_t>(stored, stored + 4), bytes_of("78f353f3"));
}

TEST(Icrc, IgnoresWhatRoutersChange) {
  std::vector<uint8_t> frame = kAdapterFrame;
  frame[15] = 0x03;           // TOS
  frame[22] = 9;              // TTL
  frame[24] = frame[25] = 0;  // IPv4 checksum
  frame[40] = 0x12;           // UDP checksum
  frame[42 + 4] = 0x80;       // FECN, BECN
  const uint32_t crc =
      icrc_of_payload(icrc_begin(load<Ipv4Header>(&frame[14]), load<UdpHeader>(&frame[34])),
                      std::span(frame).subspan(42));
  EXPECT_EQ(crc, 0x2a00fd82u);
}

TEST(Icrc, Ipv6FromHeadersAndFromFields) {
  Ipv6Header ip{};
  ip.version_class_flow = 0x6ab12345;
  ip.payload_length = 40;
  ip.next_header = kIpProtocolUdp;
  ip.hop_limit = 3;
  ip.source[15] = 1;
  ip.destination[0] = 0xfd;
  UdpHeader udp{};
  udp.source_port = 0xc123;
  udp.destination_port = kRoceUdpPort;
  udp.length = 40;
  udp.checksum = 0x1234;
  EXPECT_EQ(icrc_begin(ip, udp), icrc_begin_ipv6({.source = ip.source,
                                                  .destination = ip.destination,
                                                  .payload_length = 40,
                                                  .source_port = 0xc123}));
}

TEST(IdSolver, FindsEveryIdentification) {
  IdSolver solver;
  Prng prng(7);
  const uint8_t source[4] = {10, 0, 0, 1};
  const uint8_t destination[4] = {10, 0, 0, 2};
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> payload(16 + prng.next() % 4100);
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(prng.next());
    const auto id = static_cast<uint16_t>(prng.next());
    IcrcIpv4 covered = {.source = source,
                        .destination = destination,
                        .total_length = static_cast<uint16_t>(28 + payload.size()),
                        .identification = id,
                        .source_port = 0xc000};
    const uint32_t received = icrc_of_payload(icrc_begin_ipv4(covered), payload);
    covered.identification = 0;
    const uint32_t computed = icrc_of_payload(icrc_begin_ipv4(covered), payload);
    const size_t after = icrc_bytes_after_id(covered.total_length);
    const auto found = solver.solve(received ^ computed, after);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, id);
    // One flipped bit of the payload, or another length, is not explained by an identification.
    payload[14] ^= 0x10;
    const uint32_t damaged = icrc_of_payload(icrc_begin_ipv4(covered), payload);
    EXPECT_FALSE(solver.solve(received ^ damaged, after).has_value());
  }
}

TEST(IdSolver, RandomDifferencesAreRefused) {
  IdSolver solver;
  Prng prng(11);
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    accepted += solver.solve(static_cast<uint32_t>(prng.next()), 1066).has_value();
  }
  EXPECT_LT(accepted, 20);  // expected 200000 / 65536 = 3
  EXPECT_EQ(solver.solve(0, 1066), uint16_t{0});
  EXPECT_FALSE(solver.solve(1, size_t{1} << 40).has_value());
}

}  // namespace
}  // namespace verbena::wire
