// The two ends of a shared byte ring of records. Neither end trusts a position the other wrote: a
// position that cannot be true means "nothing to read" or "no room", never an access outside.
#pragma once

#include <cstdint>
#include <span>

#include "link/local_area.h"

namespace verbena::link {

inline constexpr uint32_t kRecordAlign = 8;

enum class RecordKind : uint32_t { kSkip = 0, kInline = 1, kReference = 2 };

struct RecordHeader {
  uint32_t bytes;  // with this header, multiple of kRecordAlign
  uint32_t kind;   // RecordKind
};

class RingWriter {
 public:
  RingWriter() = default;
  // Continues where the slot's former owner stopped; what it was writing when it died was never
  // published.
  explicit RingWriter(Ring& ring);

  bool valid() const { return ring_ != nullptr; }
  // Room for a record of `bytes` (header included, rounded up here); null when the ring is full.
  // At most a quarter of the ring.
  uint8_t* reserve(uint32_t bytes);
  // Publishes the reserved record.
  void commit();

 private:
  bool has_room(uint64_t bytes);

  Ring* ring_ = nullptr;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
  uint64_t reserved_ = 0;
};

class RingReader {
 public:
  RingReader() = default;
  explicit RingReader(Ring& ring) : ring_(&ring), head_(ring.head.load()), published_(head_) {}

  bool valid() const { return ring_ != nullptr; }
  // The next record behind its header, empty when there is none. It stays in shared memory: the
  // writer may still change its bytes. `kind` may be any number.
  std::span<uint8_t> next(uint32_t& kind);
  // Done with the record of the last next().
  void pop() { head_ += current_; }
  // Lets the writer reuse what was popped.
  void publish();
  bool empty() const;
  uint64_t resets() const { return resets_; }  // times the contents made no sense

 private:
  void discard(uint64_t tail);

  Ring* ring_ = nullptr;
  uint64_t head_ = 0;
  uint64_t published_ = 0;
  uint64_t current_ = 0;
  uint64_t resets_ = 0;
};

}  // namespace verbena::link
