// Starting the broker from inside somebody else's program without leaving a trace in it: no child
// to wait for, no SIGCHLD, no inherited descriptor.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace verbena::broker {

// A broker that did not come up by then will not.
inline constexpr int64_t kRespawnMs = 400;

// Runs `path --name NAME --port PORT` as a process that is not our child. An error is the errno of
// the exec (ENOENT, EACCES, ...) or of the clone.
Result<void> spawn_broker(const std::string& path, const std::string& name, uint16_t port);

}  // namespace verbena::broker
