// verbena fabric headroom: both vendors' formulas, term by term, and the proof by a run.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "scenario/headroom.h"
#include "scenario/units.h"
#include "sim/headroom_run.h"
#include "tools/fabric.h"
#include "tools/text_table.h"

namespace verbena::tools {
namespace {

constexpr uint64_t kLeastRate = 100'000'000, kMostRate = 800'000'000'000;
constexpr double kMostMetres = 200'000;

struct HeadroomOptions {
  std::string rate = "100G", cable = "100m", formula = "both";
  uint32_t mtu = 4096;
  uint32_t cell = 144;
  bool spectrum4 = false;
  bool prove = false;
};

struct Answer {
  const char* name;
  scenario::Headroom headroom;
};

void print(const char* name, const HeadroomOptions& options, const scenario::Headroom& headroom) {
  fmt::print("{}: {} at {}, MTU {}\n", name, options.cable, options.rate, options.mtu);
  for (const scenario::HeadroomTerm& term : headroom.terms)
    fmt::print("  {:<52}{:>12.0f}\n", term.what, term.bytes);
  fmt::print("  {:<52}{:>12}\n", "headroom (xoff), bytes", headroom.xoff_bytes);
  fmt::print("  {:<52}{:>12}\n", "xon, bytes", headroom.xon_bytes);
}

// The largest payload of a RoCE packet on a port of this MTU.
uint32_t path_mtu(uint32_t mtu) {
  uint32_t path = 4096;
  while (path > 256 && path > mtu) path /= 2;
  return path;
}

// Runs the worst case with each answer, with exactly what it needed, and with a byte less. 1 where
// a formula's answer loses frames.
int prove(const sim::HeadroomCase& in, const std::vector<Answer>& answers) {
  const auto needed = sim::headroom_needed(in);
  if (!needed) return complain("fabric headroom", needed.error().message, kFabricMisuse);
  std::vector<std::pair<std::string, uint64_t>> tried;
  for (const Answer& answer : answers) tried.emplace_back(answer.name, answer.headroom.xoff_bytes);
  tried.emplace_back("what it needed", *needed);
  tried.emplace_back("one byte less", *needed - 1);
  TextTable table({"headroom", "bytes", "used", "lossless frames lost"});
  bool lost = false;
  for (size_t i = 0; i < tried.size(); ++i) {
    const auto use = sim::headroom_use(in, tried[i].second);
    if (!use) return complain("fabric headroom", use.error().message, kFabricMisuse);
    lost = lost || (i < answers.size() && use->drops != 0);
    table.row({tried[i].first, fmt::to_string(tried[i].second), fmt::to_string(use->bytes),
               fmt::to_string(use->drops)});
  }
  fmt::print(
      "Run: payload of {} bytes in a packet, a sender that obeys after {:.2f} us (IEEE 802.3 "
      "31B.3.7),\na receiver that has stopped the switch for good\n{}",
      in.path_mtu, in.response_us, table.text());
  return lost ? kFindings : 0;
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
  std::vector<Answer> answers;
  if (options.formula != "mlx5") {
    scenario::SonicChip chip;
    chip.cell_bytes = options.cell;
    chip.spectrum4 = options.spectrum4;
    answers.push_back({"SONiC, Spectrum (buffer_headroom_mellanox.lua)",
                       scenario::sonic_headroom(*rate, *metres, options.mtu, chip)});
  }
  if (options.formula != "sonic")
    answers.push_back(
        {"Linux, mlx5_core (port_buffer.c)", scenario::mlx5_headroom(*rate, *metres, options.mtu)});
  for (const Answer& answer : answers) print(answer.name, options, answer.headroom);
  if (!options.prove) return 0;
  const double response_us =
      scenario::peer_response_bytes(*rate) * 8e6 / static_cast<double>(*rate);
  return prove({*rate, *metres, path_mtu(options.mtu), response_us}, answers);
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
  command->add_flag("--prove", options->prove,
                    "Run the worst case with each answer, and with the least that loses nothing");
  command->footer(
      "Exit status: 0, 1 when --prove shows an answer that loses frames, 2 for a value that is out "
      "of range.");
  command->callback([options, &invocation] {
    if (takes_no_program("fabric headroom", invocation)) invocation.status = headroom(*options);
  });
}

}  // namespace verbena::tools
