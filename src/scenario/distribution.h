// Random sizes and gaps, in whole numbers throughout: the same flows from one seed on every
// machine, whatever its floating point and its libm do.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"

namespace verbena::scenario {

// Sizes by cumulative share, straight lines between the points.
class SizeCdf {
 public:
  static constexpr uint64_t kAll = 100'000'000;  // a share of 100 %
  static constexpr size_t kMostPoints = 100'000;
  struct Point {
    uint64_t bytes = 0;
    uint64_t share = 0;  // of kAll: of sizes up to `bytes`
  };

  // "WebSearch", "FbHdp" and "AliStorage"; EINVAL for another name.
  static Result<SizeCdf> named(std::string_view name);
  // Lines "BYTES PERCENT", both rising, from 0 to 100; '#' begins a comment. EINVAL with the line.
  static Result<SizeCdf> parse(std::string_view text);
  static const std::vector<std::string_view>& names();

  uint64_t sample(Prng& prng) const;  // 1 at least
  // Twice the mean size in bytes, times kAll: exact.
  unsigned __int128 mean_twice_all() const;
  double mean() const;
  const std::vector<Point>& points() const { return points_; }

 private:
  explicit SizeCdf(std::vector<Point> points) : points_(std::move(points)) {}
  std::vector<Point> points_;
};

// Exponentially distributed around `mean`, from 0 to 44 times it.
uint64_t exponential(Prng& prng, uint64_t mean);

}  // namespace verbena::scenario
