// A run as JSON: the summary that files and --json carry, and what the report's page draws.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/sim.h"

namespace verbena::tools {

// Every number of the summary under its name; see docs/simulation.md for the keys.
nlohmann::ordered_json summary_json(const SimRun& run);

// Topology, plots and distributions, thinned to what a screen shows. Times in microseconds, rates
// in Gb/s, queues in bytes.
nlohmann::ordered_json report_json(const SimRun& run);

// What a page that compares runs draws of each: its longest queue and goodput over time, its flow
// completion times.
nlohmann::ordered_json comparison_json(const SimRun& run);

// Two blanks for each level; bytes that are no UTF-8 (names from files) are replaced.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace verbena::tools
