// Frames around a packet: what emit_* writes parse_* finds, and near misses are refused.
#include "wire/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "wire/icrc.h"

namespace verbena::wire {
namespace {

const uint8_t kSource4[4] = {10, 0, 0, 1};
const uint8_t kDestination4[4] = {10, 0, 0, 2};

std::vector<uint8_t> ipv4_datagram() {
  std::vector<uint8_t> bytes(kIpv4UdpBytes + 20, 7);
  emit_ipv4_udp(std::span(bytes).first<kIpv4UdpBytes>(), kSource4, kDestination4,
                {.source_port = 0xc001, .traffic_class = 0x6a, .hop_limit = 9}, 20);
  return bytes;
}

TEST(Frame, Ipv4RoundTrip) {
  std::vector<uint8_t> bytes = ipv4_datagram();
  const auto frame = parse_ip(bytes);
  ASSERT_TRUE(frame);
  EXPECT_FALSE(frame->ipv6);
  EXPECT_EQ(frame->ip4.tos, 0x6a);
  EXPECT_EQ(frame->ip4.ttl, 9);
  EXPECT_EQ(ipv4_checksum(frame->ip4), 0);
  EXPECT_EQ(frame->udp.source_port, 0xc001);
  EXPECT_EQ(frame->udp_payload.size(), 20u);
  EXPECT_EQ(icrc_of(*frame), icrc_of_payload(icrc_begin_ipv4({.source = kSource4,
                                                              .destination = kDestination4,
                                                              .total_length = 48,
                                                              .source_port = 0xc001}),
                                             frame->udp_payload));
  EXPECT_EQ(icrc_carried(*frame), 0x07070707u);
}

TEST(Frame, Ipv6WithVlanAndEthernetPadding) {
  const uint8_t address[16] = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  std::vector<uint8_t> bytes(18 + kIpv6UdpBytes + 16 + 6);
  store(bytes.data(), EthernetHeader{{}, {}, kEtherTypeVlan});
  store(bytes.data() + 14, VlanHeader{0x6005, kEtherTypeIpv6});
  emit_ipv6_udp(std::span(bytes).subspan<18, kIpv6UdpBytes>(), address, address,
                {.source_port = 0xffff, .traffic_class = 0xb8, .flow_label = 0x12345}, 16);
  const auto frame = parse_ethernet(bytes);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(frame->ipv6);
  EXPECT_EQ(frame->ip6.version_class_flow, 0x6b812345u);
  EXPECT_EQ(frame->udp_payload.size(), 16u);
  for (size_t length = 0; length < bytes.size() - 6; ++length) {
    EXPECT_FALSE(parse_ethernet(std::span(bytes).first(length))) << length;
  }
}

TEST(Frame, RefusesOtherTraffic) {
  const std::vector<uint8_t> good = ipv4_datagram();
  const auto refused = [&good](size_t at, uint8_t value) {
    std::vector<uint8_t> bytes = good;
    bytes[at] = value;
    return !parse_ip(bytes).has_value();
  };
  EXPECT_TRUE(refused(0, 0x46));   // options
  EXPECT_TRUE(refused(0, 0x55));   // version 5
  EXPECT_TRUE(refused(3, 49));     // longer than the bytes
  EXPECT_TRUE(refused(3, 19));     // shorter than its header
  EXPECT_TRUE(refused(6, 0x60));   // more fragments
  EXPECT_TRUE(refused(7, 1));      // fragment offset
  EXPECT_TRUE(refused(9, 6));      // TCP
  EXPECT_TRUE(refused(23, 0xb8));  // another port
  EXPECT_TRUE(refused(25, 27));    // UDP length
}

}  // namespace
}  // namespace verbena::wire
