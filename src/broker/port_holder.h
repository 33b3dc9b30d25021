// Who has UDP port 4791 when the broker cannot: the difference between "address in use" and a
// sentence the reader can act on.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace verbena::broker {

// The sockets on the port in this network namespace, as inode numbers (fstat(2) gives them too).
// None where /proc cannot be read.
std::set<uint64_t> sockets_on(uint16_t port);

// Names the programs and process ids found in /proc, or the kernel's rxe when the socket belongs to
// no process, and says what to do. Who has none but the sockets `except` is left out.
std::string describe_port_holder(uint16_t port, const std::set<uint64_t>& except = {});

// Whether somebody else has the port for certain: a process of another user, or the kernel. False
// where a process of this user has it, which may be one of ours whose broker has died.
bool held_by_strangers(uint16_t port);

}  // namespace verbena::broker
