// The receiver's side of congestion control (notification point), for one queue pair: when marks
// become a CNP, or what the next acknowledgement brings back. Made when the first mark arrives, so
// that queue pairs that never meet one hold nothing.
#pragma once

#include "engine/address.h"
#include "engine/congestion/control.h"
#include "engine/congestion/settings.h"

namespace verbena::engine {

struct Notification {
  AddressVector route;          // of CNPs
  Instant last_cnp = kLongAgo;  // made
  bool owed = false;            // a mark arrived too soon after it
  bool echo = false;            // the next acknowledgement carries the mark
  Telemetry telemetry;          // of the newest packet that brought some; none when count is 0

  // A packet arrived, marked or not. True: a CNP is due, and counted as made now. A mark that comes
  // within min_time_between_cnps of the last CNP is not lost: the first packet after that time
  // makes one for it (SIGCOMM 2015, section 3.1). No timer: a flow that sends nothing more needs
  // none.
  bool arrived(Instant now, bool marked, const NpSettings& settings) {
    if (settings.echo_in_acknowledgements) {
      echo = echo || marked;
      return false;
    }
    owed = owed || marked;
    if (!owed || now - last_cnp < settings.min_time_between_cnps) return false;
    last_cnp = now;
    owed = false;
    return true;
  }
};

}  // namespace verbena::engine
