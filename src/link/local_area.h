// The shared memory of the local link, inside the slot segment of each process: what its peers may
// ask (epochs, keys), one inbound ring per sender, and the doorbell. Every word here can be changed
// by another process at any time; readers copy first and check the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "link/slot.h"
#include "link/staging.h"
#include "memory/region.h"

namespace verbena::link {

// Changes whenever LocalArea or the records in its rings change shape.
inline constexpr uint32_t kLocalAreaVersion = 3;

inline constexpr uint32_t kRingBytes = 256 * 1024;  // power of two; pages exist once touched
inline constexpr uint32_t kRegionSlots = memory::KeyTable::kMaxKeys;

// One sender, one receiver. Positions count bytes for ever; offset = position % kRingBytes.
struct Ring {
  alignas(64) std::atomic<uint64_t> tail;  // written by the sender: end of published records
  alignas(64) std::atomic<uint64_t> head;  // written by the receiver: end of consumed records
  alignas(64) uint8_t bytes[kRingBytes];
};

struct LocalArea {
  uint32_t version;
  // Set by the receiver before it sleeps; a sender that clears it writes the eventfd.
  alignas(64) std::atomic<uint32_t> sleeping;
  alignas(64) std::atomic<uint64_t> doorbell[kSlots / 64];  // bit = sender slot has published
  // Bumped when a queue pair stops being able to send, before its completions are delivered:
  // addresses sent under another epoch are refused by the receiver.
  alignas(4096) std::atomic<uint32_t> qp_epoch[65536];  // by the low 16 bits of the QPN
  // region_word() of the living rkey of each region index, key 0 when withdrawn: READ responses by
  // address. Withdrawing and publishing the same key again (ibv_rereg_mr) gives another word.
  alignas(4096) std::atomic<uint64_t> region[kRegionSlots];
  alignas(4096) Staging staging;     // payload of this process, for all its peers
  alignas(4096) Ring rings[kSlots];  // by sender slot
};
static_assert(sizeof(LocalArea) % 4096 == 0);

constexpr uint64_t region_word(uint32_t rkey, uint32_t epoch) {
  return uint64_t{rkey} << 32 | epoch;
}

inline uint32_t region_index(uint32_t rkey) {
  return memory::key_index(rkey);
}

}  // namespace verbena::link
