// The one system call of multicast membership, for the owner of a slot and for the broker that
// clears up behind a dead one.
#pragma once

#include <cstdint>

namespace verbena::broker {

// Joins or leaves `group` (GID form, ::ffff:a.b.c.d for IPv4) on the socket of its family;
// interface_index 0: the kernel chooses. 0 or errno; EAFNOSUPPORT without an IPv6 socket.
int change_membership(int udp4, int udp6, const uint8_t (&group)[16], uint32_t interface_index,
                      bool join);

}  // namespace verbena::broker
