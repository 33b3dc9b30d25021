// The host page: one row per slot, written by the broker, read-only in every process. It tells who
// has a slot, since when, and whether two processes may exchange messages by address.
#pragma once

#include <atomic>
#include <cstdint>

#include "link/slot.h"

namespace verbena::link {

enum SlotFlags : uint32_t {
  kSlotAlive = 1,    // leased by a living process
  kSlotLocalOk = 2,  // lets its peers read registered memory (VERBENA_LOCAL, seccomp, Yama)
};

struct SlotRow {
  std::atomic<uint32_t> generation;  // counts the leases of this slot; 0 = never leased
  std::atomic<uint32_t> flags;       // SlotFlags
  std::atomic<int32_t> pid;          // in the process's own PID namespace
  std::atomic<uint32_t> uid;
  std::atomic<uint64_t> pid_namespace;  // inode of /proc/self/ns/pid
  std::atomic<uint64_t> access_class;   // equal in two processes that may read each other
  std::atomic<uint64_t> start_time;     // of the process, clock ticks since boot (proc(5) stat)
  uint64_t reserved[3];
};
static_assert(sizeof(SlotRow) == 64);

inline constexpr uint64_t kHostPageMagic = 0x31656761506f7356;  // "VsoPage1"

struct HostPage {
  uint64_t magic;
  uint64_t bytes;
  std::atomic<int32_t> broker_pid;   // as the broker sees itself
  std::atomic<int32_t> standby_pid;  // the process that takes over when the broker dies
  std::atomic<uint64_t> takeovers;   // times a standby became the broker
  uint64_t reserved[4];
  SlotRow rows[kSlots];
};
static_assert(sizeof(HostPage) == 64 + 64 * kSlots);

// May packets between two slots carry addresses instead of bytes? Both ends compute it from the
// same two rows, so both take the same road and count the same packets.
inline bool local_eligible(const HostPage& page, uint32_t a, uint32_t b) {
  if (!is_process_slot(a) || !is_process_slot(b)) return false;
  constexpr uint32_t kWanted = kSlotAlive | kSlotLocalOk;
  const SlotRow& x = page.rows[a];
  const SlotRow& y = page.rows[b];
  if ((x.flags.load(std::memory_order_acquire) & kWanted) != kWanted) return false;
  if ((y.flags.load(std::memory_order_acquire) & kWanted) != kWanted) return false;
  constexpr auto relaxed = std::memory_order_relaxed;
  return x.uid.load(relaxed) == y.uid.load(relaxed) &&
         x.pid_namespace.load(relaxed) == y.pid_namespace.load(relaxed) &&
         x.access_class.load(relaxed) == y.access_class.load(relaxed);
}

}  // namespace verbena::link
