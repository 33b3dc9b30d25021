// Who has UDP port 4791 when the broker cannot: the difference between "address in use" and a
// sentence the reader can act on.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::broker {

// Names the program and process id found in /proc, or the kernel's rxe when the socket belongs to
// no process, and says what to do.
std::string describe_port_holder(uint16_t port);

// Whether somebody else has the port for certain: a process of another user, or the kernel. False
// where a process of this user has it, which may be one of ours whose broker has died.
bool held_by_strangers(uint16_t port);

}  // namespace verbena::broker
