// Headroom by experiment: the worst that a lossless priority can meet, run packet by packet, so
// that a formula's answer can be held beside what really arrives after XOFF.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace verbena::sim {

struct HeadroomCase {
  uint64_t bits_per_second = 0;  // 100M..800G
  double metres = 0;             // of the cable, 0..200 000
  uint32_t path_mtu = 0;         // 256..4096 bytes of payload in a packet
  double response_us = 0;        // the sender may take so long to obey (IEEE 802.3 31B.3.7)
};

struct HeadroomUse {
  uint64_t bytes = 0;  // most that lay in the headroom
  uint64_t drops = 0;  // frames of the lossless class that found no room
};

// A sender at the rate of the link; its receiver pauses the switch for good, so nothing that
// arrives leaves again; and the pause that the switch then sends waits behind a frame of another
// class. Several runs, in each of which the moments fall differently within a frame: the most of
// all of them. An Error when no switch can have such a headroom.
Result<HeadroomUse> headroom_use(const HeadroomCase& in, uint64_t headroom_bytes);

// The least that loses nothing: what is used of plenty.
Result<uint64_t> headroom_needed(const HeadroomCase& in);

// The scenario of one of these runs, as TOML; `start_ps` is when the sender begins.
std::string headroom_scenario(const HeadroomCase& in, uint64_t headroom_bytes, int64_t start_ps);

}  // namespace verbena::sim
