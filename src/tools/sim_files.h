// --out DIR: a run as files for other programs.
#pragma once

#include "base/result.h"
#include "tools/sim.h"

namespace verbena::tools {

// Makes the folder, or an Error that names it.
Result<void> make_folder(const std::string& path);

// Writes flows.csv, ports.csv, series.csv, summary.json and scenario.toml into `folder`, which is
// made when it is missing. Each file is whole or not there.
Result<void> write_run_files(const SimRun& run, const std::string& folder);

// A cell of CSV: quoted where it must be (RFC 4180).
std::string csv_cell(const std::string& text);

}  // namespace verbena::tools
