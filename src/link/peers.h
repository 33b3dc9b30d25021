// What the local link needs to know about its neighbours, whoever keeps the books (the broker on a
// real host, a table in tests).
#pragma once

#include <memory>

#include "link/host_page.h"
#include "link/local_area.h"

namespace verbena::link {

struct PeerArea {
  std::shared_ptr<void> keeper;  // keeps mapping and eventfd alive; control path only
  LocalArea* area = nullptr;
  int wakeup = -1;  // eventfd of the peer
  uint32_t generation = 0;
};

class PeerDirectory {
 public:
  virtual ~PeerDirectory() = default;
  virtual const HostPage& host_page() const = 0;
  // Maps the area of the process that has `slot` now. False: nobody has it, or its memory is not
  // sound. May block for a round trip to the broker.
  virtual bool open_area(uint8_t slot, PeerArea& out) = 0;
};

}  // namespace verbena::link
