// Slots: how the processes of one network namespace share one address and one UDP port. The top
// byte of a queue pair number names the process, so a three-instruction filter in the kernel is
// the demultiplexer (design decision 2).
#pragma once

#include <cstdint>

namespace verbena::link {

inline constexpr uint32_t kSlots = 256;
inline constexpr uint8_t kBrokerSlot = 0;  // queue pairs 0 and 1 fall there by arithmetic
inline constexpr uint8_t kFirstSlot = 1;   // leased to processes: 1 .. 254
inline constexpr uint8_t kLastSlot = 254;
inline constexpr uint8_t kMulticastSlot = 255;  // of engine::kMulticastQpn

constexpr uint8_t slot_of(uint32_t qpn) {
  return static_cast<uint8_t>(qpn >> 16);
}
constexpr uint32_t make_qpn(uint8_t slot, uint16_t index) {
  return uint32_t{slot} << 16 | index;
}
constexpr bool is_process_slot(uint32_t slot) {
  return slot >= kFirstSlot && slot <= kLastSlot;
}

}  // namespace verbena::link
