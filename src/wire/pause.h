// Pause frames as they are on the wire: MAC control, IEEE 802.3 annex 31; priority flow control
// (IEEE 802.1Qbb) is its annex 31D.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"

namespace verbena::wire {

inline constexpr uint16_t kEtherTypeMacControl = 0x8808;

struct PfcHeader {
  be16 opcode;        // kPfcOpcode
  be16 class_vector;  // priorities that `quanta` is about, bit p
  be16 quanta[8];     // 512 bit times each; 0 lets go
};
static_assert(sizeof(PfcHeader) == 20);
inline constexpr uint16_t kPfcOpcode = 0x0101;

struct LinkPauseHeader {
  be16 opcode;  // kLinkPauseOpcode
  be16 quanta;
};
static_assert(sizeof(LinkPauseHeader) == 4);
inline constexpr uint16_t kLinkPauseOpcode = 0x0001;

inline constexpr size_t kPfcFrameBytes = 60;  // either; with its padding, without the FCS
// Writes the frame that stops or lets go the priorities of `mask`. `source`: the MAC address of the
// port that sends it; `quanta`: of all 8 priorities, those outside `mask` are written as 0.
void emit_pfc(std::span<uint8_t, kPfcFrameBytes> to, std::span<const uint8_t, 6> source,
              uint8_t mask, std::span<const uint16_t, 8> quanta);

// Likewise for everything on the link (annex 31B).
void emit_link_pause(std::span<uint8_t, kPfcFrameBytes> to, std::span<const uint8_t, 6> source,
                     uint16_t quanta);

}  // namespace verbena::wire
