// Builds the fabric as a scenario's text, so that a user can have it as a file and change it.
#include "sim/headroom_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenario/scenario.h"
#include "scenario/units.h"
#include "sim/experiment.h"

namespace verbena::sim {
namespace {

constexpr uint32_t kLossless = 3;
constexpr uint32_t kStarts = 8;
constexpr uint32_t kFrameAround = 82;    // headers, checks, gap: of a longest packet
constexpr uint64_t kThreshold = 32'000;  // XOFF
constexpr uint64_t kRest = 4'000'000;    // of the buffer, beside two headrooms

// One frame of the case on its link.
double frame_ps(const HeadroomCase& in) {
  return (in.path_mtu + kFrameAround) * 8e12 / static_cast<double>(in.bits_per_second);
}

// Until the pause has long taken effect.
double duration_us(const HeadroomCase& in) {
  const double threshold_us = kThreshold * 8e6 / static_cast<double>(in.bits_per_second);
  return 2 * threshold_us + 6 * in.metres * scenario::kCablePsPerMetre / 1e6 + 2 * in.response_us +
         20 * frame_ps(in) / 1e6 + 10;
}

}  // namespace

std::string headroom_scenario(const HeadroomCase& in, uint64_t headroom_bytes, int64_t start_ps) {
  return fmt::format(
      "# What arrives after XOFF at worst: h0 sends as fast as it can, h1 has stopped the switch\n"
      "# for good, and frames of another class keep the pause waiting.\n"
      "[scenario]\nduration = \"{:.0f}ns\"\n\n"
      "[topology]\nkind = \"star\"\nhosts = 2\nrate = \"{}bps\"\ncable = \"{}m\"\n\n"
      "[switch]\nbuffer = \"{}B\"\n\n[switch.pfc]\npriorities = [{}]\n\n"
      "[switch.group]\nheadroom = \"{}B\"\nstatic = \"{}B\"\n\n"
      "[host]\npath_mtu = \"{}B\"\ncongestion = \"none\"\ntimeout = 0\n\n"
      "[host.pfc]\npriorities = [{}]\nresponse = \"{:.0f}ns\"\n\n"
      "[host.h1.storm]\npriorities = [{}]\n\n"
      "[[flow]]\nfrom = 0\nto = 1\nstart = \"{}ps\"\n\n"
      "[[flow]]\nfrom = 1\nto = 0\ndscp = 0\npriority = 0\n",
      duration_us(in) * 1000, in.bits_per_second, std::max(in.metres, 0.1),
      2 * headroom_bytes + kRest, kLossless, headroom_bytes, kThreshold, in.path_mtu, kLossless,
      in.response_us * 1000, kLossless, start_ps);
}

Result<HeadroomUse> headroom_use(const HeadroomCase& in, uint64_t headroom_bytes) {
  HeadroomUse worst;
  for (uint32_t i = 0; i < kStarts; ++i) {
    const auto start = static_cast<int64_t>(frame_ps(in) * i / kStarts);
    const auto scenario =
        scenario::parse_scenario("headroom", headroom_scenario(in, headroom_bytes, start), {});
    if (!scenario) return tl::unexpected(scenario.error());
    Experiment experiment(*scenario);
    experiment.run();
    const fabric::Network& network = experiment.network();
    worst.bytes = std::max(worst.bytes, network.switch_at(0).buffer().most_headroom(0, kLossless));
    uint64_t drops = 0;
    for (fabric::PortId id = 0; id < network.ports(); ++id)
      drops += network.port(id).counters.lossless_drops;
    worst.drops = std::max(worst.drops, drops);
  }
  return worst;
}

Result<uint64_t> headroom_needed(const HeadroomCase& in) {
  const double under_way_us =
      2 * in.metres * scenario::kCablePsPerMetre / 1e6 + in.response_us + 10 * frame_ps(in) / 1e6;
  const double plenty = 2 * under_way_us * static_cast<double>(in.bits_per_second) / 8e6;
  const auto use = headroom_use(in, static_cast<uint64_t>(plenty));
  if (!use) return tl::unexpected(use.error());
  return use->bytes;
}

}  // namespace verbena::sim
