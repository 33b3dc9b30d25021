// Who this process is to its neighbours on the host: may they read its memory, may it read theirs.
#pragma once

#include "broker/protocol.h"

namespace verbena::broker {

// Fills pid, PID namespace, start time, access class and local_ok. `local` false: the user said
// VERBENA_LOCAL=off. Where Yama restricts ptrace, allows every process of the same user to read
// this one's memory (PR_SET_PTRACER), which is what registering memory for RDMA asks for.
void describe_self(Request& request, bool local);

}  // namespace verbena::broker
