// Values and ranges as a scenario writes them.
#include "scenario/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace verbena::scenario {
namespace {

std::string format_priorities(uint64_t bits) {
  std::vector<int> list;
  for (int p = 0; p < 64; ++p)
    if (bits >> p & 1) list.push_back(p);
  return fmt::format("[{}]", fmt::join(list, ", "));
}

// Runs of equal values: { 0-7 = 0, 26 = 3 }.
std::string format_map(const std::vector<int>& map) {
  std::vector<std::string> parts;
  for (size_t first = 0; first < map.size();) {
    size_t last = first;
    while (last + 1 < map.size() && map[last + 1] == map[first]) ++last;
    if (map[first] >= 0)
      parts.push_back(first == last ? fmt::format("{} = {}", first, map[first])
                                    : fmt::format("{}-{} = {}", first, last, map[first]));
    first = last + 1;
  }
  return parts.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
}

// A bound of a range, which is far below 2^53 or a round number.
std::string format_bound(const KeyInfo& key, double bound) {
  Value value{.whole = bound > 0 ? static_cast<uint64_t>(bound) : 0, .real = bound};
  const std::string text = format_value(key, value);
  return text.size() > 1 && text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

std::string format_value(const KeyInfo& key, const Value& value) {
  if (value.is_word) return fmt::format("\"{}\"", key.word);
  switch (key.kind) {
    case Kind::kFlag:
      return value.flag ? "true" : "false";
    case Kind::kCount:
      return fmt::format("{}", value.whole);
    case Kind::kNumber:
      return fmt::format("{}", value.real);
    case Kind::kShare:
      return fmt::format("\"{:.10g}%\"", value.real * 100);
    case Kind::kBytes:
      return fmt::format("\"{}\"", format_bytes(value.whole));
    case Kind::kRate:
      return fmt::format("\"{}\"", format_rate(value.whole));
    case Kind::kTime:
      return fmt::format("\"{}\"", format_time(static_cast<fabric::Time>(value.whole)));
    case Kind::kLength:
      return fmt::format("\"{}\"", format_length(value.real));
    case Kind::kText:
    case Kind::kNode:
      return fmt::format("\"{}\"", value.text);
    case Kind::kNodes:
      return value.list.empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(value.list, "\", \""));
    case Kind::kChoice:
      return fmt::format("\"{}\"",
                         value.whole < key.choices.size() ? key.choices[value.whole] : "");
    case Kind::kPriorities:
      return format_priorities(value.whole);
    case Kind::kMap:
      return format_map(value.map);
  }
  return "";
}

std::string format_range(const KeyInfo& key) {
  std::string range;
  switch (key.kind) {
    case Kind::kFlag:
      range = "true or false";
      break;
    case Kind::kText:
      range = "a string";
      break;
    case Kind::kNode:
      range = "a node: its name, or its number";
      break;
    case Kind::kNodes:
      range = "a list of nodes: names, numbers, ranges such as \"0-7\"";
      break;
    case Kind::kPriorities:
      range = "a list of priorities 0 to 7";
      break;
    case Kind::kMap:
      range = fmt::format("a table: 0 to {} = 0 to {}", key.map_size - 1, key.most);
      break;
    case Kind::kChoice:
      for (size_t i = 0; i < key.choices.size(); ++i)
        range += fmt::format("{}\"{}\"",
                             i == 0                        ? ""
                             : i + 1 == key.choices.size() ? " or "
                                                           : ", ",
                             key.choices[i]);
      break;
    default:
      range = fmt::format("{} to {}", format_bound(key, key.least), format_bound(key, key.most));
  }
  if (!key.word.empty()) range += fmt::format(", or \"{}\"", key.word);
  return range;
}

}  // namespace verbena::scenario
