// The tables are those of the HPCC repository (alibaba-edu/High-Precision-Congestion-Control,
// traffic_gen/*.txt): WebSearch is the web search load of DCTCP (SIGCOMM 2010), FbHdp a Hadoop
// cluster at Facebook (SIGCOMM 2015), AliStorage a storage cluster at Alibaba (2019).
#include "scenario/distribution.h"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

namespace verbena::scenario {
namespace {

struct SizeTable {
  std::string_view name;
  std::string_view text;  // as SizeCdf::parse() reads it
};
constexpr SizeTable kSizeTables[] = {
    {"WebSearch",
     "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n1000000 70\n"
     "2000000 80\n5000000 90\n10000000 97\n30000000 100\n"},
    {"FbHdp",
     "0 0\n100 1\n200 2\n300 5\n350 15\n400 20\n500 30\n600 40\n700 50\n1000 60\n2000 67\n"
     "7000 70\n30000 72\n50000 82\n80000 87\n120000 90\n300000 95\n1000000 97.5\n2000000 99\n"
     "10000000 100\n"},
    {"AliStorage",
     "0 0\n4000 22.93\n8000 69.21\n16000 80.61\n32000 90.47\n64000 93.53\n128000 96.77\n"
     "256000 97.53\n2000000 100\n"},
};

constexpr uint64_t kMostSize = uint64_t{1} << 50;

std::string_view next_word(std::string_view& line) {
  const size_t first = line.find_first_not_of(" \t\r,");
  if (first == line.npos) return {};
  line.remove_prefix(first);
  const size_t end = std::min(line.find_first_of(" \t\r,"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// Up to six decimals, as a whole number of millionths.
std::optional<uint64_t> millionths(std::string_view word) {
  const size_t point = word.find('.');
  std::string digits(word.substr(0, point));
  const std::string_view behind = point == word.npos ? std::string_view() : word.substr(point + 1);
  if (behind.size() > 6 || digits.size() > 12) return {};
  digits += behind;
  digits.append(6 - behind.size(), '0');
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

}  // namespace

const std::vector<std::string_view>& SizeCdf::names() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const SizeTable& table : kSizeTables) names.push_back(table.name);
    return names;
  }();
  return kNames;
}

Result<SizeCdf> SizeCdf::named(std::string_view name) {
  for (const SizeTable& table : kSizeTables)
    if (table.name == name) return parse(table.text);
  return fail(EINVAL, fmt::format("\"{}\" is no size distribution", name));
}

Result<SizeCdf> SizeCdf::parse(std::string_view text) {
  std::vector<Point> points;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    const std::string_view first = next_word(line);
    if (first.empty()) continue;
    const auto bytes = millionths(first), share = millionths(next_word(line));
    if (!bytes || !share || *bytes % 1'000'000 != 0 || !next_word(line).empty())
      return fail(EINVAL, fmt::format("line {}: write BYTES PERCENT", number));
    const Point point{*bytes / 1'000'000, *share};
    if (!points.empty() &&
        (point.bytes <= points.back().bytes || point.share <= points.back().share))
      return fail(EINVAL, fmt::format("line {}: bytes and percent must rise", number));
    if (points.empty() && point.share != 0)
      return fail(EINVAL, fmt::format("line {}: the first percent must be 0", number));
    if (point.share > kAll || point.bytes > kMostSize)
      return fail(EINVAL, fmt::format("line {}: above 100 percent, or 2^50 bytes", number));
    if (points.size() == kMostPoints)
      return fail(EINVAL, fmt::format("line {}: {} points are the most", number, kMostPoints));
    points.push_back(point);
  }
  if (points.size() < 2 || points.back().share != kAll)
    return fail(EINVAL, "the last line must have 100 percent");
  return SizeCdf(std::move(points));
}

uint64_t SizeCdf::sample(Prng& prng) const {
  const uint64_t at = prng.below(kAll);
  const auto above = std::upper_bound(points_.begin() + 1, points_.end(), at,
                                      [](uint64_t a, const Point& p) { return a < p.share; });
  const Point &low = *(above - 1), &high = *above;
  const auto rise = static_cast<unsigned __int128>(high.bytes - low.bytes) * (at - low.share);
  const uint64_t bytes = low.bytes + static_cast<uint64_t>(rise / (high.share - low.share));
  return bytes == 0 ? 1 : bytes;
}

unsigned __int128 SizeCdf::mean_twice_all() const {
  unsigned __int128 sum = 0;
  for (size_t i = 1; i < points_.size(); ++i)
    sum += static_cast<unsigned __int128>(points_[i].bytes + points_[i - 1].bytes) *
           (points_[i].share - points_[i - 1].share);
  return sum;
}

double SizeCdf::mean() const {
  return static_cast<double>(mean_twice_all()) / (2.0 * static_cast<double>(kAll));
}

uint64_t exponential(Prng& prng, uint64_t mean) {
  // -ln(U / 2^64) for U in 1 .. 2^64-1, in units of 2^-32: (64 - log2 U) ln 2. Squaring a number in
  // [1, 2) doubles its logarithm, so each squaring yields one more binary digit.
  const uint64_t uniform = prng.next() | 1;
  const int whole = 63 - std::countl_zero(uniform);
  uint64_t mantissa = uniform << (63 - whole);  // [1, 2), with 63 digits behind the point
  uint64_t log2 = static_cast<uint64_t>(whole);
  for (int digit = 0; digit < 32; ++digit) {
    const auto square = static_cast<unsigned __int128>(mantissa) * mantissa;
    const bool two = square >> 127 != 0;  // 2 or more
    mantissa = static_cast<uint64_t>(square >> (two ? 64 : 63));
    log2 = log2 << 1 | (two ? 1 : 0);
  }
  constexpr uint64_t kLn2 = 2'977'044'472;  // ln 2, in 2^-32
  const uint64_t left = (uint64_t{64} << 32) - log2;
  const auto minus_ln = static_cast<unsigned __int128>(left) * kLn2 >> 32;
  return static_cast<uint64_t>(minus_ln * mean >> 32);
}

}  // namespace verbena::scenario
