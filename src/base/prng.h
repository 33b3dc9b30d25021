// Our own generator and distributions: the standard library's differ between implementations, and
// one seed has to give one run everywhere. SplitMix64 (Steele, Lea, Flood 2014): one 64-bit word
// of state, every seed good.
#pragma once

#include <cstdint>

namespace verbena {

class Prng {
 public:
  explicit constexpr Prng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // Uniform in 0 .. bound-1; bound 0 gives 0. Multiplicative reduction: bias below 2^-32 for
  // the bounds used here, and the same on every machine.
  constexpr uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // Uniform in low .. high, both included.
  constexpr uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  // True `parts` times in a million.
  constexpr bool chance_ppm(uint32_t parts) { return below(1'000'000) < parts; }

 private:
  uint64_t state_;
};

}  // namespace verbena
