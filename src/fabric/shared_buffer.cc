// Admission and thresholds; see shared_buffer.h.
#include "fabric/shared_buffer.h"

#include <algorithm>
#include <map>

namespace verbena::fabric {

SharedBuffer::Limits SharedBuffer::limits_from(const GroupSettings& settings) {
  Limits limits;
  limits.reserved = settings.reserved_bytes;
  limits.headroom = settings.lossless ? settings.headroom_bytes : 0;
  limits.xon_offset = settings.xon_offset_bytes;
  limits.static_bytes = settings.static_bytes;
  limits.alpha = settings.alpha;
  limits.lossless = settings.lossless;
  limits.dynamic = settings.dynamic;
  for (uint8_t shift = 0; shift < 16; ++shift) {
    if (settings.alpha * (1 << shift) != 1.0) continue;
    limits.shift = shift;
    limits.exact_shift = true;
  }
  return limits;
}

SharedBuffer::SharedBuffer(const SwitchSettings& settings,
                           const std::vector<const PortSettings*>& ports)
    : groups_(ports.size() * kPriorities), most_headroom_(groups_.size()) {
  uint64_t set_apart = 0;
  std::map<const PortSettings*, uint16_t> known;
  for (const PortSettings* port : ports) {
    auto [entry, fresh] = known.try_emplace(port, static_cast<uint16_t>(known.size()));
    limits_of_.push_back(entry->second);
    uint64_t port_headroom = 0;
    for (uint32_t g = 0; g < kPriorities; ++g) {
      Limits limits = limits_from(port->groups[g]);
      set_apart += limits.reserved;
      port_headroom = settings.headroom == SwitchSettings::kPerPort
                          ? std::max(port_headroom, limits.headroom)
                          : port_headroom + limits.headroom;
      if (fresh) limits_.push_back(limits);
    }
    set_apart += port_headroom;
    if (settings.headroom != SwitchSettings::kPerPort) continue;
    port_headroom_.push_back(0);
    port_limit_.push_back(port_headroom);
  }
  pool_ = settings.buffer_bytes > set_apart ? settings.buffer_bytes - set_apart : 0;
}

uint64_t SharedBuffer::threshold(const Limits& limits) const {
  if (!limits.dynamic) return limits.static_bytes;
  if (limits.exact_shift) return free_shared() >> limits.shift;
  return static_cast<uint64_t>(limits.alpha * static_cast<double>(free_shared()));
}

uint64_t SharedBuffer::threshold(uint32_t port, uint32_t group) const {
  return threshold(limits(port, group));
}

bool SharedBuffer::admit(uint32_t port, uint32_t g, uint32_t bytes) {
  Group& group = at(port, g);
  const Limits& limit = limits(port, g);
  uint64_t wanted = group.bytes + bytes;
  if (wanted <= limit.reserved) {
    group.bytes = wanted;
  } else if (wanted - limit.reserved > std::min(threshold(limit), pool_)) {
    if (group.headroom + bytes > limit.headroom) return false;
    if (!port_limit_.empty()) {
      if (port_headroom_[port] + bytes > port_limit_[port]) return false;
      port_headroom_[port] += bytes;
    }
    group.headroom += bytes;
    uint64_t& most = most_headroom_[port * kPriorities + g];
    most = std::max(most, group.headroom);
  } else {
    uint64_t more = std::min<uint64_t>(bytes, wanted - limit.reserved);
    if (more > free_shared()) return false;
    group.bytes = wanted;
    shared_used_ += more;
  }
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
  return true;
}

void SharedBuffer::release(uint32_t port, uint32_t g, uint32_t bytes) {
  Group& group = at(port, g);
  used_ -= bytes;
  uint64_t from_headroom = std::min<uint64_t>(group.headroom, bytes);
  group.headroom -= from_headroom;
  if (!port_limit_.empty()) port_headroom_[port] -= from_headroom;
  uint64_t rest = bytes - from_headroom;
  shared_used_ -= std::min(rest, limits(port, g).shared(group));
  group.bytes -= rest;
}

bool SharedBuffer::over(uint32_t port, uint32_t g) const {
  const Group& group = at(port, g);
  const Limits& limit = limits(port, g);
  return group.headroom > 0 || (limit.lossless && limit.shared(group) >= threshold(limit) &&
                                group.bytes > limit.reserved);
}

bool SharedBuffer::under(uint32_t port, uint32_t g) const {
  const Group& group = at(port, g);
  const Limits& limit = limits(port, g);
  uint64_t shared = limit.shared(group);
  return group.headroom == 0 && (shared == 0 || shared + limit.xon_offset <= threshold(limit));
}

}  // namespace verbena::fabric
