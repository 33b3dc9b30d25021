// The variables `verbena run` sets, worked out apart from setting them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::tools {

using Environment = std::vector<std::pair<std::string, std::string>>;  // name, value

struct RunSetup {
  std::string folder;  // of our libraries, absolute
  std::string tree;    // VERBENA_TREE
  bool shim = true;    // preload the path shim
  bool audit = false;  // use the audit module
  bool explain = false;
  std::string preload;  // librspreload, absolute: sockets become rsockets; empty: they stay
};

// Variables to set, in a fixed order. What they already hold stays behind ours, and ours is not
// added twice. `current` answers like getenv.
Environment run_environment(const RunSetup& setup,
                            const std::function<const char*(const char*)>& current);

// `text` as one word of a POSIX shell.
std::string shell_quoted(const std::string& text);

}  // namespace verbena::tools
