// verbena sim: a fabric in a file, run, and what came out.
#include "tools/sim.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tools/command.h"

namespace verbena::tools {

namespace {

constexpr int kUnmet = 1, kMisuse = 2, kInterruptStatus = 130;

Result<std::vector<scenario::Override>> overrides_of(const SimOptions& options) {
  std::vector<scenario::Override> out;
  for (const std::string& text : options.sets) {
    auto change = split_assignment("--set", text);
    if (!change) return tl::unexpected(change.error());
    out.push_back(*change);
  }
  return out;
}

int status_of(const SimRun& run) {
  if (run.end == SimRun::kInterrupted) return kInterruptStatus;
  return run.unmet.empty() ? 0 : kUnmet;
}

int simulate(const SimOptions& options) {
  auto overrides = overrides_of(options);
  if (!overrides) return complain("sim", overrides.error().message, kMisuse);
  std::vector<scenario::Override> all = *overrides;
  if (!options.seed.empty()) all.push_back({"scenario.seed", options.seed});
  auto scenario = scenario::read_scenario(options.file, all);
  if (!scenario) return complain("sim", scenario.error().message, kMisuse);

  obey_interrupts();
  SimRun run;
  run.overrides = *overrides;
  run.experiment = std::make_unique<sim::Experiment>(*scenario);
  run_to_end(run, !options.quiet && isatty(STDERR_FILENO) != 0);
  if (!options.quiet) fmt::print("{}", sim_text(run));
  return status_of(run);
}

}  // namespace

Result<scenario::Override> split_assignment(const char* option, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail(EINVAL, fmt::format("{} {}: write KEY=VALUE", option, text));
  return scenario::Override{text.substr(0, equals), text.substr(equals + 1)};
}

void add_sim(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* command =
      app.add_subcommand("sim", "Simulate a RoCE fabric: switches, PFC, ECN, DCQCN, real engines");
  command->add_option("FILE", options->file, "The scenario (TOML)")->required();
  command->add_option("--seed", options->seed, "Another seed than the file's")->type_name("N");
  command
      ->add_option("--set", options->sets,
                   "Another value than the file's: switch.ecn.min=100KB (may be repeated)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("-q,--quiet", options->quiet, "Print nothing but errors");
  command->footer(
      "Exit status: 0, 1 when an expectation of the scenario is not met, 2 for a mistake in it "
      "or in the command line, 130 when interrupted.");
  command->callback([options, &invocation] {
    if (takes_no_program("sim", invocation)) invocation.status = simulate(*options);
  });
}

}  // namespace verbena::tools
