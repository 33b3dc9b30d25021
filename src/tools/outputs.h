// Where a command is about to write, looked at before it begins: a long run whose result has
// nowhere to go, or whose report replaces the file it was made from, is told at once.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace verbena::tools {

struct Output {
  std::string option;  // as the user wrote it: "--report"
  std::string path;
  bool folder = false;  // many files in it; may have to be made
};

// An Error: EINVAL when an output is one of the inputs or another output, by whatever name or link,
// or a folder where a file is wanted; what the system says when it cannot be made there. Devices
// and FIFOs may be named twice.
Result<void> check_outputs(std::span<const std::string> inputs, std::span<const Output> outputs);

}  // namespace verbena::tools
