// `verbena run --mode ns`: the generated tree in /sys and /dev of a private mount namespace, for
// programs that no preloaded library reaches (static ones, shells). Needs no privileges where the
// kernel lets users make user namespaces.
#pragma once

#include <string>

#include "base/result.h"

namespace verbena::tools {

// Moves this process into a mount namespace of its own (and, unless root, a user namespace that
// maps only the caller's user and group to themselves) in which /sys/class/infiniband and
// /dev/infiniband are those of `tree`. Nothing outside changes. Errors: EPERM no user namespaces
// here, with the way out; else the errno of the step that failed, named.
Result<bool> enter_private_view(const std::string& tree);

}  // namespace verbena::tools
