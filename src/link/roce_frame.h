// A packet's meaning as the Ethernet frame that a capture holds: for the pcap lens and for captures
// in a simulated fabric.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/transfer.h"
#include "wire/frame.h"

namespace verbena::link {

// Locally administered, from the address, so that both directions agree. Writes 6 bytes.
void put_mac(uint8_t* to, const engine::Gid& gid);

// Appends Ethernet header .. ICRC (no FCS) of a packet whose first `shown` bytes of payload are in
// it; a payload that has a length but no segments is zeros. False, and nothing usable appended: the
// payload's owner took it back.
bool append_frame(std::vector<uint8_t>& to, const wire::Packet& header,
                  const memory::Payload& payload, uint32_t shown, const engine::Gid& source,
                  const engine::Gid& destination, const wire::DatagramHeaders& headers);

}  // namespace verbena::link
