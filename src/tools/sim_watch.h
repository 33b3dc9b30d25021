// --pcap and --trace: who looks on during a run, and the files that this makes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/watchers.h"
#include "tools/sim.h"
#include "tools/whole_file.h"

namespace verbena::tools {

class SimWatch {
 public:
  // Makes the files and begins to watch. An Error with EINVAL is a mistake in the options; any
  // other is a file that cannot be made. `experiment` is not run after this object is gone.
  Result<void> begin(const SimOptions& options, sim::Experiment& experiment);
  // The run is over: the files become whole.
  Result<void> end();

 private:
  Result<void> begin_capture(const std::string& option, sim::Experiment& experiment);

  sim::Watchers watchers_;
  std::vector<std::unique_ptr<WholeFile>> files_;
  std::vector<std::unique_ptr<fabric::Observer>> all_;
};

}  // namespace verbena::tools
