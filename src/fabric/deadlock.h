// A deadlock of pauses, found while it happens: ports of switches that wait for each other in a
// ring, each stopped by the next, and none of them has sent anything for a while. (A cycle of
// possible waits can be seen before any frame runs; whether it closes depends on the traffic.)
#pragma once

#include <array>
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
  // Looks at the network as it is now. Returns a cycle of ports each of which has a queue that is
  // stopped and has sent nothing since the last look; an empty one when there is none.
  std::vector<PortId> look(const Network& network);

 private:
  using Sent = std::array<uint64_t, kPriorities>;  // frames of each queue
  std::vector<Sent> sent_;                         // by port, at the last look
};

}  // namespace verbena::fabric
