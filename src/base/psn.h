// Packet sequence numbers: 24 bits that wrap, compared by signed half-range (IBA 9.7.2).
// No operator<: an ordering of wrapping numbers exists only relative to a window, so callers say
// distance() and the sign tells.
#pragma once

#include <cstdint>

namespace verbena {

inline constexpr uint32_t kPsnMask = 0xffffff;

class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kPsnMask) {}

  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator+=(uint32_t n) { return *this = *this + n; }
  constexpr bool operator==(const Psn&) const = default;

  // How far `this` lies after `base`: -2^23 .. 2^23-1.
  constexpr int32_t distance(Psn base) const {
    return static_cast<int32_t>((value_ - base.value_) << 8) >> 8;
  }
  constexpr bool before(Psn other) const { return distance(other) < 0; }
  constexpr bool after(Psn other) const { return distance(other) > 0; }

 private:
  uint32_t value_ = 0;
};

}  // namespace verbena
