// A deadlock of pauses, found while it happens: ports of switches that wait for each other in a
// ring, each stopped by the next, and none of them has sent anything for a while. (A cycle of
// possible waits can be seen before any frame runs; whether it closes depends on the traffic.)
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/network.h"

namespace verbena::fabric {

struct Deadlock {
  Time seen = 0;
  std::vector<PortId> cycle;  // egress ports, each waiting for the next, the last for the first
};

class DeadlockWatch {
 public:
  // Looks at the network as it is now. Returns a cycle whose ports were all stopped and silent at
  // the last look too; an empty one when there is none.
  std::vector<PortId> look(const Network& network);

 private:
  std::vector<uint64_t> sent_;  // frames of each port at the last look
};

}  // namespace verbena::fabric
