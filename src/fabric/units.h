// Time and rates of the fabric. Time is whole picoseconds since the world began, and a rate keeps
// the remainder of every division, so that a thousand frames take exactly a thousand times as long
// as one: 1048 bytes at 100 Gb/s are 83.84 ns, not 83.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbena::fabric {

using Time = int64_t;  // picoseconds; 106 days

inline constexpr Time kNanosecond = 1'000;
inline constexpr Time kMicrosecond = 1'000'000;
inline constexpr Time kMillisecond = 1'000'000'000;
inline constexpr Time kSecond = 1'000'000'000'000;
inline constexpr Time kForever = INT64_MAX;

constexpr Instant instant(Time at) {
  return {at};
}
// What no Time holds is kForever: the engine's kNever is.
constexpr Time time_of(Instant at) {
  return at.ps >= kForever ? kForever : static_cast<Time>(at.ps);
}

// Serialises bytes at a rate in bits per second, exactly over any number of frames.
class Serialiser {
 public:
  Serialiser() = default;
  explicit Serialiser(uint64_t bits_per_second) : rate_(bits_per_second) {
    constexpr uint64_t kBitPs = 8 * static_cast<uint64_t>(kSecond);
    if (rate_ != 0 && kBitPs % rate_ == 0) ps_per_byte_ = kBitPs / rate_;
  }

  uint64_t rate() const { return rate_; }
  // How long the next `bytes` take, at most 2^20 of them.
  Time take(uint32_t bytes) {
    if (ps_per_byte_ != 0) return static_cast<Time>(bytes * ps_per_byte_);
    auto bits = static_cast<unsigned __int128>(bytes) * 8 * kSecond + carry_;
    carry_ = static_cast<uint64_t>(bits % rate_);
    return static_cast<Time>(bits / rate_);
  }

 private:
  uint64_t rate_ = 0;
  uint64_t ps_per_byte_ = 0;  // 0: not a whole number
  uint64_t carry_ = 0;        // of the last division, below rate_
};

}  // namespace verbena::fabric
