// Copying out of a payload: one memcpy per segment, or one call to the foreign owner.
#include "memory/payload.h"

#include <algorithm>
#include <cstring>

#include "memory/fault_guard.h"

namespace verbena::memory {

namespace {

uint8_t zeros[kZeroBytes];  // never written; not const, or it would lie in the file

}  // namespace

size_t zero_segments(size_t length, std::span<Segment> to) {
  size_t count = 0;
  for (; length > 0 && count < to.size(); ++count) {
    to[count] = {zeros, std::min(length, kZeroBytes)};
    length -= to[count].length;
  }
  return count;
}

bool Payload::copy_out(size_t offset, uint8_t* to, size_t count) const {
  if (count == 0) return true;
  if (foreign) return foreign->copy_out(segments, offset, to, count);
  for (const Segment& segment : segments) {
    if (offset >= segment.length) {
      offset -= segment.length;
      continue;
    }
    size_t n = std::min(count, segment.length - offset);
    if (!guarded([&] { std::memcpy(to, segment.address + offset, n); })) return false;
    to += n;
    count -= n;
    offset = 0;
    if (count == 0) return true;
  }
  return false;
}

}  // namespace verbena::memory
