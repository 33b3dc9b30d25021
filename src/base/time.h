// Time as a parameter: int64 picoseconds, the unit of the simulated fabric, used by the engine in
// both worlds. 2^63 ps is 106 days; Instant counts from the start of its own world.
#pragma once

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
  int64_t ps = 0;
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ps + d.ps}; }
  constexpr Instant operator-(Duration d) const { return {ps - d.ps}; }
  constexpr Duration operator-(Instant i) const { return {ps - i.ps}; }
  constexpr int64_t ns() const { return ps / 1000; }
};

// "No deadline": later than every instant a world can reach.
inline constexpr Instant kNever{std::numeric_limits<int64_t>::max()};

}  // namespace verbena
