// How a refusal leaves the library: an errno for the program and one sentence for the explain log.
// Entry points that allocate run inside shielded().
#pragma once

#include <cerrno>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/wall.h"
#include "host/process.h"

namespace verbena::abi {

// Says why (when anyone listens) and returns `code`. The text names the call, the value and what to
// change.
template <typename... Args>
int refuse(int code, fmt::format_string<Args...> format, Args&&... args) {
  host::Process& process = host::Process::get();
  if (process.explaining()) process.explain(fmt::format(format, std::forward<Args>(args)...));
  return code;
}

// The same for calls that return a pointer: sets errno, gives null.
template <typename... Args>
std::nullptr_t refuse_null(int code, fmt::format_string<Args...> format, Args&&... args) {
  errno = refuse(code, format, std::forward<Args>(args)...);
  return nullptr;
}

// For calls that return -1 and set errno.
inline int minus_one(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// Runs `body`; when memory ran out the call fails with ENOMEM. shielded() is for calls that return
// an errno, shielded_pointer() for those that set it.
template <typename Body>
int shielded(Body&& body) {
  return behind_wall<int>(body, [] { return ENOMEM; });
}

template <typename T, typename Body>
T* shielded_pointer(Body&& body) {
  return behind_wall<T*>(body, [] {
    errno = ENOMEM;
    return nullptr;
  });
}

}  // namespace verbena::abi
