// The TOML parser goes one call deeper for every part of a dotted key, on parsing and on freeing: a
// file of dots would end on a full stack. So keys are looked at before it.
#pragma once

#include <cstddef>
#include <string_view>

namespace verbena {

inline constexpr size_t kMostKeyParts = 16;

// The number of the first line with a key of more than kMostKeyParts parts ("a.b.c" has 3); 0:
// there is none. Strings and comments may hold any dots.
size_t line_of_deep_key(std::string_view text);

}  // namespace verbena
