// Bytes on their way: a list of segments in this process, or in another process of the same host
// that will be copied once, straight into the registered region (design decision 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::memory {

// Same layout as struct iovec, so a list of segments is a scatter list for the kernel.
struct Segment {
  uint8_t* address;
  size_t length;
};
static_assert(sizeof(Segment) == 16);

// Another process's memory. Implemented by the local link; the engine only calls it.
class ForeignMemory {
 public:
  virtual ~ForeignMemory() = default;
  // Copies `length` bytes from `offset` of the payload described by `segments` to `to`.
  // False: the owner died, revoked the bytes or the range is not mapped there; `to` may be
  // partly written, and the packet counts as lost.
  virtual bool copy_out(std::span<const Segment> segments, size_t offset, uint8_t* to,
                        size_t length) = 0;
};

struct Payload {
  std::span<const Segment> segments;
  uint32_t length = 0;               // bytes in all segments together
  ForeignMemory* foreign = nullptr;  // null: segments are addresses of this process

  // False: there is less, the foreign owner took it back, or memory on either side is not there.
  bool copy_out(size_t offset, uint8_t* to, size_t length) const;
};

// `length` bytes of zeros as segments of at most kZeroBytes; returns how many it wrote, at most
// to.size().
inline constexpr size_t kZeroBytes = 64 * 1024;
size_t zero_segments(size_t length, std::span<Segment> to);

}  // namespace verbena::memory
