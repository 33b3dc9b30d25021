// verbena sim: a fabric in a file, run, and what came out.
#include "tools/sim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "tools/command.h"
#include "tools/outputs.h"
#include "tools/sim_files.h"
#include "tools/sim_json.h"
#include "tools/sim_report.h"
#include "tools/sim_sweep.h"
#include "tools/sim_watch.h"
#include "tools/whole_file.h"

namespace verbena::tools {

namespace {

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
  return run.unmet.empty() ? 0 : kFailure;
}

void print_run(const SimOptions& options, const SimRun& run) {
  if (options.json)
    fmt::print("{}\n", json_text(summary_json(run)));
  else if (!options.quiet)
    fmt::print("{}", sim_text(run));
}

Result<void> write_files(const SimOptions& options, const SimRun& run) {
  if (!options.out.empty())
    if (auto good = write_run_files(run, options.out); !good) return good;
  if (options.report.empty()) return {};
  return write_whole_file(options.report, report_page(run));
}

Result<void> check_places(const SimOptions& options) {
  std::vector<Output> outputs;
  if (!options.out.empty()) outputs.push_back({"--out", options.out, true});
  if (!options.report.empty()) outputs.push_back({"--report", options.report});
  if (!options.trace.empty()) outputs.push_back({"--trace", options.trace});
  for (const std::string& pcap : options.pcaps)
    if (const size_t equals = pcap.find('='); equals + 1 < pcap.size() && equals != pcap.npos)
      outputs.push_back({"--pcap", pcap.substr(equals + 1)});
  return check_outputs(std::span(&options.file, 1), outputs);
}

int simulate(const SimOptions& options) {
  if (auto good = check_places(options); !good)
    return complain("sim", good.error().message, good.error().code == EINVAL ? kMisuse : kFailure);
  auto overrides = overrides_of(options);
  if (!overrides) return complain("sim", overrides.error().message, kMisuse);
  if (!options.sweeps.empty()) return sweep(options, *overrides);
  std::vector<scenario::Override> all = *overrides;
  if (!options.seed.empty()) all.push_back({"scenario.seed", options.seed});
  auto scenario = scenario::read_scenario(options.file, all);
  if (!scenario) return complain("sim", scenario.error().message, kMisuse);
  if (auto good = sim::check_supported(*scenario); !good)
    return complain("sim", good.error().message, kMisuse);

  obey_interrupts();
  SimRun run;
  SimWatch watch;
  run.overrides = *overrides;
  run.experiment = std::make_unique<sim::Experiment>(*scenario);
  if (auto good = sim::check_expectations(*run.experiment); !good)
    return complain("sim", good.error().message, kMisuse);
  if (auto good = watch.begin(options, *run.experiment); !good)
    return complain("sim", good.error().message, good.error().code == EINVAL ? kMisuse : kFailure);
  run_to_end(run, !options.quiet && isatty(STDERR_FILENO) != 0);
  print_run(options, run);
  auto watched = watch.end();
  auto written = write_files(options, run);
  if (!watched) return complain("sim", watched.error().message, kFailure);
  if (!written) return complain("sim", written.error().message, kFailure);
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
  command->add_option("--out", options->out, "Write CSV and JSON files into this folder")
      ->type_name("DIR");
  command->add_option("--report", options->report, "Write a page with pictures for a browser")
      ->type_name("FILE.html");
  CLI::Option* sweep =
      command
          ->add_option("--sweep", options->sweeps,
                       "Run with each of these values and compare; several make a grid")
          ->type_name("KEY=V1,V2,...")
          ->allow_extra_args(false);
  command->add_option("--jobs", options->jobs, "Runs of a sweep at once; 0: one a processor")
      ->type_name("N")
      ->needs(sweep);
  command
      ->add_option("--pcap", options->pcaps,
                   "Capture what passes a port, as in leaf0:3=leaf.pcapng (may be repeated)")
      ->type_name("PORT=FILE")
      ->allow_extra_args(false)
      ->excludes(sweep);
  command->add_option("--trace", options->trace, "Write a line for every frame sent or received")
      ->type_name("FILE")
      ->excludes(sweep);
  command->add_flag("--json", options->json, "Print the summary as JSON instead of tables");
  command->add_flag("-q,--quiet", options->quiet, "Print nothing but errors");
  command->footer(
      "Exit status: 0, 1 when an expectation of the scenario is not met, 2 for a mistake in it "
      "or in the command line, 130 when interrupted.");
  command->callback([options, &invocation] {
    if (takes_no_program("sim", invocation)) invocation.status = simulate(*options);
  });
}

}  // namespace verbena::tools
