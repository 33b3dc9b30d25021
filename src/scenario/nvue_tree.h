// The tree that NVUE commands make: one path for each thing set, lists and ranges taken apart, and
// each value in one spelling ("enable", "enabled" and "on" are "on").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/import.h"

namespace verbena::scenario {

struct NvueLeaf {
  std::string value;  // "" for a thing that is only named ("qos/pfc/P/switch-priority/3")
  int line = 0;
};

class NvueTree {
 public:
  // One command's words without "nv": "set qos roce". What is wrong goes to `diagnostics`.
  void command(int line, const std::vector<std::string>& words, Diagnostics& diagnostics);

  const NvueLeaf* find(const std::string& path) const;
  // The names directly below `path`, in order of their text.
  std::vector<std::string> below(const std::string& path) const;
  // The line of the first thing at or below `path`; 0: nothing is.
  int line_of(const std::string& path) const;
  // Lines about other things than QoS, ascending.
  const std::vector<int>& other_lines() const { return other_lines_; }

 private:
  void set(int line, const std::vector<std::string>& words, Diagnostics& diagnostics);
  void unset(int line, const std::vector<std::string>& words, Diagnostics& diagnostics);

  std::map<std::string, NvueLeaf> leaves_;
  std::vector<int> other_lines_;
};

}  // namespace verbena::scenario
