// Multicast attachments, for those who end a queue pair on the program's behalf.
#pragma once

#include "abi/objects.h"
#include "host/process.h"

namespace verbena::abi {

// Detaches a queue pair from all its groups. Locked.
void leave_groups(host::Process& process, QpCore& core);

}  // namespace verbena::abi
