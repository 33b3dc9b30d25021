// How much buffer a lossless priority group needs behind its XOFF threshold: what the sender still
// sends until the pause reaches it and takes effect. Two formulas that are in use, each with the
// terms it adds up, so that a table can show where the bytes come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::scenario {

struct HeadroomTerm {
  std::string what;
  double bytes = 0;
};

struct Headroom {
  std::vector<HeadroomTerm> terms;
  uint64_t xoff_bytes = 0;  // headroom: what may arrive after XOFF
  uint64_t xon_bytes = 0;   // what the formula adds for XON, or where it puts it; see each formula
};

// What a SONiC platform says of its chip and its traffic (STATE_DB ASIC_TABLE, CONFIG_DB
// LOSSLESS_TRAFFIC_PATTERN). The defaults are those of a chip with 144-byte cells.
struct SonicChip {
  uint32_t cell_bytes = 144;
  uint32_t pipeline_latency_bytes = 18 * 1024;
  uint32_t mac_phy_bytes = 819;     // 0.8 KiB
  uint32_t lossless_mtu = 1024;     // bytes of the lossless packets
  double small_packet_share = 1.0;  // of packets that fill their cells worst
  uint32_t gearbox_ns = 0;
  bool spectrum4 = false;  // adds what lies on its tiles: 120 ns of the line
};

// SONiC's buffer_headroom_mellanox.lua (sonic-swss, cfgmgr): rounded up to 1 KiB; peer response by
// the quanta of IEEE 802.3 31B.3.7. `bits_per_second` 100M..800G, `metres` 0..200 000, `port_mtu`
// 64..16384 bytes. xon_bytes is its XON threshold.
Headroom sonic_headroom(uint64_t bits_per_second, double metres, uint32_t port_mtu,
                        const SonicChip& chip = {});

// The Linux driver mlx5_core (en/port_buffer.c): (301 + 2.16 metres) bytes for each Gb/s and 2.72
// MTUs, counted as at 40G at least. xon_bytes is the use at which the sender may go on.
Headroom mlx5_headroom(uint64_t bits_per_second, double metres, uint32_t mtu);

// How much a port may still send after a pause has reached it: the quanta of IEEE 802.3 31B.3.7 for
// its rate, in bytes.
double peer_response_bytes(uint64_t bits_per_second);

// As the HPCC simulator: three times the bytes that are on the cable.
Headroom hpcc_headroom(uint64_t bits_per_second, double delay_seconds);

}  // namespace verbena::scenario
