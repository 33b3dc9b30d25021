// Who has UDP port 4791 when the broker cannot: the difference between "address in use" and a
// sentence the reader can act on.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::broker {

// Names the program and process id found in /proc, or the kernel's rxe when the socket belongs to
// no process, and says what to do.
std::string describe_port_holder(uint16_t port);

}  // namespace verbena::broker
