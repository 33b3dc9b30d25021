// The SO_REUSEPORT groups on 0.0.0.0:4791 and [::]:4791: socket k of each group serves slot k. The
// kernel moves the last socket into a hole, so once made they live as long as the broker does.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "link/fd.h"

namespace verbena::broker {

struct SlotSockets {
  link::Fd udp4;
  link::Fd udp6;  // not valid where the kernel has no IPv6
};

class SocketGroup {
 public:
  // Makes the groups with slot 0's sockets. Fails with EADDRINUSE and the holder's name when
  // anybody, of whatever uid, has the port.
  Result<void> open(uint16_t port);
  // The same behind the sockets of a group that has lost its order, all of which are `former` and
  // stay here unread, so that the order lasts: slot k's is as many further behind. Makes the
  // sockets of all slots up to `last`.
  Result<void> open_behind(uint16_t port, std::vector<SlotSockets> former, uint32_t last);
  // Makes the sockets of all slots up to `slot`.
  Result<void> grow_to(uint32_t slot);
  // Takes sockets made elsewhere; they must be of slot size().
  void adopt(SlotSockets sockets) { sockets_.push_back(std::move(sockets)); }

  uint16_t port() const { return port_; }
  size_t size() const { return sockets_.size(); }
  const SlotSockets& at(uint32_t slot) const { return sockets_[slot]; }

  // Throws away what arrived for the process that had the slot before. Returns datagrams dropped.
  size_t drain(uint32_t slot);

 private:
  Result<SlotSockets> make_sockets();
  Result<void> steer();

  uint16_t port_ = 0;
  bool has_ipv6_ = false;
  std::vector<SlotSockets> former_;
  std::vector<SlotSockets> sockets_;
};

}  // namespace verbena::broker
