// Reading an explain log: thousands of lines usually have a handful of causes.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace verbena::tools {

inline constexpr size_t kMaxLogLine = 4096;    // bytes; the rest of a longer line is left out
inline constexpr size_t kMaxLogCauses = 4096;  // different causes kept

// Summarises the lines that start with "verbena: " (other lines, a program's own output, are
// skipped): equal causes, numbers aside, are counted together, most frequent first, with the first
// line as example and what to change. Says so when there are none.
std::string summarise_log(std::istream& in);

}  // namespace verbena::tools
