// Asks the caches for bytes ahead of their use. The processor's own prefetcher stops at every page,
// and a path MTU of 4096 is a page: each packet of a stream would begin cold.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena {

inline constexpr size_t kCacheLine = 64;

// Any address will do, mapped or not. Into the second-level cache: the first has no room for a
// packet that is not yet worked on.
inline void prefetch_to_read(const uint8_t* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i, 0, 2);
}

}  // namespace verbena
