// The invariant CRC of RoCE v2 (IBA A17.3.2 and 7.8.1): covers everything no router may change, so
// the IP and UDP headers take part with their variable fields set to ones. Computed in steps over
// a scatter list, because payload is never copied to be sent.
//
//   uint32_t crc = icrc_begin_ipv4(...);
//   crc = icrc_bth(crc, headers.first<12>());
//   crc = icrc_update(crc, extension headers, payload, pad);   any number of pieces, in order
//   its little-endian bytes (icrc_store) are the last four of the packet
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "wire/headers.h"

namespace verbena::wire {

struct IcrcIpv4 {                      // what the ICRC covers of IPv4 and UDP
  std::span<const uint8_t, 4> source;  // network order
  std::span<const uint8_t, 4> destination;
  uint16_t total_length;        // IPv4 total length, bytes
  uint16_t identification = 0;  // 0: what Linux sends for an unconnected DF socket
  bool dont_fragment = true;
  uint16_t source_port;
  uint16_t destination_port = kRoceUdpPort;
};
uint32_t icrc_begin_ipv4(const IcrcIpv4& covered);

struct IcrcIpv6 {
  std::span<const uint8_t, 16> source;
  std::span<const uint8_t, 16> destination;
  uint16_t payload_length;  // IPv6 payload length = UDP length, bytes
  uint16_t source_port;
  uint16_t destination_port = kRoceUdpPort;
};
uint32_t icrc_begin_ipv6(const IcrcIpv6& covered);

// From the headers as they lie in a frame. IPv4 options are not supported (RoCE sends none).
uint32_t icrc_begin(const Ipv4Header& ip, const UdpHeader& udp);
uint32_t icrc_begin(const Ipv6Header& ip, const UdpHeader& udp);

// The BTH, with its byte 4 (FECN, BECN, reserved) set to ones.
uint32_t icrc_bth(uint32_t crc, std::span<const uint8_t, 12> bth);

// Bytes behind the BTH, unchanged.
uint32_t icrc_update(uint32_t crc, std::span<const uint8_t> bytes);

// `udp_payload` = BTH .. ICRC, at least 16 bytes: the ICRC it should carry.
uint32_t icrc_of_payload(uint32_t begun, std::span<const uint8_t> udp_payload);

inline void icrc_store(uint8_t* to, uint32_t crc) {
  std::memcpy(to, &crc, 4);
}
inline uint32_t icrc_load(const uint8_t* from) {
  uint32_t crc;
  std::memcpy(&crc, from, 4);
  return crc;
}

// rxe of Linux 6.12 lets the ICRC of FLUSH cover BTH and extension headers a second time, unmasked.
// Gives the value such a peer sends, from the right one; accept either for Operation::kFlush.
inline uint32_t icrc_flush_of_linux_6_12(uint32_t right, std::span<const uint8_t> bth_and_headers) {
  return icrc_update(right, bth_and_headers);
}

// Bytes covered behind the IPv4 identification field: what IdSolver wants.
constexpr size_t icrc_bytes_after_id(uint16_t ip_total_length) {
  return ip_total_length >= 10 ? size_t{ip_total_length} - 6 - 4 : 0;
}

// Finds the IPv4 identification that a UDP socket does not show. The CRC is linear: received XOR
// computed-with-ID-0 equals ID(x) * x^(8n+32) mod P for the n bytes behind the field, and x is
// invertible mod P, so one multiplication gives the only polynomial that explains the difference.
// It is an identification when its other 16 coefficients are zero; a damaged packet passes with
// probability 2^-16. One object per thread; remembers the multipliers of recent lengths.
class IdSolver {
 public:
  // difference = received ICRC ^ ICRC computed with identification 0.
  std::optional<uint16_t> solve(uint32_t difference, size_t bytes_after_id);

 private:
  struct Entry {
    size_t length = SIZE_MAX;
    // product[k][v]: v in bits 4k+3:4k of the difference, times x^(-8n-32) mod P.
    std::array<std::array<uint32_t, 16>, 8> product;
  };
  static void fill(Entry& entry, size_t length);

  static constexpr size_t kEntries = 64;  // direct-mapped by length / 4

  std::array<Entry, kEntries> cache_;
};

}  // namespace verbena::wire
