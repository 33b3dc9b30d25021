// A number is digits, a point and digits, never a binary fraction: "83.84ns" is 83840 ps.
#include "scenario/units.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace verbena::scenario {
namespace {

struct Unit {
  std::string_view name;
  uint64_t size;
};

// The first one that divides a value writes it, so the list falls; the last is the smallest.
constexpr Unit kBytes[] = {{"GiB", 1ull << 30},
                           {"MiB", 1ull << 20},
                           {"GB", 1'000'000'000},
                           {"MB", 1'000'000},
                           {"KiB", 1ull << 10},
                           {"KB", 1'000},
                           {"B", 1}};
constexpr Unit kRates[] = {
    {"T", 1'000'000'000'000}, {"G", 1'000'000'000}, {"M", 1'000'000}, {"K", 1'000}, {"", 1}};
constexpr Unit kTimes[] = {
    {"s", 1'000'000'000'000}, {"ms", 1'000'000'000}, {"us", 1'000'000}, {"ns", 1'000}, {"ps", 1}};

constexpr size_t kMostDigits = 19;

struct Decimal {
  uint64_t digits = 0;  // without the point
  uint64_t over = 1;    // 10 to the number of digits behind it
  std::string_view unit;
};

std::optional<Decimal> split_number(std::string_view text) {
  Decimal number;
  size_t at = 0, digits = 0;
  bool behind = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !behind && digits > 0) {
      behind = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    if (++digits > kMostDigits) return {};
    number.digits = number.digits * 10 + static_cast<uint64_t>(c - '0');
    if (behind) number.over *= 10;
  }
  if (digits == 0 || text[at - 1] == '.') return {};
  if (at < text.size() && text[at] == ' ') ++at;
  number.unit = text.substr(at);
  return number;
}

std::optional<uint64_t> whole(const Decimal& number, uint64_t size) {
  const auto product = static_cast<unsigned __int128>(number.digits) * size;
  if (product % number.over != 0 || product / number.over >= uint64_t{1} << 63) return {};
  return static_cast<uint64_t>(product / number.over);
}

std::optional<uint64_t> parse(std::string_view text, std::span<const Unit> units) {
  const auto number = split_number(text);
  if (!number) return {};
  for (const Unit& unit : units)
    if (number->unit == unit.name) return whole(*number, unit.size);
  return {};
}

std::string format(uint64_t value, std::span<const Unit> units, std::string_view zero) {
  if (value == 0) return std::string(zero);
  for (const Unit& unit : units)
    if (value % unit.size == 0) return fmt::format("{}{}", value / unit.size, unit.name);
  return fmt::format("{}", value);
}

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  if (text.ends_with("kB"))
    return parse(fmt::format("{}KB", text.substr(0, text.size() - 2)), kBytes);
  return parse(text, kBytes);
}

std::optional<uint64_t> parse_rate(std::string_view text) {
  bool named = false;
  for (std::string_view suffix : {"bps", "bit/s", "b/s"})
    if (text.ends_with(suffix)) {
      text.remove_suffix(suffix.size());
      named = true;
      break;
    }
  const auto number = split_number(text);
  if (!number || (number->unit.empty() && !named)) return {};
  return parse(text, kRates);
}

std::optional<fabric::Time> parse_time(std::string_view text) {
  const auto value = parse(text, kTimes);
  if (!value) return {};
  return static_cast<fabric::Time>(*value);
}

std::optional<double> parse_length(std::string_view text) {
  const auto number = split_number(text);
  if (!number || (number->unit != "m" && number->unit != "km")) return {};
  return static_cast<double>(number->digits) * (number->unit == "km" ? 1000 : 1) /
         static_cast<double>(number->over);
}

std::optional<double> parse_share(std::string_view text) {
  const auto number = split_number(text);
  if (!number || number->unit != "%") return {};
  return static_cast<double>(number->digits) / static_cast<double>(number->over) / 100;
}

std::string format_bytes(uint64_t bytes) {
  return format(bytes, kBytes, "0B");
}

std::string format_rate(uint64_t bits_per_second) {
  const std::string text = format(bits_per_second, kRates, "0bps");
  return text.back() >= '0' && text.back() <= '9' ? text + "bps" : text;
}

std::string format_time(fabric::Time time) {
  return format(static_cast<uint64_t>(time), kTimes, "0s");
}

std::string format_length(double metres) {
  return fmt::format("{}m", metres);
}

}  // namespace verbena::scenario
