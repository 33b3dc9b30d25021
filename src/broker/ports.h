// Which process of this host has which port of rdma_cm's port spaces: what a kernel keeps in one
// table, and what decides who gets a REQ. Soft state: after a broker's death the processes tell
// theirs again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "base/prng.h"
#include "base/result.h"
#include "broker/protocol.h"
#include "cm/manager.h"
#include "engine/address.h"

namespace verbena::broker {

class PortTable {
 public:
  static constexpr size_t kMaxPerSlot = cm::kMaxListeners;
  static constexpr uint16_t kFirstEphemeral = 32768, kLastEphemeral = 60999;  // as Linux chooses

  explicit PortTable(uint64_t seed) : prng_(seed) {}

  // Enters the service for the process at `slot`, or marks it as listening (kServiceListens). The
  // port it has now. Errors: EADDRINUSE; ENOSPC the process has kMaxPerSlot, or no ephemeral port
  // is free; EINVAL kServiceListens of a port that is not its own.
  Result<uint16_t> bind(uint32_t slot, const Service& service);
  void release(uint32_t slot, const Service& service, int64_t now_ms);
  void forget(uint32_t slot);

  // Whose service it is that listens at `address`: an exact address before any, one that listens
  // before one that is only bound.
  std::optional<uint32_t> owner(uint16_t space, uint16_t port, const engine::Gid& address) const;
  // Whether a listener of a process that is still there gave the port back less than kLeftMs ago.
  static constexpr int64_t kLeftMs = 500;
  static constexpr size_t kMaxLeft = 256;  // remembered
  bool just_left(uint16_t space, uint16_t port, int64_t now_ms) const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint32_t slot;
    Service service;
    bool listens;
  };
  static uint32_t key(uint16_t space, uint16_t port) { return uint32_t{space} << 16 | port; }
  bool is_free(const Service& service, bool listens, const Entry* self) const;
  Result<uint16_t> choose(Service service);
  Entry* find(uint32_t slot, const Service& service);

  std::unordered_multimap<uint32_t, Entry> entries_;
  std::unordered_map<uint32_t, size_t> counts_;  // by slot
  struct Left {
    uint32_t key, slot;
    int64_t at_ms;
  };
  std::deque<Left> left_;  // the oldest first
  Prng prng_;
};

}  // namespace verbena::broker
