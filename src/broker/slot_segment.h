// The slot segment: memory a process makes when it takes a slot and shares with its neighbours on
// the same host. Header for the broker, counters for the curious, rings for the local link.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "broker/connection_rows.h"
#include "broker/counters_page.h"
#include "link/local_area.h"

namespace verbena::broker {

inline constexpr uint64_t kSegmentMagic = 0x31746c5361626556;  // "VebaSlt1"
inline constexpr uint32_t kMaxMemberships = 64;

// A multicast group joined on the slot's own sockets. Written before the join and cleared after
// the leave, so that the broker can leave it for a process that died: the socket lives on.
struct Membership {
  uint8_t group[16];  // GID form: IPv4 as ::ffff:a.b.c.d
  uint32_t interface_index;
  uint32_t used;
};

struct SegmentHeader {
  uint64_t magic;
  uint64_t bytes;
  uint32_t slot;
  std::atomic<uint32_t> generation;
  std::atomic<uint32_t> released;  // 1: the owner gave the slot back (broker unreachable then)
  uint32_t reserved;
  Membership memberships[kMaxMemberships];
};

struct SlotSegment {
  SegmentHeader header;
  alignas(4096) CountersPage counters;
  alignas(4096) ConnectionRows connections;
  alignas(4096) link::LocalArea local;
};
static_assert(sizeof(SegmentHeader) <= 4096);

inline constexpr size_t kSegmentBytes = sizeof(SlotSegment);

}  // namespace verbena::broker
