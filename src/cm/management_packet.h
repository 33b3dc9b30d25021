// A management datagram on its way out: a UD SEND from queue pair 1 to queue pair 1 of the peer's
// address, with their well-known Q_Key (IBA 9.8.1, 13.5).
#pragma once

#include <cstdint>
#include <span>

#include "base/psn.h"
#include "cm/manager.h"
#include "engine/transfer.h"

namespace verbena::cm {

inline constexpr uint32_t kManagementQpn = 1;
inline constexpr uint32_t kManagementQkey = 0x80010000;

// Gives the MAD to `out` under the next PSN, always by the wire: whoever reads queue pair 1 of this
// host is no neighbour in shared memory. A full road loses it, as the wire might.
void send_mad(engine::PacketSink& out, const Route& route, std::span<const uint8_t, kMadBytes> mad,
              Psn& psn);

// Whether an arrived packet is one.
bool is_management(const engine::RxPacket& packet);

}  // namespace verbena::cm
