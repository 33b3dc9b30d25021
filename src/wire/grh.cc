// Rebuilds the network header of a received datagram, which a UDP socket does not show.
#include "wire/grh.h"

#include <cstring>

#include "wire/headers.h"

namespace verbena::wire {

bool is_v4_mapped(std::span<const uint8_t, 16> gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kPrefix, sizeof(kPrefix)) == 0;
}

void fill_grh_area(std::span<uint8_t, kGrhBytes> area, std::span<const uint8_t, 16> source,
                   std::span<const uint8_t, 16> destination, uint8_t traffic_class,
                   uint8_t hop_limit, uint16_t udp_payload_length) {
  const auto udp_length = static_cast<uint16_t>(udp_payload_length + sizeof(UdpHeader));
  if (is_v4_mapped(source) && is_v4_mapped(destination)) {
    Ipv4Header ip;
    ip.version_length = 0x45;
    ip.tos = traffic_class;
    ip.total_length = static_cast<uint16_t>(udp_length + sizeof(Ipv4Header));
    ip.identification = 0;
    ip.fragment = Ipv4Header::kDontFragment;
    ip.ttl = hop_limit;
    ip.protocol = kIpProtocolUdp;
    ip.checksum = 0;
    std::memcpy(ip.source, source.data() + 12, 4);
    std::memcpy(ip.destination, destination.data() + 12, 4);
    ip.checksum = ipv4_checksum(ip);
    std::memset(area.data(), 0, kGrhBytes - sizeof(ip));
    store(area.data() + kGrhBytes - sizeof(ip), ip);
    return;
  }
  Ipv6Header ip;
  ip.version_class_flow = 0x60000000u | uint32_t{traffic_class} << 20;
  ip.payload_length = udp_length;
  ip.next_header = kIpProtocolUdp;
  ip.hop_limit = hop_limit;
  std::memcpy(ip.source, source.data(), 16);
  std::memcpy(ip.destination, destination.data(), 16);
  store(area.data(), ip);
}

}  // namespace verbena::wire
