// A CONFIG_DB file as tables of rows of text fields, each with its line. The JSON parser keeps no
// places, so a scan of the text that it accepted finds them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/import.h"

namespace verbena::scenario {

// "Ethernet0,Ethernet4|3-4" taken apart.
struct SonicKey {
  std::vector<std::string> ports;
  std::vector<uint32_t> numbers;  // queues or priority groups; empty when the key has none
};
struct SonicField {
  std::string value;  // numbers as they are written
  int line = 0;
};
struct SonicRow {
  std::string key;                // "Ethernet0,Ethernet4|3-4"
  std::optional<SonicKey> parts;  // of the key; nothing when it names no ports
  int line = 0;
  std::map<std::string, SonicField> fields;

  const SonicField* find(const std::string& field) const;
  // "" and 0 when there is no such field.
  std::string text(const std::string& field) const;
};

class SonicFile {
 public:
  // Nothing, and one error, when the text is not an object of tables.
  static std::optional<SonicFile> parse(std::string_view text, Diagnostics& diagnostics);

  // In order of their keys; empty for a table that is not there.
  const std::vector<SonicRow>& table(const std::string& name) const;
  bool has(const std::string& name) const { return tables_.contains(name); }
  std::vector<std::string> names() const;
  int line_of(const std::string& table) const;
  // The row of `table` that a field refers to: "[TABLE|name]" or "name". Null: none of that name.
  const SonicRow* referred(const std::string& table, std::string_view reference) const;

 private:
  std::map<std::string, std::vector<SonicRow>> tables_;
  std::map<std::string, int> lines_;  // "TABLE", "TABLE\nKEY", "TABLE\nKEY\nFIELD"
};

// "[BUFFER_POOL|ingress]" and "ingress" are both "ingress".
std::string_view sonic_name(std::string_view reference);

// Takes "Ethernet0,Ethernet4|3-4" apart; nothing when it is no such key.
std::optional<SonicKey> sonic_key(std::string_view key);

}  // namespace verbena::scenario
