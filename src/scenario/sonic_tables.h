// Which tables and fields of CONFIG_DB the reader knows, and what becomes of each: so that a
// misspelt one is told from one that has no meaning here.
#pragma once

#include "scenario/import.h"
#include "scenario/sonic_file.h"

namespace verbena::scenario {

// Says what of the file is unknown, misspelt, or without effect.
void check_sonic_tables(const SonicFile& file, Diagnostics& diagnostics);

}  // namespace verbena::scenario
