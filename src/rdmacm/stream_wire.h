// The rsocket protocol, version 1, as librdmacm speaks it (rdma-core, librdmacm/docs/rsocket).
//
// All messages are RDMA WRITEs with immediate. Each end keeps a board in memory that the other
// writes to: two ranges of its receive buffer that the board's owner may fill next, in turn, then
// mappings (riomap). The immediate says what was written: bytes into such a range, a range or a
// mapping onto the board, or nothing (a word of control).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/endian.h"

namespace verbena::rdmacm {

// --- immediates: the kind in bits 31..29, a number in the others

enum class Kind : uint32_t {
  kData = 0,     // bytes that were written
  kCredits = 4,  // messages the peer may have sent in all, modulo 2^16
  kMapped = 6,   // index of the mapping that was written
  kControl = 7,  // Control
};
enum Control : uint32_t { kDisconnect = 0, kKeepalive = 1, kShutdown = 2 };

constexpr uint32_t word(Kind kind, uint32_t number) {
  return static_cast<uint32_t>(kind) << 29 | (number & 0x1fffffff);
}
constexpr Kind kind_of(uint32_t word) {
  return static_cast<Kind>(word >> 29);
}
constexpr uint32_t number_of(uint32_t word) {
  return word & 0x1fffffff;
}

// --- the board, in its owner's byte order

struct Range {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t length = 0;  // bytes
};
static_assert(sizeof(Range) == 16);

struct Mapping {
  uint64_t offset = 0;
  Range range;
  // The range's part from `at` on; nothing: `at` lies outside.
  std::optional<Range> from(uint64_t at) const {
    if (at < offset || at - offset >= range.length) return std::nullopt;
    const uint64_t skipped = at - offset;
    return Range{range.address + skipped, range.key, static_cast<uint32_t>(range.length - skipped)};
  }
};
static_assert(sizeof(Mapping) == 24);

inline constexpr uint32_t kRanges = 2;
constexpr uint64_t mapping_place(uint32_t ranges, uint32_t index) {
  return uint64_t{ranges} * sizeof(Range) + uint64_t{index} * sizeof(Mapping);
}

inline Range swapped(const Range& range) {
  return {byteswap64(range.address), byteswap32(range.key), byteswap32(range.length)};
}
inline Mapping swapped(const Mapping& mapping) {
  return {byteswap64(mapping.offset), swapped(mapping.range)};
}

// --- private data of REQ and REP

struct RangeField {
  be64 address{0};
  be32 key{0}, length{0};
  RangeField& operator=(const Range& range) {
    address = range.address;
    key = range.key;
    length = range.length;
    return *this;
  }
  Range get() const { return {address, key, length}; }
};

struct Greeting {
  static constexpr uint8_t kVersion = 1, kBigEndian = 1, kHasMappings = 2;
  uint8_t version = kVersion;
  uint8_t flags = kHasMappings;
  be16 credits{0};  // messages it can take
  uint8_t reserved[3] = {};
  uint8_t mappings = 0;  // on its board, scaled
  RangeField board;      // length: number of ranges
  RangeField buffer;     // the first range
};
static_assert(sizeof(Greeting) == 40 && alignof(Greeting) == 1);

// A number in 8 bits, rounded down: exact to 128, then in steps of 256 to 32512.
constexpr uint8_t scaled(uint32_t number) {
  if (number <= 128) return static_cast<uint8_t>(number);
  const uint32_t steps = number >> 8;
  return static_cast<uint8_t>(0x80 | (steps > 127 ? 127 : steps));
}
constexpr uint32_t unscaled(uint8_t number) {
  return number <= 128 ? number : (number & 0x7fu) << 8;
}

// A greeting that can be answered; nothing: another version, or no place to write to.
std::optional<Greeting> parse_greeting(std::span<const uint8_t> private_data);

}  // namespace verbena::rdmacm
