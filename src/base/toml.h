// How this project reads TOML: one include with the switches that make the parser safe for files of
// unknown origin, and the words in which messages name what stands in a file.
#pragma once

#include <fmt/format.h>

#include <string>

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

// "FILE:LINE: not valid TOML: ...".
inline std::string toml_syntax_message(std::string_view path, const toml::parse_error& bad) {
  return fmt::format("{}:{}: not valid TOML: {}", path, bad.source().begin.line, bad.description());
}

}  // namespace verbena
