// A sender that polls in vain has a processor to spare, while its peer fetches payload at half the
// speed of memcpy (process_vm_readv looks up every page). So it copies what is still to be fetched
// into shared memory, a chunk at a time and ahead of the peer; what is there by the time the peer
// wants it is taken from there, everything else from the sender's memory as ever. Nobody waits for
// anybody, and the words below may hold anything: a chunk counts only if its number is the wanted
// one before and after the copy.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "memory/payload.h"

namespace verbena::link {

inline constexpr uint32_t kStagedChunkBytes = 32 * 1024;
inline constexpr uint32_t kStagedChunks = 16;  // more than that falls out of the cache

// In the sender's LocalArea. Chunks are numbered from 1 for ever; number n may lie in place
// n % kStagedChunks.
struct Staging {
  struct Place {
    alignas(64) std::atomic<uint64_t> holds;  // by the sender: number of the chunk, 0 while written
    alignas(64) std::atomic<uint64_t> fetched;  // by its peers: the highest number nobody needs
  };
  Place places[kStagedChunks];
  alignas(4096) uint8_t bytes[kStagedChunks][kStagedChunkBytes];
};

// Receiving side: marks that chunk `number` is not needed (any more).
void mark_fetched(Staging& staging, uint64_t number);
// Copies `length` bytes from `offset` of chunk `number`. False: it is not there, or not any more;
// `to` may be partly written then. Also false when `to` cannot be written.
bool fetch_staged(const Staging& staging, uint64_t number, size_t offset, uint8_t* to,
                  size_t length);

// Sending side. Locked by the process like the link it belongs to.
class Stager {
 public:
  static constexpr uint32_t kMinBytes = 2 * kStagedChunkBytes;  // payload worth it
  static constexpr size_t kMaxSegments = 4;
  static constexpr size_t kMaxOffers = 2048;

  explicit Stager(Staging& staging) : staging_(staging) {}

  // Remembers payload that is about to be sent by reference. Its bytes stay until the peer has
  // fetched them or forget...() is called. The number of its first chunk; 0: it is not taken.
  uint64_t offer(const memory::Payload& payload, uint32_t qpn, uint32_t region_key);
  // Copies one chunk ahead of the peers. False: nothing to do now.
  bool stage();
  // The payload of this queue pair (that belongs to no region), of this region.
  void forget_queue_pair(uint32_t qpn);
  void forget_region(uint32_t key);

  uint64_t staged_bytes() const { return staged_bytes_; }

 private:
  struct Offer {
    uint64_t first = 0;  // chunk
    uint32_t bytes = 0;
    uint32_t qpn = 0;
    uint32_t region_key = 0;
    uint32_t segments = 0;  // 0: forgotten
    std::array<memory::Segment, kMaxSegments> segment;

    uint64_t end() const { return first + (bytes + kStagedChunkBytes - 1) / kStagedChunkBytes; }
  };

  bool is_fetched(uint64_t number) const;
  void drop_fetched();
  Offer* next_offer();
  bool copy(Offer& offer, uint64_t number);

  Staging& staging_;
  std::deque<Offer> offers_;  // by number
  uint64_t next_number_ = 1;
  uint64_t next_chunk_ = 1;  // to be staged, at the earliest
  uint32_t fruitless_ = 0;   // calls of stage() that found every place taken
  uint64_t staged_bytes_ = 0;
};

}  // namespace verbena::link
