// One function for each kind of value; every message names the key and says what it takes.
#include "scenario/reader.h"

#include <errno.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "base/nearest.h"

namespace verbena::scenario {
namespace {

constexpr size_t kLongestWord = 64;  // that a spelling is looked for
constexpr size_t kListed = 24;       // words that a message lists
constexpr size_t kMostText = 4096;

// What to write: an example of the kind.
std::string_view example(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "a size such as \"100KB\" (1000) or \"64KiB\" (1024)";
    case Kind::kRate:
      return "a rate such as \"100G\" or \"40Gbps\"";
    case Kind::kTime:
      return "a time such as \"1us\", \"2.5ms\" or \"1s\"";
    case Kind::kLength:
      return "a length such as \"300m\" or \"4km\"";
    case Kind::kShare:
      return "a share such as \"30%\" or 0.3";
    default:
      return "a value";
  }
}

std::string shown(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return fmt::format("\"{}\"", *text);
  if (auto number = node.value_exact<int64_t>()) return fmt::format("{}", *number);
  if (auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  return toml_type_name(node);
}

// A node is named by a string, or by its number.
std::optional<std::string> node_name(const toml::node& node) {
  if (auto text = node.value_exact<std::string>(); text && !text->empty()) return text;
  if (const auto n = node.value_exact<int64_t>(); n && *n >= 0) return fmt::format("{}", *n);
  return {};
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string hint(std::string_view name, const std::vector<std::string_view>& words) {
  if (words.empty()) return "there is none";
  if (name.size() <= kLongestWord) {
    const Nearest nearest = nearest_word(name, words);
    if (nearest.slips <= std::max<size_t>(1, nearest.word.size() / 3))
      return fmt::format("did you mean {}?", nearest.word);
  }
  const std::vector<std::string_view> some(words.begin(),
                                           words.begin() + std::min(kListed, words.size()));
  return fmt::format("there is {}{}", fmt::join(some, ", "),
                     some.size() < words.size() ? ", ..." : "");
}

tl::unexpected<Error> Reader::error(const toml::source_region& where, std::string_view path,
                                    std::string_view message) const {
  const std::string what =
      path.empty() ? std::string(message) : fmt::format("{}: {}", path, message);
  if (where.begin.line == 0) return fail(EINVAL, fmt::format("--set {}", what));
  return fail(EINVAL, fmt::format("{}:{}: {}", file_, where.begin.line, what));
}

tl::unexpected<Error> Reader::error(std::initializer_list<std::string> paths,
                                    std::string_view message) const {
  for (const std::string& path : paths) {
    const auto found = lines_.find(path);
    if (found == lines_.end()) continue;
    if (found->second == 0) return fail(EINVAL, fmt::format("--set {}: {}", path, message));
    return fail(EINVAL, fmt::format("{}:{}: {}: {}", file_, found->second, path, message));
  }
  return fail(EINVAL, fmt::format("{}:1: {}: {}", file_, *paths.begin(), message));
}

Status Reader::read(const toml::table& table, const std::string& path,
                    const std::vector<BoundKey>& keys, std::span<const std::string_view> others) {
  for (auto&& [key, node] : table) {
    const std::string_view name = key.str();
    const auto known = std::find_if(keys.begin(), keys.end(),
                                    [&](const BoundKey& k) { return k.info->name == name; });
    if (known == keys.end()) {
      if (std::find(others.begin(), others.end(), name) != others.end()) continue;
      return unknown(key, node, path, keys, others);
    }
    const std::string full = join_path(path, name);
    const auto read = value(node, full, *known->info);
    if (!read) return tl::unexpected(read.error());
    known->store(*read);
    note(full, node.source());
  }
  return {};
}

tl::unexpected<Error> Reader::unknown(const toml::key& key, const toml::node& value,
                                      const std::string& path, const std::vector<BoundKey>& keys,
                                      std::span<const std::string_view> others) const {
  std::vector<std::string_view> words;
  for (const BoundKey& known : keys) words.push_back(known.info->name);
  words.insert(words.end(), others.begin(), others.end());
  const auto& where = value.source().begin.line == 0 ? value.source() : key.source();
  return error(where, join_path(path, key.str()),
               fmt::format("unknown key; {}", hint(key.str(), words)));
}

Result<Value> Reader::value(const toml::node& node, const std::string& path,
                            const KeyInfo& key) const {
  if (!key.word.empty() && node.value_exact<std::string>() == key.word)
    return Value{.is_word = true};
  switch (key.kind) {
    case Kind::kFlag:
      if (const auto flag = node.value_exact<bool>()) return Value{.flag = *flag};
      break;
    case Kind::kText:
      if (auto text = node.value_exact<std::string>()) {
        if (text->size() <= kMostText) return Value{.text = *text};
        return error(node.source(), path,
                     fmt::format("has {} bytes; {} are the most", text->size(), kMostText));
      }
      break;
    case Kind::kCount:
      if (const auto n = node.value_exact<int64_t>())
        if (*n >= 0 && static_cast<double>(*n) >= key.least && static_cast<double>(*n) <= key.most)
          return Value{.whole = static_cast<uint64_t>(*n)};
      break;
    case Kind::kNumber:
      if (const auto n = node.is_number() ? node.value<double>() : std::nullopt)
        if (*n >= key.least && *n <= key.most) return Value{.real = *n};
      break;
    case Kind::kShare:
      return share(node, path, key);
    case Kind::kChoice:
      return choice(node, path, key);
    case Kind::kPriorities:
      return priorities(node, path);
    case Kind::kMap:
      return number_map(node, path, key);
    case Kind::kNode:
      if (auto name = node_name(node)) return Value{.text = *name};
      break;
    case Kind::kNodes:
      return nodes(node, path, key);
    default:
      return with_unit(node, path, key);
  }
  return error(node.source(), path,
               fmt::format("is {}; it may be {}", shown(node), format_range(key)));
}

Result<Value> Reader::with_unit(const toml::node& node, const std::string& path,
                                const KeyInfo& key) const {
  const auto text = node.value_exact<std::string>();
  if (!text && node.value_exact<int64_t>() != 0) {
    const char* fault = node.is_number() ? "has no unit" : "is no value of it";
    return error(node.source(), path,
                 fmt::format("{} {}; write {}", shown(node), fault, example(key.kind)));
  }
  Value value;
  bool good = true;
  if (text && key.kind == Kind::kLength) {
    const auto metres = parse_length(*text);
    good = metres.has_value();
    value.real = metres.value_or(0);
  } else if (text) {
    std::optional<uint64_t> whole;
    if (key.kind == Kind::kBytes) whole = parse_bytes(*text);
    if (key.kind == Kind::kRate) whole = parse_rate(*text);
    if (key.kind == Kind::kTime) whole = parse_time(*text);
    good = whole.has_value();
    value.whole = whole.value_or(0);
  }
  if (!good)
    return error(node.source(), path,
                 fmt::format("{} is no {}", shown(node), example(key.kind).substr(2)));
  const double size = key.kind == Kind::kLength ? value.real : static_cast<double>(value.whole);
  if (size < key.least || size > key.most)
    return error(node.source(), path,
                 fmt::format("is {}; it may be {}", shown(node), format_range(key)));
  return value;
}

Result<Value> Reader::share(const toml::node& node, const std::string& path,
                            const KeyInfo& key) const {
  std::optional<double> share;
  if (const auto text = node.value_exact<std::string>())
    share = parse_share(*text);
  else if (node.is_number())
    share = node.value<double>();
  else
    return error(node.source(), path,
                 fmt::format("is {}; write {}", shown(node), example(key.kind)));
  if (!share)
    return error(node.source(), path,
                 fmt::format("{} is no {}", shown(node), example(key.kind).substr(2)));
  if (!(*share >= key.least && *share <= key.most))
    return error(node.source(), path,
                 fmt::format("is {}; it may be {}", shown(node), format_range(key)));
  return Value{.real = *share};
}

Result<Value> Reader::choice(const toml::node& node, const std::string& path,
                             const KeyInfo& key) const {
  const auto text = node.value_exact<std::string>();
  if (text) {
    const auto found = std::find(key.choices.begin(), key.choices.end(), *text);
    if (found != key.choices.end())
      return Value{.whole = static_cast<uint64_t>(found - key.choices.begin())};
  }
  return error(node.source(), path,
               fmt::format("is {}; it may be {}", shown(node), format_range(key)));
}

Result<Value> Reader::priorities(const toml::node& node, const std::string& path) const {
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return error(node.source(), path,
                 fmt::format("is {}; write a list of priorities such as [3]", shown(node)));
  Value value;
  for (const toml::node& item : *list) {
    const auto priority = item.value_exact<int64_t>();
    if (!priority || *priority < 0 || *priority >= fabric::kPriorities)
      return error(item.source(), path,
                   fmt::format("{} is no priority; they are 0 to 7", shown(item)));
    value.whole |= uint64_t{1} << *priority;
  }
  return value;
}

Result<Value> Reader::nodes(const toml::node& node, const std::string& path,
                            const KeyInfo& key) const {
  Value value;
  const auto refuse = [&](const toml::node& item) {
    return error(item.source(), path,
                 fmt::format("is {}; it may be {}", shown(item), format_range(key)));
  };
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& item : *list) {
      auto name = node_name(item);
      if (!name) return refuse(item);
      value.list.push_back(std::move(*name));
    }
    return value;
  }
  auto name = node_name(node);
  if (!name) return refuse(node);
  value.list.push_back(std::move(*name));
  return value;
}

Result<Value> Reader::number_map(const toml::node& node, const std::string& path,
                                 const KeyInfo& key) const {
  const toml::table* table = node.as_table();
  if (table == nullptr)
    return error(
        node.source(), path,
        fmt::format("is {}; write a table such as {{ 26 = 3, default = 0 }}", shown(node)));
  Value value;
  value.map.assign(key.map_size, -1);
  const toml::node* fallback = table->get("default");
  for (auto&& [name, item] : *table) {
    const auto to = item.value_exact<int64_t>();
    if (!to || *to < 0 || static_cast<double>(*to) > key.most)
      return error(item.source(), join_path(path, name.str()),
                   fmt::format("is {}; it may be 0 to {}", shown(item), key.most));
    if (name.str() == "default") continue;
    const std::string_view text = name.str();
    const size_t dash = text.find('-');
    const auto first = whole_number(text.substr(0, dash));
    const auto last = dash == text.npos ? first : whole_number(text.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= key.map_size)
      return error(item.source(), join_path(path, text),
                   fmt::format("the left side is a number from 0 to {}, a range such as 24-31, or "
                               "default",
                               key.map_size - 1));
    for (int64_t i = *first; i <= *last; ++i)
      value.map[static_cast<size_t>(i)] = static_cast<int>(*to);
  }
  if (fallback != nullptr)
    for (int& entry : value.map)
      if (entry < 0) entry = static_cast<int>(*fallback->value_exact<int64_t>());
  return value;
}

Result<const toml::table*> Reader::table(const toml::node& node, const std::string& path) const {
  const toml::table* table = node.as_table();
  if (table == nullptr)
    return error(node.source(), path,
                 fmt::format("is {}; it must be a table: [{}]", shown(node), path));
  return table;
}

Result<const toml::table*> Reader::inner(const toml::table& of, const std::string& path,
                                         std::string_view name) const {
  const toml::node* node = of.get(name);
  if (node == nullptr) return nullptr;
  return table(*node, join_path(path, name));
}

Result<std::vector<const toml::table*>> Reader::tables(const toml::table& root,
                                                       std::string_view name) const {
  std::vector<const toml::table*> found;
  const toml::node* node = root.get(name);
  if (node == nullptr) return found;
  const toml::array* list = node->as_array();
  if (list == nullptr)
    return error(node->source(), name,
                 fmt::format("is {}; write [[{}]] above each", shown(*node), name));
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr)
      return error(item.source(), name,
                   fmt::format("holds {}; write [[{}]] above each", shown(item), name));
    found.push_back(table);
  }
  return found;
}

Result<std::string> read_text_file(const std::string& path, size_t most) {
  if (std::ifstream file(path, std::ios::binary); file) {
    std::string text;
    char piece[16 * 1024];
    while (text.size() <= most && (file.read(piece, sizeof(piece)), file.gcount() > 0))
      text.append(piece, static_cast<size_t>(file.gcount()));
    if (file.bad()) return fail(EIO, fmt::format("cannot read {}", path));
    if (text.size() > most)
      return fail(EFBIG, fmt::format("{} is larger than {} bytes", path, most));
    return text;
  }
  return fail(errno != 0 ? errno : ENOENT, fmt::format("cannot open {}", path));
}

}  // namespace verbena::scenario
