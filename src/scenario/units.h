// Values with their unit, as a scenario writes them: "100G", "1.5us", "300m", "64KiB", "30%". Read
// exactly, in whole numbers; written back in the largest unit that keeps them whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/units.h"

namespace verbena::scenario {

// Nothing when the text is no such value, or not a whole number of the smallest unit, or 2^63 and
// more of it.
std::optional<uint64_t> parse_bytes(std::string_view text);     // B KB MB GB, KiB MiB GiB
std::optional<uint64_t> parse_rate(std::string_view text);      // bit/s: K M G T, "bps", "b/s"
std::optional<fabric::Time> parse_time(std::string_view text);  // ps ns us ms s
std::optional<double> parse_length(std::string_view text);      // metres: m km
std::optional<double> parse_share(std::string_view text);       // "30%" is 0.3

std::string format_bytes(uint64_t bytes);
std::string format_rate(uint64_t bits_per_second);
std::string format_time(fabric::Time time);
std::string format_length(double metres);

// Light in a cable: 5 ns for a metre.
inline constexpr fabric::Time kCablePsPerMetre = 5'000;
constexpr double metres_of(fabric::Time delay) {
  return static_cast<double>(delay) / kCablePsPerMetre;
}

}  // namespace verbena::scenario
