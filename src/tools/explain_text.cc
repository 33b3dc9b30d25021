// Finding an explanation by number, name or printed sentence, and its layout.
#include "tools/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace verbena::tools {
namespace {

constexpr std::string_view kPrefix = "IBV_WC_";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool named(const Explanation& entry, const std::string& query) {
  const std::string name = lower(entry.name);
  if (name == query || query == lower(entry.text)) return true;
  return name.rfind(lower(kPrefix), 0) == 0 && name.substr(kPrefix.size()) == query;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c >= '0' && c <= '9'; });
}

// A long field, one cause a line, indented below its name.
std::string block(const char* title, std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("  {:<9}{}\n", out.empty() ? title : "", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Whole-word search, so that "RETRY_EXC_ERR" is not found inside "RNR_RETRY_EXC_ERR".
bool has_word(std::string_view line, std::string_view word) {
  const auto part_of_word = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  for (size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    const bool starts = at == 0 || !part_of_word(line[at - 1]);
    const size_t end = at + word.size();
    if (starts && (end == line.size() || !part_of_word(line[end]))) return true;
  }
  return false;
}

}  // namespace

std::string explanation_text(const Explanation& entry) {
  std::string out = fmt::format("{} ({}): {}\n", entry.name, entry.number, entry.text);
  out += block("where", entry.where);
  out += block("causes", entry.causes);
  out += block("change", entry.change);
  return out;
}

std::string explain_query(std::string_view query) {
  std::string out;
  const auto add = [&](const Explanation& entry) {
    out += (out.empty() ? "" : "\n") + explanation_text(entry);
  };
  const bool numeric = is_number(query);
  const int number = numeric ? std::stoi(std::string(query)) : -1;
  const std::string wanted = lower(query);
  for (const auto& list : {status_explanations(), errno_explanations()})
    for (const Explanation& entry : list)
      if (numeric ? entry.number == number : named(entry, wanted)) add(entry);
  if (!out.empty() || numeric || wanted.size() < 4) return out;
  for (const auto& list : {status_explanations(), errno_explanations()})
    for (const Explanation& entry : list)
      if (lower(entry.text).find(wanted) != std::string::npos ||
          lower(entry.name).find(wanted) != std::string::npos)
        add(entry);
  if (!out.empty()) return out;
  if (const Explanation* entry = find_in_line(query)) return explanation_text(*entry);
  if (const Step* step = step_in_sentence(query))
    return fmt::format("{}\n", step->text) + block("causes", step->causes) +
           block("change", step->change);
  return out;
}

const Explanation* find_in_line(std::string_view line) {
  const std::string text(line);
  for (const auto& list : {status_explanations(), errno_explanations()})
    for (const Explanation& entry : list) {
      std::string_view name = entry.name;
      if (has_word(text, name)) return &entry;
      if (name.rfind(kPrefix, 0) == 0 && entry.number != 0 &&
          has_word(text, name.substr(kPrefix.size())))
        return &entry;
    }
  const std::string small = lower(line);
  for (const Explanation& entry : status_explanations())
    if (entry.number != 0 && has_word(small, lower(entry.text))) return &entry;
  return nullptr;
}

}  // namespace verbena::tools
