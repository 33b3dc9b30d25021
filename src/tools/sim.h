// What the parts of `verbena sim` give to each other: the options, and one run that is over.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/experiment.h"
#include "sim/summary.h"

namespace verbena::tools {

struct SimOptions {
  std::string file;
  std::string seed;                 // empty: the file's
  std::vector<std::string> sets;    // KEY=VALUE
  std::vector<std::string> sweeps;  // KEY=V1,V2,...
  std::vector<std::string> pcaps;   // PORT=FILE
  std::string trace, out, report;
  uint32_t jobs = 0;  // of a sweep; 0: one for each processor
  bool quiet = false;
  bool json = false;
};

// A run that has ended, or was ended.
struct SimRun {
  std::unique_ptr<sim::Experiment> experiment;
  sim::Summary summary;
  std::vector<std::string> unmet;             // expectations
  std::vector<scenario::Override> overrides;  // what the command line changed, but for the seed
  double wall_s = 0, cpu_s = 0;
  enum End : uint8_t { kComplete, kInterrupted, kStuck } end = kComplete;
};

// Exit statuses beside 0.
inline constexpr int kFailure = 1, kMisuse = 2, kInterruptStatus = 130;
inline constexpr double kPsPerUs = 1e6;
// A value of the summary by its name; 0 when it has none.
inline double value(const sim::Summary& summary, const char* name) {
  const sim::Value* found = summary.find(name);
  return found != nullptr ? found->value : 0;
}

// Set while SIGINT asks the runs to end; the second one ends the program.
bool interrupted();
void obey_interrupts();

// Runs to the end, or until it is interrupted or nothing moves any more. `progress`: a line on
// stderr tells how far it is, and is gone afterwards.
void run_to_end(SimRun& run, bool progress);

// "KEY=VALUE" taken apart. An Error names the option.
Result<scenario::Override> split_assignment(const char* option, const std::string& text);

// The tables and sentences that a person reads.
std::string sim_text(const SimRun& run);

}  // namespace verbena::tools
