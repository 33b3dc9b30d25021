// Endian integers: fields of wire structs that convert where they are read and written.
// Each type is an array of bytes (alignof 1), so a struct of them lies on any buffer unchanged.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace verbena {

inline uint16_t byteswap16(uint16_t v) {
  return __builtin_bswap16(v);
}
inline uint32_t byteswap32(uint32_t v) {
  return __builtin_bswap32(v);
}
inline uint64_t byteswap64(uint64_t v) {
  return __builtin_bswap64(v);
}

static_assert(std::endian::native == std::endian::little, "Verbena runs on little-endian machines");

struct be16 {
  uint8_t bytes[2];
  be16() = default;
  be16(uint16_t v) { *this = v; }
  be16& operator=(uint16_t v) {
    v = byteswap16(v);
    std::memcpy(bytes, &v, 2);
    return *this;
  }
  operator uint16_t() const {
    uint16_t v;
    std::memcpy(&v, bytes, 2);
    return byteswap16(v);
  }
};

struct be24 {
  uint8_t bytes[3];
  be24() = default;
  be24(uint32_t v) { *this = v; }
  be24& operator=(uint32_t v) {
    bytes[0] = static_cast<uint8_t>(v >> 16);
    bytes[1] = static_cast<uint8_t>(v >> 8);
    bytes[2] = static_cast<uint8_t>(v);
    return *this;
  }
  operator uint32_t() const {
    return uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]};
  }
};

struct be32 {
  uint8_t bytes[4];
  be32() = default;
  be32(uint32_t v) { *this = v; }
  be32& operator=(uint32_t v) {
    v = byteswap32(v);
    std::memcpy(bytes, &v, 4);
    return *this;
  }
  operator uint32_t() const {
    uint32_t v;
    std::memcpy(&v, bytes, 4);
    return byteswap32(v);
  }
};

struct be64 {
  uint8_t bytes[8];
  be64() = default;
  be64(uint64_t v) { *this = v; }
  be64& operator=(uint64_t v) {
    v = byteswap64(v);
    std::memcpy(bytes, &v, 8);
    return *this;
  }
  operator uint64_t() const {
    uint64_t v;
    std::memcpy(&v, bytes, 8);
    return byteswap64(v);
  }
};

static_assert(sizeof(be16) == 2 && sizeof(be24) == 3 && sizeof(be32) == 4 && sizeof(be64) == 8);
static_assert(alignof(be16) == 1 && alignof(be24) == 1 && alignof(be32) == 1 && alignof(be64) == 1);

}  // namespace verbena
