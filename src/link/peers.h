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

enum class Opened : uint8_t {
  kOpen,
  kNobody,  // nobody has the slot, or its memory is not sound
  kNoRoom,  // this process cannot map it (its limit on address space)
  kLater,   // the answer has not come: ask again
};

class PeerDirectory {
 public:
  virtual ~PeerDirectory() = default;
  virtual const HostPage& host_page() const = 0;
  // Maps the area of the process that has `slot` now. Waits for the keeper of the books at most
  // `patience_ms`, and not at all while it owes an earlier answer.
  virtual Opened open_area(uint8_t slot, int patience_ms, PeerArea& out) = 0;
};

}  // namespace verbena::link
