// NVUE commands of Cumulus Linux, one per line, as `nv config show -o commands` prints them and as
// operators keep them in notes. They are declarative: the lines make one tree of settings (unset
// takes a branch away again), and each port's settings are then derived from the tree, from the
// profile it names or default-global, as the switch does.
#pragma once

#include "scenario/import.h"

namespace verbena::scenario {

// Lines that begin with "nv config" or "nv show", comments and blank lines are passed over.
Imported import_nvue(std::string_view text);

}  // namespace verbena::scenario
