// What a run shows, in words: where pauses began and whom they reached, what was dropped and why,
// who waits for whom for ever.
#pragma once

#include <string>
#include <vector>

#include "sim/summary.h"

namespace verbena::sim {

// Cascades of pauses, the one that stopped most first.
std::vector<PauseTree> pause_trees(const Experiment& experiment);
std::vector<std::string> findings(const Experiment& experiment, const Summary& summary);

}  // namespace verbena::sim
