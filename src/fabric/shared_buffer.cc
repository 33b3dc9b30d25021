// Admission and thresholds; see shared_buffer.h.
#include "fabric/shared_buffer.h"

#include <algorithm>

namespace verbena::fabric {

SharedBuffer::SharedBuffer(const SwitchSettings& settings,
                           const std::vector<const PortSettings*>& ports)
    : groups_(ports.size() * kPriorities) {
  uint64_t set_apart = 0;
  for (size_t port = 0; port < ports.size(); ++port) {
    uint64_t port_headroom = 0;
    for (uint32_t g = 0; g < kPriorities; ++g) {
      const GroupSettings& from = ports[port]->groups[g];
      Group& group = groups_[port * kPriorities + g];
      group.reserved_limit = from.reserved_bytes;
      group.headroom_limit = from.lossless ? from.headroom_bytes : 0;
      group.xon_offset = from.xon_offset_bytes;
      group.static_bytes = from.static_bytes;
      group.alpha = from.alpha;
      group.lossless = from.lossless;
      group.dynamic = from.dynamic;
      for (uint8_t shift = 0; shift < 16; ++shift) {
        if (from.alpha * (1 << shift) != 1.0) continue;
        group.shift = shift;
        group.exact_shift = true;
      }
      set_apart += from.reserved_bytes;
      port_headroom = settings.headroom == SwitchSettings::kPerPort
                          ? std::max(port_headroom, group.headroom_limit)
                          : port_headroom + group.headroom_limit;
    }
    set_apart += port_headroom;
  }
  pool_ = settings.buffer_bytes > set_apart ? settings.buffer_bytes - set_apart : 0;
}

uint64_t SharedBuffer::threshold(const Group& group) const {
  if (!group.dynamic) return group.static_bytes;
  if (group.exact_shift) return free_shared() >> group.shift;
  return static_cast<uint64_t>(group.alpha * static_cast<double>(free_shared()));
}

uint64_t SharedBuffer::threshold(uint32_t port, uint32_t group) const {
  return threshold(at(port, group));
}

bool SharedBuffer::admit(uint32_t port, uint32_t g, uint32_t bytes) {
  Group& group = at(port, g);
  uint64_t wanted = group.bytes + bytes;
  if (wanted <= group.reserved_limit) {
    group.bytes = wanted;
  } else if (wanted - group.reserved_limit > std::min(threshold(group), pool_)) {
    if (group.headroom + bytes > group.headroom_limit) return false;
    group.headroom += bytes;
    group.most_headroom = std::max(group.most_headroom, group.headroom);
  } else {
    uint64_t more = std::min<uint64_t>(bytes, wanted - group.reserved_limit);
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
  uint64_t rest = bytes - from_headroom;
  shared_used_ -= std::min(rest, group.shared());
  group.bytes -= rest;
}

bool SharedBuffer::over(uint32_t port, uint32_t g) const {
  const Group& group = at(port, g);
  return group.headroom > 0 || (group.lossless && group.shared() >= threshold(group) &&
                                group.bytes > group.reserved_limit);
}

bool SharedBuffer::under(uint32_t port, uint32_t g) const {
  const Group& group = at(port, g);
  uint64_t shared = group.shared();
  return group.headroom == 0 && (shared == 0 || shared + group.xon_offset <= threshold(group));
}

}  // namespace verbena::fabric
