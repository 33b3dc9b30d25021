// Finding an explanation by number, name or printed sentence, and its layout.
#include "tools/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace verbena::tools {
namespace {

constexpr std::string_view kPrefix = "IBV_WC_";
constexpr std::string_view kPrefixes[] = {kPrefix, "RDMA_CM_EVENT_", "IB_CM_REJ_", "IB_SIDR_"};

// What people write in front of a number to say of which kind it is, in lower case.
constexpr struct {
  std::string_view word;
  std::span<const Explanation> (*list)();
} kKinds[] = {
    {"status", status_explanations}, {"errno", errno_explanations},
    {"rej", reject_explanations},    {"reason", reject_explanations},
    {"event", event_explanations},   {"sidr status", sidr_explanations},
    {"sidr", sidr_explanations},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool named(const Explanation& entry, const std::string& query) {
  const std::string name = lower(entry.name);
  if (name == query || query == lower(entry.text)) return true;
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
    return name.rfind(lower(prefix), 0) == 0 && name.substr(prefix.size()) == query;
  });
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c >= '0' && c <= '9'; });
}

const Explanation* numbered(std::span<const Explanation> list, int number) {
  for (const Explanation& entry : list)
    if (entry.number == number) return &entry;
  return nullptr;
}

// "rej 8", "event 8": the number of one kind. Or nullptr.
const Explanation* of_kind(std::string_view query) {
  for (const auto& kind : kKinds) {
    if (query.rfind(kind.word, 0) != 0 || query.size() <= kind.word.size() + 1) continue;
    const std::string_view rest = query.substr(kind.word.size() + 1);
    if (query[kind.word.size()] == ' ' && is_number(rest))
      return numbered(kind.list(), std::stoi(std::string(rest)));
  }
  return nullptr;
}

// The number that follows `word` in `line` after at most two other characters ("REJ 8",
// "error: -110"); `otherwise` when none does.
int number_after(std::string_view line, std::string_view word, int otherwise) {
  const size_t found = line.rfind(word);
  if (found == line.npos) return otherwise;
  size_t at = found + word.size();
  while (at < line.size() && at < found + word.size() + 2 && (line[at] == ' ' || line[at] == ':'))
    ++at;
  const bool negative = at < line.size() && line[at] == '-';
  if (negative) ++at;
  size_t end = at;
  while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
  if (!is_number(line.substr(at, end - at))) return otherwise;
  const int number = std::stoi(std::string(line.substr(at, end - at)));
  return negative ? -number : number;
}

// What the number means that programs print beside an event: a reason, or a negative errno.
const Explanation* status_of_event(const Explanation& event, const std::string& line) {
  int status = 0;
  for (const char* word : {"error", "status", "reason"})
    if (status == 0) status = number_after(line, word, 0);
  if (status < 0) return numbered(errno_explanations(), -status);
  if (status == 0) return nullptr;
  const std::string_view name = event.name;
  if (name == "RDMA_CM_EVENT_REJECTED") return numbered(reject_explanations(), status);
  if (name == "RDMA_CM_EVENT_UNREACHABLE") return numbered(sidr_explanations(), status);
  return nullptr;
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

std::string explanation_list(std::span<const Explanation> list) {
  std::string out;
  for (const Explanation& entry : list)
    out += fmt::format("{:>3}  {:<37} {}\n", entry.number, entry.name, entry.text);
  return out;
}

std::vector<std::span<const Explanation>> all_explanations() {
  return {status_explanations(), errno_explanations(), reject_explanations(), sidr_explanations(),
          event_explanations()};
}

std::string explain_query(std::string_view query) {
  std::string out;
  const auto add = [&](const Explanation& entry) {
    out += (out.empty() ? "" : "\n") + explanation_text(entry);
  };
  const std::string wanted = lower(query);
  for (const auto& kind : kKinds)
    if (kind.word == wanted) return explanation_list(kind.list());
  if (query.starts_with('-') && is_number(query.substr(1))) {  // as events have it
    const Explanation* entry =
        numbered(errno_explanations(), std::stoi(std::string(query.substr(1))));
    return entry != nullptr ? explanation_text(*entry) : "";
  }
  const bool numeric = is_number(query);
  const int number = numeric ? std::stoi(std::string(query)) : -1;
  if (const Explanation* entry = of_kind(wanted)) return explanation_text(*entry);
  for (const auto& list : all_explanations())
    for (const Explanation& entry : list)
      if (numeric ? entry.number == number : named(entry, wanted)) add(entry);
  if (!out.empty() || numeric || wanted.size() < 4) return out;
  for (const auto& list : all_explanations())
    for (const Explanation& entry : list)
      if (lower(entry.text).find(wanted) != std::string::npos ||
          lower(entry.name).find(wanted) != std::string::npos)
        add(entry);
  if (!out.empty()) return out;
  if (const Explanation* entry = find_in_line(query)) {
    add(*entry);
    if (const Explanation* status = status_of_event(*entry, wanted)) add(*status);
    return out;
  }
  if (const Step* step = step_in_sentence(query))
    return fmt::format("{}\n", step->text) + block("causes", step->causes) +
           block("change", step->change);
  return out;
}

const Explanation* find_in_line(std::string_view line) {
  const std::string text(line);
  for (const auto& list : all_explanations())
    for (const Explanation& entry : list) {
      std::string_view name = entry.name;
      if (has_word(text, name)) return &entry;
      if (name.rfind(kPrefix, 0) == 0 && entry.number != 0 &&
          has_word(text, name.substr(kPrefix.size())))
        return &entry;
    }
  if (has_word(text, "REJ"))
    if (const Explanation* entry = numbered(reject_explanations(), number_after(text, "REJ", 0)))
      return entry;
  if (const Explanation* entry =
          numbered(sidr_explanations(), number_after(text, "SIDR status", 0)))
    return entry;
  const std::string small = lower(line);
  for (const Explanation& entry : status_explanations())
    if (entry.number != 0 && has_word(small, lower(entry.text))) return &entry;
  for (const Explanation& entry : errno_explanations())
    if (text.ends_with(std::string(": ") + entry.text)) return &entry;
  return nullptr;
}

}  // namespace verbena::tools
