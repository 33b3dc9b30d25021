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
  bool echo = false;            // the next acknowledgement carries the mark
  Telemetry telemetry;          // of the newest packet that brought some; none when count is 0

  // A mark arrived. True: a CNP is due, and counted as made now.
  bool marked(Instant now, const NpSettings& settings) {
    if (settings.echo_in_acknowledgements) {
      echo = true;
      return false;
    }
    if (now - last_cnp < settings.min_time_between_cnps) return false;
    last_cnp = now;
    return true;
  }
};

}  // namespace verbena::engine
