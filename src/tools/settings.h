// Settings that the libraries read when the first queue pair is made, where a mistake would be a
// bare errno in somebody else's program, or nothing at all: `verbena run` checks them first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::tools {

// VERBENA_LOCAL, VERBENA_FAULT_GUARD, VERBENA_FAULT, VERBENA_PCAP, VERBENA_LOG and VERBENA_TRACE as
// `current` gives them (null or empty: unset). The error (EINVAL, or the errno of the file) names
// the variable, its value and what would be right. Nothing is written.
Result<void> check_settings(const std::function<const char*(const char*)>& current);

// A sentence for each variable of `environment` ("NAME=VALUE" strings, null at the end) that
// nothing reads although its name begins with VERBENA_ or is a known name with a slip in it:
// "VERBENA_LOGG is no setting of Verbena and does nothing; did you mean VERBENA_LOG?"
std::vector<std::string> unknown_settings(const char* const* environment);

// A note on stderr for each such variable of this process: "verbena COMMAND: note: ...".
void tell_unknown_settings(const char* command);

}  // namespace verbena::tools
