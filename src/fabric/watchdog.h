// PFC watchdogs: queues that are paused although they hold frames, for too long. Two machines, as
// two vendors have them.
//  SONiC: a poll counts as paused when the queue holds frames, sent none since the last poll, and
//  was paused for more than 99 % of it; when such polls in a row sum to 99 % of the detection time
//  the queue is "stormed": its frames are dropped (or sent in spite of the pause, or only
//  reported). It is "operational" again after the restoration time without a pause frame. Cumulus:
//  after `robustness` polls in a row that found it paused with frames waiting the queue ignores
//  pauses and drops what it holds; one poll without a pause frame since the last restores it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/settings.h"

namespace verbena::fabric {

class Switch;

struct WatchdogEvent {
  Time at = 0;
  uint16_t port = 0;  // number at the switch
  uint8_t queue = 0;
  bool storm = false;  // detected; else restored
};

class Watchdog {
 public:
  explicit Watchdog(Switch& owner) : owner_(owner) {}

  // Plans the first poll of every port that has one.
  void start();
  const std::vector<WatchdogEvent>& events() const { return events_; }

 private:
  struct Watched {
    uint64_t sent = 0;    // by the queue, at the last poll
    Time paused = 0;      // time paused so far, at the last poll
    Time suspicious = 0;  // sum of polls in a row
    uint32_t polls = 0;   // in a row
    uint64_t frames = 0;  // pause frames so far, at the last poll
    bool stormed = false;
    Time stormed_at = 0;
  };
  void poll(uint32_t number);
  void poll_sonic(uint32_t number, uint32_t queue, Watched& watched);
  void poll_cumulus(uint32_t number, uint32_t queue, Watched& watched);
  void set(uint32_t number, uint32_t queue, Watched& watched, bool stormed, bool discard);
  void remember(uint32_t number, uint32_t queue, Watched& watched);
  bool watches(uint32_t number, uint32_t queue) const;
  bool paused(uint32_t number, uint32_t queue) const;
  Time paused_time(uint32_t number, uint32_t queue) const;
  uint64_t pause_frames(uint32_t number, uint32_t queue) const;

  Switch& owner_;
  std::vector<std::array<Watched, kPriorities>> watched_;  // by port
  std::vector<WatchdogEvent> events_;
};

}  // namespace verbena::fabric
