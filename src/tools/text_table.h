// Columns for people: the first to the left, the others to the right, two blanks between them.
#pragma once

#include <string>
#include <vector>

#include "fabric/units.h"

namespace verbena::tools {

class TextTable {
 public:
  // `left`: columns from the left that hold words.
  explicit TextTable(std::vector<std::string> head, size_t left = 1);
  void row(std::vector<std::string> cells);  // missing cells are empty
  bool empty() const { return rows_.size() == 1; }
  std::string text() const;  // a line for the head and each row

 private:
  std::vector<std::vector<std::string>> rows_;
  size_t left_;
};

// Three digits that matter and the unit: "0 B", "950 B", "1.50 MB".
std::string short_bytes(double bytes);
// "83.8 ns", "1.20 ms".
std::string short_time(fabric::Time time);
// "6.12 M", for counts and rates.
std::string short_count(double count);
// Three digits, without a unit; "-" for what is 0 because there is nothing to count.
std::string short_number(double value);

}  // namespace verbena::tools
