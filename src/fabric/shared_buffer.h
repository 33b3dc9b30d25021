// The packet memory of a switch as its ingress side sees it: for each port and priority group what
// is reserved, what it has of the shared pool, what of its headroom. A lossless group asks its
// sender to stop when the shared part reaches the threshold; what is still under way then goes to
// the headroom. Dynamic thresholds: Choudhury and Hahne 1998; a threshold is alpha times the free
// part of the pool.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/settings.h"

namespace verbena::fabric {

class SharedBuffer {
 public:
  // `ports`: the settings of each port of the switch, in order.
  SharedBuffer(const SwitchSettings& settings, const std::vector<const PortSettings*>& ports);

  // Takes `bytes` that came in at `port` for `group`. False: no room, drop them.
  bool admit(uint32_t port, uint32_t group, uint32_t bytes);
  void release(uint32_t port, uint32_t group, uint32_t bytes);

  // XOFF is due: the group has reached its threshold or uses headroom. XON is due: it uses none and
  // lies far enough below.
  bool over(uint32_t port, uint32_t group) const;
  bool under(uint32_t port, uint32_t group) const;

  uint64_t threshold(uint32_t port, uint32_t group) const;  // bytes of the shared pool
  uint64_t pool() const { return pool_; }                   // B': bytes that are shared at all
  uint64_t shared_used() const { return shared_used_; }
  uint64_t free_shared() const { return pool_ > shared_used_ ? pool_ - shared_used_ : 0; }
  uint64_t used() const { return used_; }
  uint64_t most_used() const { return most_used_; }
  uint64_t bytes(uint32_t port, uint32_t group) const {
    const Group& g = at(port, group);
    return g.bytes + g.headroom;
  }
  uint64_t headroom_used(uint32_t port, uint32_t group) const { return at(port, group).headroom; }
  uint64_t most_headroom(uint32_t port, uint32_t group) const {
    return most_headroom_[port * kPriorities + group];
  }

 private:
  // What changes with every frame, kept small; and what ports of equal settings share.
  struct Group {
    uint64_t bytes = 0;  // reserved and shared part
    uint64_t headroom = 0;
  };
  struct Limits {
    uint64_t reserved = 0;
    uint64_t headroom = 0;
    uint64_t xon_offset = 0;
    uint64_t static_bytes = 0;
    double alpha = 0;
    uint8_t shift = 0;  // alpha is 2^-shift: thresholds without floating point
    bool exact_shift = false;
    bool lossless = false;
    bool dynamic = false;
    uint64_t shared(const Group& group) const {
      return group.bytes > reserved ? group.bytes - reserved : 0;
    }
  };
  static Limits limits_from(const GroupSettings& settings);
  const Group& at(uint32_t port, uint32_t group) const {
    return groups_[port * kPriorities + group];
  }
  Group& at(uint32_t port, uint32_t group) { return groups_[port * kPriorities + group]; }
  const Limits& limits(uint32_t port, uint32_t group) const {
    return limits_[limits_of_[port] * kPriorities + group];
  }
  uint64_t threshold(const Limits& limits) const;

  std::vector<Group> groups_;            // by port and group
  std::vector<uint64_t> most_headroom_;  // likewise
  std::vector<uint64_t> port_headroom_;  // used; by port, where its groups share one (kPerPort)
  std::vector<uint64_t> port_limit_;
  std::vector<Limits> limits_;
  std::vector<uint16_t> limits_of_;  // by port: which eight of them
  uint64_t pool_ = 0;
  uint64_t shared_used_ = 0;
  uint64_t used_ = 0;
  uint64_t most_used_ = 0;
};

}  // namespace verbena::fabric
