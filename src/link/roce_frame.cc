// Ethernet, IP, UDP, packet, ICRC: put together with the codecs that the wire uses.
#include "link/roce_frame.h"

#include <cstring>

#include "wire/icrc.h"

namespace verbena::link {
namespace {

constexpr size_t kEthernetBytes = sizeof(wire::EthernetHeader);

void put_ip(uint8_t* to, const engine::Gid& source, const engine::Gid& destination,
            const wire::DatagramHeaders& headers, uint16_t udp_payload) {
  if (source.is_ipv4()) {
    wire::emit_ipv4_udp(std::span<uint8_t, wire::kIpv4UdpBytes>(to, wire::kIpv4UdpBytes),
                        std::span<const uint8_t, 4>(&source.bytes[12], 4),
                        std::span<const uint8_t, 4>(&destination.bytes[12], 4), headers,
                        udp_payload);
  } else {
    wire::emit_ipv6_udp(std::span<uint8_t, wire::kIpv6UdpBytes>(to, wire::kIpv6UdpBytes),
                        std::span<const uint8_t, 16>(source.bytes),
                        std::span<const uint8_t, 16>(destination.bytes), headers, udp_payload);
  }
}

}  // namespace

void put_mac(uint8_t* to, const engine::Gid& gid) {
  to[0] = 0x02;
  to[1] = 0x56;
  std::memcpy(to + 2, &gid.bytes[12], 4);
}

bool append_frame(std::vector<uint8_t>& to, const wire::Packet& header,
                  const memory::Payload& payload, uint32_t shown, const engine::Gid& source,
                  const engine::Gid& destination, const wire::DatagramHeaders& headers) {
  const bool ipv4 = source.is_ipv4();
  const uint32_t pad = shown == payload.length ? header.pad_count : 0;
  const size_t start = to.size();
  const size_t ip_at = start + kEthernetBytes;
  const size_t bth_at = ip_at + (ipv4 ? wire::kIpv4UdpBytes : wire::kIpv6UdpBytes);
  to.resize(bth_at + wire::kMaxHeaderBytes);
  const size_t payload_at = bth_at + wire::emit_headers(header, to.data() + bth_at);
  to.resize(payload_at);
  to.resize(payload_at + shown + pad + wire::kIcrcBytes);
  const bool absent = payload.segments.empty() && payload.foreign == nullptr;
  if (!absent && !payload.copy_out(0, to.data() + payload_at, shown)) return false;
  put_ip(to.data() + ip_at, source, destination, headers,
         static_cast<uint16_t>(to.size() - bth_at));
  wire::EthernetHeader ethernet;
  put_mac(ethernet.destination, destination);
  put_mac(ethernet.source, source);
  ethernet.ether_type = ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6;
  wire::store(to.data() + start, ethernet);
  auto frame = wire::parse_ip({to.data() + ip_at, to.size() - ip_at});
  if (frame) wire::icrc_store(to.data() + to.size() - wire::kIcrcBytes, wire::icrc_of(*frame));
  return true;
}

}  // namespace verbena::link
