// The parsers and the list of diagnostics that the three readers of operators' files share.
#include "scenario/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "base/nearest.h"
#include "scenario/import_linux.h"
#include "scenario/import_nvue.h"
#include "scenario/import_sonic.h"

namespace verbena::scenario {
namespace {

constexpr size_t kMostInterfaces = 1024;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// A name in two: what stands before its last number, and the number.
struct Numbered {
  std::string_view stem;
  uint32_t number = 0;
};
std::optional<Numbered> numbered(std::string_view name) {
  size_t digits = 0;
  while (digits < name.size() && is_digit(name[name.size() - 1 - digits])) ++digits;
  if (digits == 0 || digits > 5 || digits == name.size()) return std::nullopt;
  const auto value = number_of(name.substr(name.size() - digits));
  return Numbered{name.substr(0, name.size() - digits), static_cast<uint32_t>(*value)};
}

// "1-4" of "swp1-4", or "swp1-swp4": the last number, with or without the same stem.
bool add_range(std::string_view first, std::string_view last, std::vector<std::string>& names) {
  const auto from = numbered(first);
  if (!from) return false;
  uint32_t to = 0;
  if (const auto plain = number_of(last); plain && *plain <= 99'999) {
    to = static_cast<uint32_t>(*plain);
  } else if (const auto named = numbered(last); named && named->stem == from->stem) {
    to = named->number;
  } else {
    return false;
  }
  if (to < from->number || to - from->number >= kMostInterfaces) return false;
  for (uint32_t n = from->number; n <= to; ++n) names.push_back(fmt::format("{}{}", from->stem, n));
  return true;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '/' || c == ':';
  });
}

}  // namespace

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

std::string text_of(const std::string& file, const Diagnostic& diagnostic) {
  std::string text = file;
  if (diagnostic.line > 0) text += fmt::format(":{}", diagnostic.line);
  text += fmt::format(": {}: {}", severity_name(diagnostic.severity), diagnostic.what);
  if (!diagnostic.to_do.empty()) text += "; " + diagnostic.to_do;
  return text;
}

bool Imported::failed() const {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

std::optional<Format> format_of(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text[begin] == '{') return Format::kSonic;
  std::optional<Format> found;
  for (std::string_view line : lines_of(text)) {
    const std::vector<std::string> words = without_prompt(words_of(line));
    if (words.empty()) continue;
    if (words[0] == "nv") return Format::kNvue;
    if (is_linux_command(words[0])) found = Format::kLinux;
  }
  return found;
}

Imported import_text(Format format, std::string_view text, const ImportDefaults& defaults) {
  if (const size_t zero = text.find('\0'); zero != text.npos) {
    Imported out;
    out.format = format;
    Diagnostics diagnostics;
    const auto line = static_cast<int>(std::count(text.begin(), text.begin() + zero, '\n')) + 1;
    diagnostics.error(line, "a zero byte: this is no text");
    out.diagnostics = diagnostics.all();
    return out;
  }
  switch (format) {
    case Format::kNvue:
      return import_nvue(text);
    case Format::kSonic:
      return import_sonic(text, defaults);
    case Format::kLinux:
      break;
  }
  return import_linux(text, defaults);
}

namespace {

// Words of a file stand in messages, and a word may be a megabyte. Not in the middle of a
// character.
void shorten(std::string& text) {
  constexpr size_t kLongest = 1000;
  if (text.size() <= kLongest) return;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  text += " ...";
}

}  // namespace

