// Multicast groups are joined on the slot's own sockets; the segment keeps the list, so that the
// broker can leave them for a process that died.
#include "broker/multicast.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "broker/client.h"

namespace verbena::broker {

int change_membership(int udp4, int udp6, const uint8_t (&group)[16], uint32_t interface_index,
                      bool join) {
  ipv6_mreq six{};
  std::memcpy(&six.ipv6mr_multiaddr, group, 16);
  six.ipv6mr_interface = interface_index;
  if (IN6_IS_ADDR_V4MAPPED(&six.ipv6mr_multiaddr)) {
    ip_mreqn four{};
    std::memcpy(&four.imr_multiaddr, group + 12, 4);
    four.imr_ifindex = static_cast<int>(interface_index);
    int option = join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP;
    return ::setsockopt(udp4, IPPROTO_IP, option, &four, sizeof(four)) == 0 ? 0 : errno;
  }
  if (udp6 < 0) return EAFNOSUPPORT;
  int option = join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP;
  return ::setsockopt(udp6, IPPROTO_IPV6, option, &six, sizeof(six)) == 0 ? 0 : errno;
}

Result<void> Lease::join(const uint8_t (&group)[16], uint32_t interface_index) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_ || !attached_) return fail(ESTALE, "no slot to join a multicast group with");
  Membership* free_row = nullptr;
  for (Membership& row : segment_->header.memberships) {
    if (!row.used && !free_row) free_row = &row;
    if (row.used && row.interface_index == interface_index &&
        std::memcmp(row.group, group, sizeof(row.group)) == 0) {
      return {};
    }
  }
  if (!free_row) {
    return fail(ENOSPC,
                "a process can join " + std::to_string(kMaxMemberships) + " multicast groups");
  }
  std::memcpy(free_row->group, group, sizeof(free_row->group));
  free_row->interface_index = interface_index;
  free_row->used = 1;
  int error = change_membership(udp4_.get(), udp6_.get(), group, interface_index, true);
  if (error == 0) return {};
  free_row->used = 0;
  return fail(error, std::string("the kernel refused the multicast group: ") +
                         std::strerror(error) +
                         (error == ENOBUFS ? "; raise sysctl net.ipv4.igmp_max_memberships" : ""));
}

Result<void> Lease::leave(const uint8_t (&group)[16], uint32_t interface_index) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_ || !attached_) return fail(ESTALE, "no slot to leave a multicast group with");
  for (Membership& row : segment_->header.memberships) {
    if (!row.used || row.interface_index != interface_index ||
        std::memcmp(row.group, group, sizeof(row.group)) != 0) {
      continue;
    }
    int error = change_membership(udp4_.get(), udp6_.get(), group, interface_index, false);
    row.used = 0;
    if (error == 0) return {};
    return fail(error, std::string("cannot leave the multicast group: ") + std::strerror(error));
  }
  return fail(ENOENT, "this process has not joined the multicast group");
}

}  // namespace verbena::broker
