// What datagram rsockets say to each other, as librdmacm's do (rdma-core, librdmacm/rsocket.c).
//
// Data go by UD sends, each behind a field that names the sender's address and UDP port. Where a
// peer's queue pair is not known yet, the same datagram goes over a real UDP socket at those
// addresses, behind a preamble with the sender's own queue pair number; the peer answers with a
// preamble that has its own, and from then on both use UD.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/endian.h"

namespace verbena::rdmacm {

// Of a datagram with its field or its preamble: what a peer can take.
inline constexpr uint32_t kMaxDatagramBytes = 2048;

// --- the field before data in UD messages

struct Source4 {
  static constexpr uint8_t kVersion = 4;
  uint8_t version = kVersion, length = 8;  // bytes of the field
  be16 port{0};
  uint8_t address[4] = {};
};
struct Source6 {
  static constexpr uint8_t kVersion = 6;
  uint8_t version = kVersion, length = 24;
  be16 port{0};
  be32 flow_info{0};
  uint8_t address[16] = {};
};
static_assert(sizeof(Source4) == 8 && sizeof(Source6) == 24 && alignof(Source6) == 1);

inline constexpr uint32_t kMaxSourceBytes = sizeof(Source6);

// Writes the field of a sender; its length. `to` has room for kMaxSourceBytes.
uint32_t emit_source(const sockaddr_storage& sender, uint8_t* to);

struct SourceField {
  sockaddr_storage sender{};
  uint32_t length = 0;
};
// Nothing: no such field.
std::optional<SourceField> parse_source(std::span<const uint8_t> message);

// --- the preamble of UDP datagrams

struct Preamble {
  static constexpr uint32_t kTag = 0x55555555;
  enum Op : uint8_t { kData = 0, kAnswer = 7 };
  static constexpr uint32_t kBytes4 = 16, kBytes6 = 28;
  be32 tag{kTag};
  uint8_t version = Source4::kVersion;
  uint8_t op = kData;
  uint8_t length = kBytes4;  // bytes of the preamble
  uint8_t reserved = 0;
  be32 qpn{0};               // of the sender, 24 bits
  uint8_t address[16] = {};  // its own; an IPv4 one has 4 bytes
};
static_assert(sizeof(Preamble) == Preamble::kBytes6 && alignof(Preamble) == 1);

Preamble preamble_of(Preamble::Op op, uint32_t qpn, const sockaddr_storage& own);
// Of a datagram; nothing: none of ours. Its version is the sender's and need not be the family of
// the socket that it came to: one of IPv6 hears IPv4 peers too.
std::optional<Preamble> parse_preamble(std::span<const uint8_t> datagram);

}  // namespace verbena::rdmacm
