// The 40 bytes that precede the payload in a UD receive buffer, which programs read as a GRH
// (IBA 11.4.1.2; the form for RoCE v2 over IPv4 is the kernel's union rdma_network_hdr).
#pragma once

#include <cstdint>
#include <span>

namespace verbena::wire {

inline constexpr size_t kGrhBytes = 40;

// True for ::ffff:a.b.c.d, the GID of an IPv4 address.
bool is_v4_mapped(std::span<const uint8_t, 16> gid);

// Both GIDs IPv4-mapped: 20 zero bytes, then an IPv4 header whose checksum is right (consumers
// tell the two forms apart by it). Otherwise the IPv6 header. `udp_payload_length`: BTH .. ICRC.
void fill_grh_area(std::span<uint8_t, kGrhBytes> area, std::span<const uint8_t, 16> source,
                   std::span<const uint8_t, 16> destination, uint8_t traffic_class,
                   uint8_t hop_limit, uint16_t udp_payload_length);

}  // namespace verbena::wire
