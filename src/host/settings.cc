// No file is touched here: whether one can be written is the business of whoever opens it.
#include "host/settings.h"

#include <errno.h>
#include <fmt/format.h>

namespace verbena::host {

Result<bool> switched_on(const char* variable, const char* setting) {
  const std::string_view word = setting ? setting : "";
  if (word.empty() || word == "on" || word == "1") return true;
  if (word == "off" || word == "0") return false;
  return fail(EINVAL, fmt::format("{}={} is not known; use on or off", variable, word));
}

Result<LogTarget> log_target(const char* variable, const char* setting, std::string_view word) {
  const std::string_view value = setting ? setting : "";
  if (value.empty()) return LogTarget{};
  if (value == word) return LogTarget{LogTarget::Kind::kStderr, ""};
  const std::string to_file = fmt::format("{}:", word);
  if (!value.starts_with(to_file) || value.size() == to_file.size())
    return fail(EINVAL,
                fmt::format("{}={} is not known; use {} or {}:FILE", variable, value, word, word));
  return LogTarget{LogTarget::Kind::kFile, std::string(value.substr(to_file.size()))};
}

}  // namespace verbena::host
