// Protection domains, memory regions and windows, and the one place where a key, a range and a
// permission are checked (room "Cellar"). Nothing else in Verbena turns a remote address into a
// pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/prng.h"

namespace verbena::memory {

// Bits as in enum ibv_access_flags.
enum Access : uint32_t {
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kMwBind = 16,
  kZeroBased = 32,
  kOnDemand = 64,
  kHugeTlb = 128,
  kFlushGlobal = 256,
  kFlushPersistent = 512,
  kRelaxedOrdering = 1u << 20,
};

// Identity only: objects belong to the same domain when they hold the same pointer. `users` counts
// everything created in it; deallocating is refused (EBUSY) while it is not 0.
struct ProtectionDomain {
  uint32_t handle = 0;
  uint32_t users = 0;
};

enum class Backing : uint8_t {
  kHost,      // ordinary memory of this process, present since registration
  kOnDemand,  // may be unmapped at any time: populate() before every access
  kNull,      // reads give zeros, writes are discarded (ibv_alloc_null_mr)
};

struct MemoryRegion {
  ProtectionDomain* domain = nullptr;
  uint32_t key = 0;     // lkey and rkey
  uint32_t serial = 0;  // of this registration: keys come again, serials after 2^32 of them
  uint64_t iova = 0;    // the address peers and SGEs use for the first byte
  uint64_t length = 0;  // bytes; UINT64_MAX with base 0 is the implicit on-demand region
  uint8_t* base = nullptr;
  uint32_t access = 0;
  Backing backing = Backing::kHost;
  uint32_t bound_windows = 0;
};

struct MemoryWindow {
  ProtectionDomain* domain = nullptr;
  uint32_t key = 0;
  uint32_t serial = 0;             // of this allocation; binding changes the key, never this
  uint8_t type = 1;                // 1 or 2 (2B: bound to one queue pair)
  MemoryRegion* region = nullptr;  // null: not bound
  uint64_t address = 0;
  uint64_t length = 0;
  uint32_t access = 0;
  uint32_t qpn = 0;  // type 2: the queue pair it was bound on

  void unbind() {
    if (region) --region->bound_windows;
    region = nullptr;
    length = 0;
  }
};

// Why an access was refused. kNone: allowed.
enum class KeyError : uint8_t {
  kNone,
  kUnknownKey,
  kOtherDomain,
  kOtherQueuePair,
  kNotBound,
  kNoPermission,
  kOutOfRange,
  kNotPresent,  // not mapped now: on-demand memory, or the program unmapped what it registered
};
const char* describe(KeyError error);

// Makes the pages of a range present, writable when `write`; false when the range is not mapped so.
// Supplied by the host (a system call); null means "always present" (simulation).
using Populate = bool (*)(uint8_t* address, size_t length, bool write);

struct Grant {  // one checked access: where the bytes are
  KeyError error = KeyError::kUnknownKey;
  uint8_t* address = nullptr;
  Backing backing = Backing::kHost;
  uint32_t region_key = 0;  // of the region itself, also when a window led to it
};

class KeyTable {
 public:
  explicit KeyTable(uint64_t seed, Populate populate = nullptr)
      : prng_(seed), populate_(populate) {}

  // Gives the object a fresh key: 20 bits of index, 12 random bits (4 above, 8 below), so that a
  // peer cannot guess a neighbour's, and a fresh serial. 0 when all kMaxKeys indices are in use.
  uint32_t insert(MemoryRegion* region);
  uint32_t insert(MemoryWindow* window);
  void remove(uint32_t key);
  // Replaces the low 8 bits (consumer part) of a window's key at bind; 0 when it has no key here.
  uint32_t rekey(MemoryWindow* window, uint8_t consumer_bits);

  MemoryRegion* find_region(uint32_t key) const;
  MemoryWindow* find_window(uint32_t key) const;

  // SGE check (IBA 10.6.3): lkey known, same domain, local write if `write`, range inside.
  Grant check_local(uint32_t lkey, const ProtectionDomain* domain, uint64_t address,
                    uint64_t length, bool write) const;
  // Remote check (IBA 9.7.4.1.6, 10.6.7): rkey of a region or bound window, domain or queue pair,
  // every bit of `needed`, range inside without 64-bit wrap.
  // `touch` false: whether the bytes are present is not asked; whoever accesses them will.
  Grant check_remote(uint32_t rkey, const ProtectionDomain* domain, uint32_t qpn, uint64_t address,
                     uint64_t length, uint32_t needed, bool touch = true) const;

  static constexpr uint32_t kMaxKeys = 1u << 20;

 private:
  struct Entry {
    uint32_t key = 0;
    MemoryRegion* region = nullptr;
    MemoryWindow* window = nullptr;
  };
  Entry* claim();
  uint32_t next_serial() { return ++serial_ != 0 ? serial_ : ++serial_; }  // never 0
  const Entry* find(uint32_t key) const;
  Grant within(const MemoryRegion& region, uint64_t offset, uint64_t length, bool write,
               bool touch) const;

  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  uint32_t serial_ = 0;
  Prng prng_;
  Populate populate_;
};

inline uint32_t key_index(uint32_t key) {
  return (key >> 8) & (KeyTable::kMaxKeys - 1);
}

}  // namespace verbena::memory
