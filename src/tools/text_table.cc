// Widths are counted in bytes: what is put into tables is ASCII.
#include "tools/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace verbena::tools {

namespace {

std::string three_digits(double value) {
  double size = std::abs(value);
  int decimals = size == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

// `value` in the largest of `units` that leaves at least one before the point.
std::string scaled(double value, const char* const* units, size_t count, double step) {
  size_t unit = 0;
  while (unit + 1 < count && std::abs(value) >= step * 0.9995) {
    value /= step;
    ++unit;
  }
  bool whole = unit == 0 && value == std::floor(value);
  std::string number = whole ? fmt::format("{:.0f}", value) : three_digits(value);
  return *units[unit] == 0 ? number : fmt::format("{} {}", number, units[unit]);
}

}  // namespace

TextTable::TextTable(std::vector<std::string> head, size_t left) : left_(left) {
  rows_.push_back(std::move(head));
}

void TextTable::row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<size_t> width(rows_[0].size());
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += c < left_ ? fmt::format("{:<{}}", row[c], width[c])
                        : fmt::format("{:>{}}", row[c], width[c]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string short_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  return scaled(bytes, kUnits, std::size(kUnits), 1000);
}

std::string short_time(fabric::Time time) {
  static constexpr const char* kUnits[] = {"ps", "ns", "us", "ms", "s"};
  return scaled(static_cast<double>(time), kUnits, std::size(kUnits), 1000);
}

std::string short_count(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  return scaled(count, kUnits, std::size(kUnits), 1000);
}

std::string short_number(double value) {
  return value == 0 ? "-" : three_digits(value);
}

}  // namespace verbena::tools
