// See toml_keys.h.
#include "base/toml_keys.h"

namespace verbena {

namespace {

// Behind the string that begins at `at`, which may be left open.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const bool many_lines = three.size() == 3 && three[1] == quote && three[2] == quote;
  for (size_t i = at + (many_lines ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (many_lines) {
      if (text.substr(i, 3) == three) return i + 3;
    } else if (text[i] == quote) {
      return i + 1;
    } else if (text[i] == '\n') {
      return i;
    }
  }
  return text.size();
}

bool belongs_to_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == ' ' || c == '\t' || c == '.' || (static_cast<unsigned char>(c) & 0x80);
}

}  // namespace

size_t line_of_deep_key(std::string_view text) {
  size_t line = 1, dots = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    size_t next = i + 1;
    if (c == '"' || c == '\'') {
      next = end_of_string(text, i);
      for (size_t k = i; k < next; ++k) line += text[k] == '\n';
    } else if (c == '#') {
      next = text.find('\n', i);
      if (next == std::string_view::npos) return 0;
    } else if (belongs_to_key(c)) {
      dots += c == '.';
      if (dots >= kMostKeyParts) return line;
    } else {
      dots = 0;
      line += c == '\n';
    }
    i = next;
  }
  return 0;
}

}  // namespace verbena
