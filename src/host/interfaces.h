// The network interfaces of this network namespace as the device model needs them, read without
// privileges and without /sys (a container's /sys may belong to another namespace).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/address.h"

namespace verbena::host {

inline constexpr size_t kMaxInterfaces = 4096;
inline constexpr size_t kMaxAddresses = 256;  // of one interface; further ones are left out

struct InterfaceAddress {
  engine::Gid gid;            // the address as a GID
  uint8_t prefix_length = 0;  // of the address in its own family: 0..32 or 0..128
  bool link_local() const { return gid.is_link_local(); }
};

struct Interface {
  std::string name;
  uint32_t ifindex = 0;
  uint32_t mtu = 0;  // bytes
  bool up = false;
  bool running = false;  // has a carrier
  bool loopback = false;
  std::array<uint8_t, 6> mac{};
  std::vector<InterfaceAddress> addresses;  // in the kernel's order
};

// Every interface, by ifindex. Errors: the errno of getifaddrs or socket.
Result<std::vector<Interface>> read_interfaces();

}  // namespace verbena::host
