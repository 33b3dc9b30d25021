// ICRC by ISA-L's carry-less-multiply CRC (an order of magnitude faster than zlib's), and the
// polynomial arithmetic that recovers an unseen IPv4 identification.
#include "wire/icrc.h"

#include <isa-l/crc.h>

#include "wire/opcode.h"

namespace verbena::wire {
namespace {

// CRC-32 of the eight 0xff bytes that stand for the local route header.
constexpr uint32_t kAfterDummyLrh = ~0xdebb20e3u;

template <typename Ip>
struct MaskedHeaders {
  Ip ip;
  UdpHeader udp;
};

template <typename Ip>
uint32_t crc_of(const MaskedHeaders<Ip>& masked) {
  static_assert(alignof(MaskedHeaders<Ip>) == 1);
  return crc32_gzip_refl(kAfterDummyLrh, reinterpret_cast<const uint8_t*>(&masked), sizeof(masked));
}

// Polynomials mod P, reflected: bit 31 is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0xedb88320;
constexpr uint32_t kOne = 0x80000000;
constexpr uint32_t kX = 0x40000000;

constexpr uint32_t times_x(uint32_t a) {
  return (a >> 1) ^ (a & 1 ? kPolynomial : 0);
}

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    product ^= a & bit ? b : 0;
    b = times_x(b);
  }
  return product;
}

constexpr std::array<uint32_t, 32> build_powers() {  // x^(2^k)
  std::array<uint32_t, 32> powers{};
  uint32_t power = kX;
  for (uint32_t& slot : powers) {
    slot = power;
    power = multiply(power, power);
  }
  return powers;
}
constexpr std::array<uint32_t, 32> kPowers = build_powers();

uint32_t power_of_x(uint32_t exponent) {
  uint32_t result = kOne;
  for (size_t k = 0; exponent != 0; ++k, exponent >>= 1) {
    if (exponent & 1) result = multiply(result, kPowers[k]);
  }
  return result;
}

// P is primitive: x has order 2^32 - 1, so the inverse of x^e is x^(2^32 - 1 - e).
uint32_t inverse_power_of_x(uint32_t exponent) {
  return power_of_x(0xffffffffu - exponent);
}

}  // namespace

uint32_t icrc_begin_ipv4(const IcrcIpv4& covered) {
  MaskedHeaders<Ipv4Header> masked;
  Ipv4Header& ip = masked.ip;
  ip.version_length = 0x45;
  ip.tos = 0xff;
  ip.total_length = covered.total_length;
  ip.identification = covered.identification;
  ip.fragment = covered.dont_fragment ? Ipv4Header::kDontFragment : uint16_t{0};
  ip.ttl = 0xff;
  ip.protocol = kIpProtocolUdp;
  ip.checksum = 0xffff;
  std::memcpy(ip.source, covered.source.data(), 4);
  std::memcpy(ip.destination, covered.destination.data(), 4);
  masked.udp.source_port = covered.source_port;
  masked.udp.destination_port = covered.destination_port;
  masked.udp.length = static_cast<uint16_t>(covered.total_length - sizeof(Ipv4Header));
  masked.udp.checksum = 0xffff;
  return crc_of(masked);
}

uint32_t icrc_begin_ipv6(const IcrcIpv6& covered) {
  MaskedHeaders<Ipv6Header> masked;
  Ipv6Header& ip = masked.ip;
  ip.version_class_flow = 0x6fffffff;
  ip.payload_length = covered.payload_length;
  ip.next_header = kIpProtocolUdp;
  ip.hop_limit = 0xff;
  std::memcpy(ip.source, covered.source.data(), 16);
  std::memcpy(ip.destination, covered.destination.data(), 16);
  masked.udp.source_port = covered.source_port;
  masked.udp.destination_port = covered.destination_port;
  masked.udp.length = covered.payload_length;
  masked.udp.checksum = 0xffff;
  return crc_of(masked);
}

uint32_t icrc_begin(const Ipv4Header& ip, const UdpHeader& udp) {
  MaskedHeaders<Ipv4Header> masked{ip, udp};
  masked.ip.tos = 0xff;
  masked.ip.ttl = 0xff;
  masked.ip.checksum = 0xffff;
  masked.udp.checksum = 0xffff;
  return crc_of(masked);
}

uint32_t icrc_begin(const Ipv6Header& ip, const UdpHeader& udp) {
  MaskedHeaders<Ipv6Header> masked{ip, udp};
  masked.ip.version_class_flow = ip.version_class_flow | 0x0fffffffu;
  masked.ip.hop_limit = 0xff;
  masked.udp.checksum = 0xffff;
  return crc_of(masked);
}

uint32_t icrc_bth(uint32_t crc, std::span<const uint8_t, 12> bth) {
  uint8_t masked[kBthBytes];
  std::memcpy(masked, bth.data(), sizeof(masked));
  masked[offsetof(Bth, congestion)] = 0xff;
  return crc32_gzip_refl(crc, masked, sizeof(masked));
}

uint32_t icrc_update(uint32_t crc, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return crc;
  return crc32_gzip_refl(crc, bytes.data(), bytes.size());
}

uint32_t icrc_of_payload(uint32_t begun, std::span<const uint8_t> udp_payload) {
  const uint32_t crc = icrc_bth(begun, udp_payload.first<kBthBytes>());
  return icrc_update(crc, udp_payload.subspan(kBthBytes, udp_payload.size() - 16));
}

void IdSolver::fill(Entry& entry, size_t length) {
  entry.length = length;
  uint32_t row = inverse_power_of_x(static_cast<uint32_t>(length * 8 + 32));
  for (size_t bit = 32; bit-- > 0;) {  // bit 31 of a difference is x^0
    std::array<uint32_t, 16>& product = entry.product[bit / 4];
    const size_t mask = size_t{1} << bit % 4;
    product[0] = 0;
    // Bits come from high to low: a value's other bits are larger ones, already entered.
    for (size_t v = mask; v < 16; v += 2 * mask) product[v] = product[v - mask] ^ row;
    row = times_x(row);
  }
}

std::optional<uint16_t> IdSolver::solve(uint32_t difference, size_t bytes_after_id) {
  if (difference == 0) return uint16_t{0};
  if (bytes_after_id > UINT16_MAX) return std::nullopt;
  Entry& entry = cache_[bytes_after_id / 4 % kEntries];
  if (entry.length != bytes_after_id) fill(entry, bytes_after_id);
  uint32_t message = 0;
  for (size_t k = 0; k < 8; ++k) message ^= entry.product[k][difference >> (4 * k) & 0xf];
  if ((message & 0xffff) != 0) return std::nullopt;
  // The first bit on the wire, the low bit of the first byte, is the coefficient of x^15.
  return byteswap16(static_cast<uint16_t>(message >> 16));
}

}  // namespace verbena::wire
