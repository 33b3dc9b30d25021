// How this project reads TOML: one include with the switches that make the parser safe for files of
// unknown origin, and the words in which messages name what stands in a file.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "base/result.h"
#include "base/toml_keys.h"

// The parser asserts what a malformed file can break ("[["), and behind each such assertion stands
// the check that gives an error. Without NDEBUG, which would turn them into promises to the
// compiler.
#undef NDEBUG
#define TOML_ASSERT(expression) static_cast<void>(sizeof(!(expression)))
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace verbena {

// "an integer": for messages about a node of another type than wanted.
inline std::string toml_type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

// An Error says "FILE:LINE: not valid TOML: ...".
inline Result<toml::table> parse_toml(std::string_view text, const std::string& path) {
  if (const size_t line = line_of_deep_key(text); line != 0)
    return fail(EINVAL,
                fmt::format("{}:{}: a key of more than {} parts", path, line, kMostKeyParts));
  toml::parse_result parsed = toml::parse(text, path);
  if (parsed) return std::move(parsed).table();
  const toml::parse_error& bad = parsed.error();
  return fail(EINVAL, fmt::format("{}:{}: not valid TOML: {}", path, bad.source().begin.line,
                                  bad.description()));
}

}  // namespace verbena
