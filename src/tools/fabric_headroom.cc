// verbena fabric headroom: both vendors' formulas, term by term.
#include <fmt/format.h>

#include <memory>

#include "scenario/headroom.h"
#include "scenario/units.h"
#include "tools/fabric.h"

namespace verbena::tools {
namespace {

constexpr uint64_t kLeastRate = 100'000'000, kMostRate = 800'000'000'000;
constexpr double kMostMetres = 200'000;

struct HeadroomOptions {
  std::string rate = "100G", cable = "100m", formula = "both";
  uint32_t mtu = 4096;
  uint32_t cell = 144;
  bool spectrum4 = false;
};

void print(const char* name, const HeadroomOptions& options, const scenario::Headroom& headroom) {
  fmt::print("{}: {} at {}, MTU {}\n", name, options.cable, options.rate, options.mtu);
  for (const scenario::HeadroomTerm& term : headroom.terms)
    fmt::print("  {:<52}{:>12.0f}\n", term.what, term.bytes);
  fmt::print("  {:<52}{:>12}\n", "headroom (xoff), bytes", headroom.xoff_bytes);
  fmt::print("  {:<52}{:>12}\n", "xon, bytes", headroom.xon_bytes);
}

int headroom(const HeadroomOptions& options) {
  const auto rate = scenario::parse_rate(options.rate);
  if (!rate || *rate < kLeastRate || *rate > kMostRate)
    return complain("fabric headroom",
                    fmt::format("--rate {}: write 100M to 800G, for example 100G", options.rate),
                    kFabricMisuse);
  const auto metres = scenario::parse_length(options.cable);
  if (!metres || *metres > kMostMetres)
    return complain("fabric headroom",
                    fmt::format("--cable {}: write 0m to 200km, for example 300m", options.cable),
                    kFabricMisuse);
  if (options.formula != "mlx5") {
    scenario::SonicChip chip;
    chip.cell_bytes = options.cell;
    chip.spectrum4 = options.spectrum4;
    print("SONiC, Spectrum (buffer_headroom_mellanox.lua)", options,
          scenario::sonic_headroom(*rate, *metres, options.mtu, chip));
  }
  if (options.formula != "sonic")
    print("Linux, mlx5_core (port_buffer.c)", options,
          scenario::mlx5_headroom(*rate, *metres, options.mtu));
  return 0;
}

}  // namespace

void add_fabric_headroom(CLI::App& fabric, Invocation& invocation) {
  auto options = std::make_shared<HeadroomOptions>();
  CLI::App* command = fabric.add_subcommand(
      "headroom", "Compute what a lossless priority needs behind its XOFF threshold");
  command->add_option("--rate", options->rate, "Of the link: 100G")->type_name("RATE");
  command->add_option("--cable", options->cable, "Its length: 300m")->type_name("LENGTH");
  command->add_option("--mtu", options->mtu, "Of the port, bytes")
      ->check(CLI::Range(64, 16384))
      ->type_name("BYTES");
  command->add_option("--formula", options->formula, "sonic, mlx5 or both")
      ->check(CLI::IsMember({"sonic", "mlx5", "both"}))
      ->type_name("NAME");
  command->add_option("--cell", options->cell, "SONiC: bytes of a buffer cell of the chip")
      ->check(CLI::Range(64, 1024))
      ->type_name("BYTES");
  command->add_flag("--spectrum4", options->spectrum4, "SONiC: Spectrum-4 and later");
  command->footer("Exit status: 0, 2 for a value that is out of range.");
  command->callback([options, &invocation] {
    if (takes_no_program("fabric headroom", invocation)) invocation.status = headroom(*options);
  });
}

}  // namespace verbena::tools
