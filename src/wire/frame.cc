// Finds the RoCE v2 packet inside a frame; every length is checked before it is used.
#include "wire/frame.h"

#include "wire/icrc.h"
#include "wire/opcode.h"

namespace verbena::wire {
namespace {

constexpr int kMaxVlanTags = 2;

// `bytes` begins with the UDP header and is cut to the IP payload.
bool parse_udp(std::span<const uint8_t> bytes, Frame& frame) {
  if (bytes.size() < sizeof(UdpHeader)) return false;
  frame.udp = load<UdpHeader>(bytes.data());
  if (frame.udp.destination_port != kRoceUdpPort) return false;
  if (frame.udp.length != bytes.size()) return false;
  frame.udp_payload = bytes.subspan(sizeof(UdpHeader));
  return frame.udp_payload.size() >= kBthBytes + kIcrcBytes;
}

bool parse_ipv4(std::span<const uint8_t> bytes, Frame& frame) {
  if (bytes.size() < sizeof(Ipv4Header)) return false;
  frame.ip4 = load<Ipv4Header>(bytes.data());
  const size_t total = frame.ip4.total_length;
  const uint16_t fragment = frame.ip4.fragment;
  if (frame.ip4.version_length != 0x45 || frame.ip4.protocol != kIpProtocolUdp) return false;
  if ((fragment & ~Ipv4Header::kDontFragment) != 0) return false;
  if (total < sizeof(Ipv4Header) || total > bytes.size()) return false;
  return parse_udp(bytes.subspan(sizeof(Ipv4Header), total - sizeof(Ipv4Header)), frame);
}

bool parse_ipv6(std::span<const uint8_t> bytes, Frame& frame) {
  if (bytes.size() < sizeof(Ipv6Header)) return false;
  frame.ipv6 = true;
  frame.ip6 = load<Ipv6Header>(bytes.data());
  const size_t length = frame.ip6.payload_length;
  if (frame.ip6.next_header != kIpProtocolUdp) return false;
  if (length > bytes.size() - sizeof(Ipv6Header)) return false;
  return parse_udp(bytes.subspan(sizeof(Ipv6Header), length), frame);
}

}  // namespace

std::optional<Frame> parse_ip(std::span<const uint8_t> bytes) {
  Frame frame;
  if (bytes.empty()) return std::nullopt;
  const uint8_t version = bytes[0] >> 4;
  const bool good = version == 4   ? parse_ipv4(bytes, frame)
                    : version == 6 ? parse_ipv6(bytes, frame)
                                   : false;
  if (!good) return std::nullopt;
  return frame;
}

std::optional<Frame> parse_ethernet(std::span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(EthernetHeader)) return std::nullopt;
  uint16_t type = load<EthernetHeader>(bytes.data()).ether_type;
  bytes = bytes.subspan(sizeof(EthernetHeader));
  for (int tags = 0; type == kEtherTypeVlan && tags < kMaxVlanTags; ++tags) {
    if (bytes.size() < sizeof(VlanHeader)) return std::nullopt;
    type = load<VlanHeader>(bytes.data()).ether_type;
    bytes = bytes.subspan(sizeof(VlanHeader));
  }
  if (bytes.empty()) return std::nullopt;
  const uint8_t version = bytes[0] >> 4;
  if (!(type == kEtherTypeIpv4 && version == 4) && !(type == kEtherTypeIpv6 && version == 6)) {
    return std::nullopt;
  }
  return parse_ip(bytes);
}

uint32_t icrc_of(const Frame& frame) {
  const uint32_t begun =
      frame.ipv6 ? icrc_begin(frame.ip6, frame.udp) : icrc_begin(frame.ip4, frame.udp);
  return icrc_of_payload(begun, frame.udp_payload);
}

uint32_t icrc_carried(const Frame& frame) {
  return icrc_load(frame.udp_payload.data() + frame.udp_payload.size() - kIcrcBytes);
}

void emit_ipv4_udp(std::span<uint8_t, kIpv4UdpBytes> to, std::span<const uint8_t, 4> source,
                   std::span<const uint8_t, 4> destination, const DatagramHeaders& headers,
                   uint16_t payload_length) {
  Ipv4Header ip;
  ip.version_length = 0x45;
  ip.tos = headers.traffic_class;
  ip.total_length = static_cast<uint16_t>(kIpv4UdpBytes + payload_length);
  ip.identification = headers.identification;
  ip.fragment = headers.dont_fragment ? Ipv4Header::kDontFragment : uint16_t{0};
  ip.ttl = headers.hop_limit;
  ip.protocol = kIpProtocolUdp;
  ip.checksum = 0;
  std::memcpy(ip.source, source.data(), 4);
  std::memcpy(ip.destination, destination.data(), 4);
  ip.checksum = ipv4_checksum(ip);
  UdpHeader udp;
  udp.source_port = headers.source_port;
  udp.destination_port = headers.destination_port;
  udp.length = static_cast<uint16_t>(sizeof(UdpHeader) + payload_length);
  udp.checksum = 0;
  store(store(to.data(), ip), udp);
}

void emit_ipv6_udp(std::span<uint8_t, kIpv6UdpBytes> to, std::span<const uint8_t, 16> source,
                   std::span<const uint8_t, 16> destination, const DatagramHeaders& headers,
                   uint16_t payload_length) {
  Ipv6Header ip;
  ip.version_class_flow =
      0x60000000u | uint32_t{headers.traffic_class} << 20 | (headers.flow_label & 0xfffff);
  ip.payload_length = static_cast<uint16_t>(sizeof(UdpHeader) + payload_length);
  ip.next_header = kIpProtocolUdp;
  ip.hop_limit = headers.hop_limit;
  std::memcpy(ip.source, source.data(), 16);
  std::memcpy(ip.destination, destination.data(), 16);
  UdpHeader udp;
  udp.source_port = headers.source_port;
  udp.destination_port = headers.destination_port;
  udp.length = ip.payload_length;
  udp.checksum = 0;
  store(store(to.data(), ip), udp);
}

}  // namespace verbena::wire
