// The words that VERBENA_* variables know, each read in one place: by the libraries when they need
// it, and by `verbena run` beforehand.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::host {

// `setting` is the value of `variable` in all of these: null or empty means unset. EINVAL: a
// sentence with the variable, its value and what would be right.

// on, 1 or unset: true. off or 0: false.
Result<bool> switched_on(const char* variable, const char* setting);

struct LogTarget {
  enum class Kind { kOff, kStderr, kFile } kind = Kind::kOff;
  std::string path;  // of kFile
};
// WORD: standard error. WORD:FILE: that file. Unset: off.
Result<LogTarget> log_target(const char* variable, const char* setting, std::string_view word);

}  // namespace verbena::host
