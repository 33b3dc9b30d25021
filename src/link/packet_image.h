// A packet in shared memory: wire::Packet with a fixed layout and no type that has forbidden
// values, because another process may write any bytes here.
#pragma once

#include <cstdint>

#include "wire/packet.h"

namespace verbena::link {

struct PacketImage {
  uint8_t opcode;
  uint8_t flags;  // kSolicited ...
  uint8_t pad_count;
  uint8_t syndrome;
  uint16_t pkey;
  uint16_t reserved;
  uint32_t dest_qpn;
  uint32_t psn;
  uint64_t address;  // RETH or AtomicETH
  uint32_t rkey;
  uint32_t length;
  uint64_t swap_add;
  uint64_t compare;
  uint64_t atomic_original;
  uint32_t msn;
  uint32_t immediate_be;
  uint32_t invalidate_rkey;
  uint32_t qkey;
  uint32_t source_qpn;
  uint32_t xrc_srqn;
  uint8_t placement;
  uint8_t selectivity;
  uint8_t reserved2[6];
};
static_assert(sizeof(PacketImage) == 88);

PacketImage image_of(const wire::Packet& packet);

// False: an opcode that is none. Otherwise every field of `to` is within its bits, and fields of
// headers the opcode does not list are zero, as after wire::parse().
bool packet_of(const PacketImage& image, wire::Packet& to);

}  // namespace verbena::link
