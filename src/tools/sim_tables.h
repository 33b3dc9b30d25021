// The tables of a run, once for the terminal and the page.
#pragma once

#include "tools/sim.h"
#include "tools/text_table.h"

namespace verbena::tools {

// By size of the message; by group where there are several; all of them last.
TextTable flow_table(const sim::Summary& summary);
// Of switches' egress ports, those with the longest queues, at most `most`; ports that sent nothing
// and were not paused are left out.
TextTable port_table(const sim::Summary& summary, size_t most);
// By port and priority, those that were paused longest.
TextTable pause_table(const sim::Summary& summary, size_t most);

}  // namespace verbena::tools
