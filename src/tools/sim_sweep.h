// verbena sim --sweep: the same scenario with every combination of some values, and a comparison.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/sim.h"

namespace verbena::tools {

struct SweepKey {
  std::string key;
  std::vector<std::string> values;
};

// "KEY=V1,V2,...": commas within [], {} and quotes part nothing. An Error names the option.
Result<SweepKey> parse_sweep(const std::string& text);
// Every combination, the last key changing fastest.
Result<std::vector<std::vector<scenario::Override>>> sweep_grid(
    const std::vector<std::string>& sweeps);

// One combination that was run; the fabric itself is gone.
struct SweepPoint {
  std::vector<scenario::Override> changes;  // of the sweep
  bool ran = false;
  sim::Summary summary;
  std::vector<std::string> unmet;
  std::string trace;
  double cpu_s = 0;
  nlohmann::ordered_json json;   // the summary
  nlohmann::ordered_json plots;  // for the page
};

std::string sweep_text(const std::vector<SweepPoint>& points);
std::string sweep_csv(const std::vector<SweepPoint>& points);
std::string sweep_page(const SimOptions& options, const std::vector<SweepPoint>& points);

// Runs the grid on `options.jobs` threads, prints and writes; the exit status.
int sweep(const SimOptions& options, const std::vector<scenario::Override>& overrides);

}  // namespace verbena::tools
