// The formulas as their sources compute them, mixed units included: SONiC's counts 1024 bits to the
// kilobit for what is on the cable.
#include "scenario/headroom.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace verbena::scenario {
namespace {

constexpr double kKib = 1024;
constexpr double kLightInCable = 1.98e8;  // metres a second
constexpr uint32_t kSmallestPacket = 64;

double cell_factor(const SonicChip& chip) {
  const double cell = chip.cell_bytes;
  const double worst = cell > 2 * kSmallestPacket ? cell / kSmallestPacket : 2 * cell / (1 + cell);
  return 1 - chip.small_packet_share + chip.small_packet_share * worst;
}

uint64_t whole_kib(double bytes) {
  return static_cast<uint64_t>(std::ceil(bytes / kKib)) * 1024;
}

}  // namespace

double peer_response_bytes(uint64_t bits_per_second) {
  struct Response {
    uint64_t mbps;
    uint32_t quanta;  // of 512 bit times
  };
  constexpr Response kResponses[] = {{100, 1},       {1'000, 2},     {10'000, 67},
                                     {25'000, 80},   {40'000, 118},  {50'000, 147},
                                     {100'000, 394}, {200'000, 453}, {400'000, 905}};
  for (const Response& entry : kResponses)
    if (bits_per_second / 1'000'000 <= entry.mbps) return entry.quanta * 512.0 / 8;
  return 905 * 512.0 / 8;
}

Headroom sonic_headroom(uint64_t bits_per_second, double metres, uint32_t port_mtu,
                        const SonicChip& chip) {
  const uint64_t mbps = bits_per_second / 1'000'000;
  const auto speed = static_cast<double>(mbps);
  const double on_cable = 2 * metres * speed * 1e9 / kLightInCable / (8 * kKib);
  const double gearbox = 2 * speed * chip.gearbox_ns / (8 * kKib);
  const double tile = chip.spectrum4 ? speed / 1000 * 120 / 8 : 0;
  const double response = peer_response_bytes(bits_per_second);
  const double once = port_mtu + on_cable + gearbox + chip.mac_phy_bytes + response + tile;
  const double factor = cell_factor(chip);
  Headroom result;
  result.terms = {
      {"lossless packet", static_cast<double>(chip.lossless_mtu)},
      {"frame that the port was sending", static_cast<double>(port_mtu)},
      {"on the cable, there and back", on_cable},
      {"gearboxes", gearbox},
      {"MAC and PHY", static_cast<double>(chip.mac_phy_bytes)},
      {"until the peer obeys", response},
      {"on the tile", tile},
      {fmt::format("cells of {} bytes, filled worst (x {:.3g})", chip.cell_bytes, factor),
       once * (factor - 1)}};
  std::erase_if(result.terms, [](const HeadroomTerm& term) { return term.bytes == 0; });
  result.xoff_bytes = whole_kib(chip.lossless_mtu + once * factor);
  result.xon_bytes = whole_kib(chip.pipeline_latency_bytes);
  return result;
}

Headroom mlx5_headroom(uint64_t bits_per_second, double metres, uint32_t mtu) {
  const double gbps = std::max(static_cast<double>(bits_per_second) / 1e9, 40.0);
  Headroom result;
  result.terms = {{"until the peer obeys (301 bytes for each Gb/s)", 301 * gbps},
                  {"on the cable (2.16 bytes for each metre and Gb/s)", 2.16 * metres * gbps},
                  {"frames (2.72 MTUs)", 2.72 * mtu}};
  double sum = 0;
  for (const HeadroomTerm& term : result.terms) sum += term.bytes;
  result.xoff_bytes = static_cast<uint64_t>(std::ceil(sum));
  const uint64_t frame = std::max<uint64_t>(mtu, 9216);
  result.xon_bytes = result.xoff_bytes > frame ? result.xoff_bytes - frame : 0;
  return result;
}

Headroom hpcc_headroom(uint64_t bits_per_second, double delay_seconds) {
  const double on_cable = static_cast<double>(bits_per_second) * delay_seconds / 8;
  Headroom result;
  result.terms = {{"on the cable, three times", 3 * on_cable}};
  result.xoff_bytes = static_cast<uint64_t>(std::llround(3 * on_cable));
  return result;
}

}  // namespace verbena::scenario
