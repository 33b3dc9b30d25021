// What a host is set up with: dcb (iproute2) and mlnx_qos lines, cma_roce_tos and what scripts
// write into sysfs and configfs beside them. An interface named swpN is a switch's port (switchdev
// drivers take dcb), every other one is the host's.
#pragma once

#include "scenario/import.h"

namespace verbena::scenario {

Imported import_linux(std::string_view text, const ImportDefaults& defaults);

// Whether a line that begins with this word is one that import_linux() reads.
bool is_linux_command(std::string_view word);

}  // namespace verbena::scenario