// After those of the same line that came before it; each only once.
void Diagnostics::add(Diagnostic diagnostic) {
  if (all_.size() > kMost) return;
  if (all_.size() == kMost)
    diagnostic = {INT_MAX, Severity::kError,
                  fmt::format("there is more to say than {} things", kMost), "mend these first"};
  shorten(diagnostic.what);
  const auto behind =
      std::upper_bound(all_.begin(), all_.end(), diagnostic.line,
                       [](int line, const Diagnostic& other) { return line < other.line; });
  for (auto it = behind; it != all_.begin() && (it - 1)->line == diagnostic.line; --it)
    if (*(it - 1) == diagnostic) return;
  all_.insert(behind, std::move(diagnostic));
}
void Diagnostics::note(int line, std::string what, std::string to_do) {
  add({line, Severity::kNote, std::move(what), std::move(to_do)});
}
void Diagnostics::warn(int line, std::string what, std::string to_do, int rule) {
  add({line, Severity::kWarning, std::move(what), std::move(to_do), rule});
}
void Diagnostics::error(int line, std::string what, std::string to_do) {
  add({line, Severity::kError, std::move(what), std::move(to_do)});
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < line.size()) {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    if (line[at] == '#') break;
    std::string word;
    char quote = 0;
    for (; at < line.size() && (quote != 0 || !is_blank(line[at])); ++at) {
      const char c = line[at];
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (c == quote && quote != 0) {
        quote = 0;
      } else {
        word += c;
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

std::vector<std::string> without_prompt(std::vector<std::string> words) {
  if (words.size() > 1 && words[0] != "nv" && words[0].find('@') != std::string::npos &&
      (words[0].ends_with('$') || words[0].ends_with('#')))
    words.erase(words.begin());
  if (words.size() > 1 && (words[0] == "$" || words[0] == "sudo")) words.erase(words.begin());
  if (words.size() > 1 && words[0] == "sudo") words.erase(words.begin());
  return words;
}

std::optional<uint64_t> number_of(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty())
    return std::nullopt;
  return value;
}

std::optional<uint64_t> bytes_of(std::string_view text) {
  static constexpr std::pair<std::string_view, int> kUnits[] = {
      {"KB", 10}, {"MB", 20}, {"GB", 30}, {"K", 10}, {"M", 20}, {"G", 30}, {"B", 0}};
  int shift = 0;
  for (const auto& [unit, bits] : kUnits)
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      shift = bits;
      break;
    }
  const auto value = number_of(text);
  if (!value || (shift > 0 && *value > (UINT64_MAX >> shift))) return std::nullopt;
  return *value << shift;
}

std::optional<uint64_t> rate_of(std::string_view text) {
  uint64_t unit = 1'000'000;
  static constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"Gbit", 1'000'000'000}, {"Mbit", 1'000'000}, {"G", 1'000'000'000}, {"M", 1'000'000}};
  for (const auto& [name, bits] : kUnits)
    if (text.ends_with(name)) {
      text.remove_suffix(name.size());
      unit = bits;
      break;
    }
  const auto value = number_of(text);
  if (!value || *value == 0 || *value > 10'000'000'000'000 / unit) return std::nullopt;
  return *value * unit;
}

std::optional<std::vector<uint32_t>> number_list(std::string_view text, uint32_t most) {
  std::vector<uint32_t> numbers;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t dash = part.find('-');
    const auto from = number_of(part.substr(0, dash));
    const auto to = dash == part.npos ? from : number_of(part.substr(dash + 1));
    if (!from || !to || *from > *to || *to > most) return std::nullopt;
    for (uint64_t n = *from; n <= *to; ++n) numbers.push_back(static_cast<uint32_t>(n));
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::optional<std::vector<std::string>> interface_list(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t dash = part.find('-');
    if (dash == part.npos) {
      if (!is_name(part)) return std::nullopt;
      names.emplace_back(part);
    } else if (!is_name(part.substr(0, dash)) || !is_name(part.substr(dash + 1)) ||
               !add_range(part.substr(0, dash), part.substr(dash + 1), names)) {
      return std::nullopt;
    }
    if (names.size() > kMostInterfaces) return std::nullopt;
    if (end == text.size()) return names;
    text.remove_prefix(end + 1);
  }
}

bool natural_before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const size_t from_a = i, from_b = j;
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
      const auto left = number_of(a.substr(from_a, i - from_a));
      const auto right = number_of(b.substr(from_b, j - from_b));
      if (left != right) return left < right;
      continue;
    }
    if (a[i] != b[j]) return a[i] < b[j];
    ++i;
    ++j;
  }
  return a.size() - i < b.size() - j;
}

std::string_view meant_word(std::string_view word, const std::vector<std::string_view>& known) {
  const Nearest nearest = nearest_word(word, known);
  return nearest.slips <= word.size() / 3 + 1 ? nearest.word : "";
}

}  // namespace verbena::scenario
