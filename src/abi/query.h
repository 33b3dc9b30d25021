// Figures of the port that other families need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::abi {

// Bytes of ibv_dm a context may hold, reported as max_dm_size.
inline constexpr size_t kMaxDeviceMemory = 256 * 1024;

// Queue pairs that may attach to one multicast group, reported as max_mcast_qp_attach.
inline constexpr uint32_t kMulticastQpAttach = 256;

// The ibv_mtu code (1..5) of the largest path MTU not above `bytes`.
uint8_t path_mtu_code(uint32_t bytes);

}  // namespace verbena::abi
