// Copying out of a payload: one memcpy per segment, or one call to the foreign owner.
#include "memory/payload.h"

#include <algorithm>
#include <cstring>

namespace verbena::memory {

bool Payload::copy_out(size_t offset, uint8_t* to, size_t count) const {
  if (count == 0) return true;
  if (foreign) return foreign->copy_out(segments, offset, to, count);
  for (const Segment& segment : segments) {
    if (offset >= segment.length) {
      offset -= segment.length;
      continue;
    }
    size_t n = std::min(count, segment.length - offset);
    std::memcpy(to, segment.address + offset, n);
    to += n;
    count -= n;
    offset = 0;
    if (count == 0) return true;
  }
  return false;
}

}  // namespace verbena::memory
