// The scan below relies on what the parser made sure of: the text is well-formed JSON.
#include "scenario/sonic_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::scenario {
namespace {

using Json = nlohmann::json;

constexpr size_t kDepth = 3;  // table, key, field
// Ports that all keys name together; 512 ports with 20 rows each are 10,240.
constexpr size_t kMostKeyPorts = 50'000;

// Every name of the first three levels -> its line. Names are taken as written, escapes and all:
// CONFIG_DB's have none.
std::map<std::string, int> places(std::string_view text) {
  std::map<std::string, int> lines;
  std::vector<std::string> path;  // names of the objects that are open, and of the one to come
  size_t depth = 0;
  int line = 1;
  std::string last;
  int last_line = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == '"') {
      const size_t begin = ++i;
      while (text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      last = std::string(text.substr(begin, i - begin));
      last_line = line;
    }
    if (c != ':' || depth == 0 || depth > kDepth) continue;
    path.resize(depth);
    path[depth - 1] = last;
    lines.emplace(fmt::format("{}", fmt::join(path, "\n")), last_line);
  }
  return lines;
}

std::optional<std::string> scalar(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

}  // namespace

const SonicField* SonicRow::find(const std::string& field) const {
  const auto found = fields.find(field);
  return found == fields.end() ? nullptr : &found->second;
}

std::string SonicRow::text(const std::string& field) const {
  const SonicField* found = find(field);
  return found == nullptr ? "" : found->value;
}

std::optional<SonicFile> SonicFile::parse(std::string_view text, Diagnostics& diagnostics) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    diagnostics.error(0, "this is no JSON object of tables",
                      "save one: sonic-cfggen -d --print-data > config_db.json");
    return std::nullopt;
  }
  SonicFile file;
  file.lines_ = places(text);
  const auto line = [&](const std::string& path) {
    const auto found = file.lines_.find(path);
    return found == file.lines_.end() ? 0 : found->second;
  };
  size_t named = 0;
  for (const auto& [name, table] : json.items()) {
    std::vector<SonicRow>& rows = file.tables_[name];
    if (!table.is_object()) {
      diagnostics.error(line(name), fmt::format("table {} is no object of rows", name));
      continue;
    }
    for (const auto& [key, fields] : table.items()) {
      SonicRow row{key, sonic_key(key), line(name + "\n" + key), {}};
      named += row.parts ? row.parts->ports.size() : 0;
      if (named > kMostKeyPorts) {
        diagnostics.error(row.line,
                          fmt::format("the keys up to here name {} ports together", named),
                          fmt::format("{} are the most", kMostKeyPorts));
        return std::nullopt;
      }
      if (!fields.is_object()) {
        diagnostics.error(row.line, fmt::format("{}|{} is no object of fields", name, key));
        continue;
      }
      for (const auto& [field, value] : fields.items())
        if (const auto one = scalar(value))
          row.fields[field] = {*one, line(fmt::format("{}\n{}\n{}", name, key, field))};
      rows.push_back(std::move(row));
    }
  }
  return file;
}

const std::vector<SonicRow>& SonicFile::table(const std::string& name) const {
  static const std::vector<SonicRow> kNone;
  const auto found = tables_.find(name);
  return found == tables_.end() ? kNone : found->second;
}

std::vector<std::string> SonicFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, rows] : tables_) names.push_back(name);
  return names;
}

int SonicFile::line_of(const std::string& table) const {
  const auto found = lines_.find(table);
  return found == lines_.end() ? 0 : found->second;
}

std::string_view sonic_name(std::string_view reference) {
  if (!reference.starts_with('[') || !reference.ends_with(']')) return reference;
  reference = reference.substr(1, reference.size() - 2);
  return reference.substr(std::min(reference.find('|') + 1, reference.size()));
}

const SonicRow* SonicFile::referred(const std::string& name, std::string_view reference) const {
  const std::string_view key = sonic_name(reference);
  for (const SonicRow& row : table(name))
    if (row.key == key) return &row;
  return nullptr;
}

std::optional<SonicKey> sonic_key(std::string_view key) {
  const size_t bar = key.find('|');
  const auto ports = interface_list(key.substr(0, bar));
  if (!ports) return std::nullopt;
  SonicKey parts{*ports, {}};
  if (bar == key.npos) return parts;
  const auto numbers = number_list(key.substr(bar + 1), 15);
  if (!numbers) return std::nullopt;
  parts.numbers = *numbers;
  return parts;
}

}  // namespace verbena::scenario
