// Cells are trimmed; the file's name and the line are in every message.
#include "scenario/csv.h"

#include <errno.h>
#include <fmt/format.h>

#include <charconv>

namespace verbena::scenario {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.emplace_back(trimmed(line.substr(0, comma)));
    if (comma == line.npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

int Csv::column(std::string_view name) const {
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] == name) return static_cast<int>(i);
  return -1;
}

Result<uint64_t> Csv::number(const Row& row, int column, uint64_t most) const {
  const std::string& cell = row.cells[static_cast<size_t>(column)];
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (code != std::errc() || end != cell.data() + cell.size() || cell.empty() || value > most)
    return fail(EINVAL, fmt::format("{}:{}: {} is \"{}\"; it may be a whole number up to {}", file,
                                    row.line, columns[static_cast<size_t>(column)], cell, most));
  return value;
}

Result<Csv> parse_csv(std::string file, std::string_view text, size_t most) {
  Csv csv;
  csv.file = std::move(file);
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> cells = cells_of(line);
    if (csv.columns.empty()) {
      csv.columns = std::move(cells);
    } else if (cells.size() != csv.columns.size()) {
      return fail(EINVAL, fmt::format("{}:{}: {} cells under {} column names", csv.file, number,
                                      cells.size(), csv.columns.size()));
    } else if (csv.rows.size() == most) {
      return fail(EINVAL, fmt::format("{}:{}: {} rows are the most", csv.file, number, most));
    } else {
      csv.rows.push_back({number, std::move(cells)});
    }
  }
  if (csv.columns.empty())
    return fail(EINVAL, fmt::format("{}: no line of column names", csv.file));
  return csv;
}

}  // namespace verbena::scenario
