// Two lines have the same cause when they differ only in numbers and addresses: those become '#'.
#include "tools/explain_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <vector>

#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

constexpr std::string_view kMark = "verbena: ";

struct Cause {
  std::string example;  // the first line of it
  uint64_t count = 0;
  size_t order = 0;
};

// A word that holds a digit is a number, an address or an identifier.
std::string shape(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    const auto in_word = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.' || c == ':';
    };
    size_t end = at;
    bool digit = false;
    while (end < line.size() && in_word(static_cast<unsigned char>(line[end]))) {
      digit = digit || std::isdigit(static_cast<unsigned char>(line[end])) != 0;
      ++end;
    }
    if (end == at) {
      out += line[at++];
      continue;
    }
    if (digit)
      out += '#';
    else
      out += line.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace

std::string summarise_log(std::istream& in) {
  std::unordered_map<std::string, Cause> causes;
  uint64_t lines = 0;
  for (std::string line; std::getline(in, line);) {
    const size_t mark = line.find(kMark);  // a launcher may have put a rank or a time in front
    if (mark == std::string::npos || mark > 64) continue;
    ++lines;
    std::string text = line.substr(mark + kMark.size(), kMaxLogLine);
    std::string key = shape(text);
    const auto found = causes.find(key);
    if (found != causes.end()) {
      ++found->second.count;
    } else if (causes.size() < kMaxLogCauses) {
      causes.emplace(std::move(key), Cause{std::move(text), 1, causes.size()});
    }
  }
  if (lines == 0)
    return "no line starts with \"verbena: \"; write a log with VERBENA_LOG=explain:FILE\n";

  std::vector<const Cause*> sorted;
  for (const auto& [key, cause] : causes) sorted.push_back(&cause);
  std::sort(sorted.begin(), sorted.end(), [](const Cause* a, const Cause* b) {
    return a->count != b->count ? a->count > b->count : a->order < b->order;
  });
  std::string out = fmt::format("{} lines, {} different causes\n", lines, sorted.size());
  for (const Cause* cause : sorted) {
    out += fmt::format("\n{} times: {}\n", cause->count, cause->example);
    if (const Explanation* known = find_in_line(cause->example)) {
      out += fmt::format("  {} ({}): {}\n", known->name, known->number, known->text);
      for (std::string_view rest = known->change; !rest.empty();) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        out += fmt::format("  change   {}\n", rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
  }
  return out;
}

}  // namespace verbena::tools
