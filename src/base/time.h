// Time as a parameter: picoseconds, the unit of the simulated fabric, used by the engine in both
// worlds. A Duration holds 106 days of them; an Instant, which counts from the start of its own
// world, as long as a server runs.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>

namespace verbena {

struct Duration {
  int64_t ps = 0;
  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration d) const { return {ps + d.ps}; }
  constexpr Duration operator-(Duration d) const { return {ps - d.ps}; }
  constexpr Duration operator*(int64_t n) const { return {ps * n}; }
  constexpr int64_t ns() const { return ps / 1000; }
};

constexpr Duration picoseconds(int64_t n) {
  return {n};
}
constexpr Duration nanoseconds(int64_t n) {
  return {n * 1'000};
}
constexpr Duration microseconds(int64_t n) {
  return {n * 1'000'000};
}
constexpr Duration milliseconds(int64_t n) {
  return {n * 1'000'000'000};
}
constexpr Duration seconds(int64_t n) {
  return {n * 1'000'000'000'000};
}

struct Instant {
  __extension__ typedef __int128 Picoseconds;
  Picoseconds ps = 0;
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ps + d.ps}; }
  constexpr Instant operator-(Duration d) const { return {ps - d.ps}; }
  // What no Duration holds is the longest one.
  constexpr Duration operator-(Instant i) const {
    constexpr Picoseconds kLongest = std::numeric_limits<int64_t>::max();
    return {static_cast<int64_t>(std::clamp(ps - i.ps, -kLongest, kLongest))};
  }
  constexpr int64_t ns() const {
    int64_t low = static_cast<int64_t>(ps);  // 64 bits divide many times faster, and mostly do
    return low == ps ? low / 1000 : static_cast<int64_t>(ps / 1000);
  }
};

// "No deadline": later than every instant a world can reach. "Long ago": before all of them.
inline constexpr Instant kNever{Instant::Picoseconds{1} << 100};
inline constexpr Instant kLongAgo{-(Instant::Picoseconds{1} << 100)};

}  // namespace verbena
