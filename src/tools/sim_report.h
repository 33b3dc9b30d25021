// A run, or several, as one page for a browser.
#pragma once

#include <string>

#include "tools/sim.h"

namespace verbena::tools {

std::string report_page(const SimRun& run);

}  // namespace verbena::tools
