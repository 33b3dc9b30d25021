// Whether a program will run on our libraries, found out without running it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::tools {

struct DoctorReport {
  std::string text;  // lines for the user
  bool runs = false;
};

// Looks at `program` (found as execvp finds it) with our libraries in `folder`. Errors: ENOENT,
// EACCES and EBADMSG about the program's file.
Result<DoctorReport> diagnose(const std::string& program, const std::string& folder);

}  // namespace verbena::tools
