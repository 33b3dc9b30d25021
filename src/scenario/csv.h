// Comma-separated files with a line of column names: flow lists and lists of links.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::scenario {

struct Csv {
  std::string file;
  std::vector<std::string> columns;
  struct Row {
    int line = 0;
    std::vector<std::string> cells;  // as many as columns
  };
  std::vector<Row> rows;

  // Index of a column; -1 when there is none.
  int column(std::string_view name) const;
  // The cell as a whole number. EINVAL "FILE:LINE: ..." when it is none or above `most`.
  Result<uint64_t> number(const Row& row, int column, uint64_t most) const;
};

// EINVAL: no line of names, a row with another number of cells, more than `most` rows. Empty lines
// and lines that begin with '#' are passed over; quotes mean nothing.
Result<Csv> parse_csv(std::string file, std::string_view text, size_t most);

}  // namespace verbena::scenario
