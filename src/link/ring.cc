// Single producer, single consumer; free-running 64-bit positions.
#include "link/ring.h"

#include <cstring>

namespace verbena::link {
namespace {

constexpr uint64_t align_up(uint64_t n) {
  return (n + kRecordAlign - 1) & ~uint64_t{kRecordAlign - 1};
}
constexpr uint64_t offset_of(uint64_t position) {
  return position & (kRingBytes - 1);
}

}  // namespace

RingWriter::RingWriter(Ring& ring) : ring_(&ring) {
  head_seen_ = ring.head.load(std::memory_order_acquire);
  tail_ = ring.tail.load(std::memory_order_relaxed);
  if (tail_ - head_seen_ > kRingBytes || tail_ % kRecordAlign != 0) {
    tail_ = align_up(head_seen_);  // a predecessor left nonsense: begin with an empty ring
    ring.tail.store(tail_, std::memory_order_release);
  }
}

bool RingWriter::has_room(uint64_t bytes) {
  if (kRingBytes - (tail_ - head_seen_) >= bytes) return true;
  uint64_t head = ring_->head.load(std::memory_order_acquire);
  if (tail_ - head > kRingBytes) return false;  // cannot be true
  head_seen_ = head;
  return kRingBytes - (tail_ - head_seen_) >= bytes;
}

uint8_t* RingWriter::reserve(uint32_t bytes) {
  const uint64_t wanted = align_up(bytes);
  if (wanted > kRingBytes / 4) return nullptr;
  const uint64_t to_end = kRingBytes - offset_of(tail_);
  if (to_end < wanted) {
    if (!has_room(to_end + wanted)) return nullptr;
    RecordHeader skip{static_cast<uint32_t>(to_end), static_cast<uint32_t>(RecordKind::kSkip)};
    std::memcpy(ring_->bytes + offset_of(tail_), &skip, sizeof(skip));
    tail_ += to_end;
  } else if (!has_room(wanted)) {
    return nullptr;
  }
  reserved_ = wanted;
  return ring_->bytes + offset_of(tail_);
}

void RingWriter::commit() {
  tail_ += reserved_;
  reserved_ = 0;
  ring_->tail.store(tail_, std::memory_order_release);
}

std::span<uint8_t> RingReader::next(uint32_t& kind) {
  // A writer skips once per round. One that does nothing else is given no more time than others.
  for (int skips = 0; skips < 2; ++skips) {
    const uint64_t tail = ring_->tail.load(std::memory_order_acquire);
    const uint64_t waiting = tail - head_;
    if (waiting == 0) return {};
    if (waiting > kRingBytes || tail % kRecordAlign != 0) {
      discard(tail);
      return {};
    }
    uint8_t* at = ring_->bytes + offset_of(head_);
    RecordHeader header;
    std::memcpy(&header, at, sizeof(header));
    if (header.bytes < sizeof(header) || header.bytes % kRecordAlign != 0 ||
        header.bytes > waiting || header.bytes > kRingBytes - offset_of(head_)) {
      discard(tail);
      return {};
    }
    if (header.kind == static_cast<uint32_t>(RecordKind::kSkip)) {
      head_ += header.bytes;
      continue;
    }
    current_ = header.bytes;
    kind = header.kind;
    return {at + sizeof(header), header.bytes - sizeof(header)};
  }
  return {};
}

// Nothing up to `tail` can be believed: the packets are lost, as on a bad cable.
void RingReader::discard(uint64_t tail) {
  ++resets_;
  head_ = tail & ~uint64_t{kRecordAlign - 1};
  current_ = 0;
  publish();
}

void RingReader::publish() {
  if (published_ == head_) return;
  published_ = head_;
  ring_->head.store(head_, std::memory_order_release);
}

bool RingReader::empty() const {
  return ring_->tail.load(std::memory_order_acquire) == head_;
}

}  // namespace verbena::link
