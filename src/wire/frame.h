// The headers around a RoCE v2 packet, read and written whole: for links and captures that see
// frames instead of UDP payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/headers.h"

namespace verbena::wire {

struct Frame {
  bool ipv6 = false;
  Ipv4Header ip4{};  // valid when !ipv6
  Ipv6Header ip6{};  // valid when ipv6
  UdpHeader udp{};
  std::span<const uint8_t> udp_payload;  // BTH .. ICRC, without Ethernet padding; >= 16 bytes
};

// `bytes` begins with the IPv4 or IPv6 header. Nothing unless it is one whole UDP datagram to
// port 4791 (no fragment, no IPv4 options or IPv6 extension headers, lengths that agree).
std::optional<Frame> parse_ip(std::span<const uint8_t> bytes);
// `bytes` begins with the Ethernet header; up to two VLAN tags are skipped.
std::optional<Frame> parse_ethernet(std::span<const uint8_t> bytes);

// The ICRC the frame should carry, from its own headers.
uint32_t icrc_of(const Frame& frame);
// The ICRC it carries.
uint32_t icrc_carried(const Frame& frame);

inline constexpr size_t kIpv4UdpBytes = 28;
inline constexpr size_t kIpv6UdpBytes = 48;

struct DatagramHeaders {  // what a sender chooses
  uint16_t source_port = 0;
  uint16_t destination_port = kRoceUdpPort;
  uint8_t traffic_class = 0;  // DSCP 7:2, ECN 1:0
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;      // IPv6 only, 20 bits
  uint16_t identification = 0;  // IPv4 only
  bool dont_fragment = true;    // IPv4 only
};
// Write the IP and UDP headers of a datagram of `payload_length` bytes (BTH .. ICRC, at most
// 65507); IPv4 checksum right, UDP checksum 0 (RFC 6935 allows it, and every RoCE sender does so).
void emit_ipv4_udp(std::span<uint8_t, kIpv4UdpBytes> to, std::span<const uint8_t, 4> source,
                   std::span<const uint8_t, 4> destination, const DatagramHeaders& headers,
                   uint16_t payload_length);
void emit_ipv6_udp(std::span<uint8_t, kIpv6UdpBytes> to, std::span<const uint8_t, 16> source,
                   std::span<const uint8_t, 16> destination, const DatagramHeaders& headers,
                   uint16_t payload_length);

}  // namespace verbena::wire
