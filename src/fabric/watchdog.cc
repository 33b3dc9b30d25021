// The two machines; see watchdog.h.
#include "fabric/watchdog.h"

#include <algorithm>

#include "fabric/network.h"
#include "fabric/switch.h"

namespace verbena::fabric {

namespace {

constexpr double kAlmostAll = 0.99;

}  // namespace

void Watchdog::start() {
  watched_.resize(owner_.ports_.size());
  for (uint32_t number = 0; number < owner_.ports_.size(); ++number) {
    const WatchdogSettings& settings = owner_.port_settings(number).watchdog;
    if (settings.machine == WatchdogSettings::kOff) continue;
    owner_.network_.at(owner_.network_.now() + settings.poll, [this, number] { poll(number); });
  }
}

void Watchdog::poll(uint32_t number) {
  const WatchdogSettings& settings = owner_.port_settings(number).watchdog;
  for (uint32_t queue = 0; queue < kPriorities; ++queue) {
    if (!watches(number, queue)) continue;
    Watched& watched = watched_[number][queue];
    if (settings.machine == WatchdogSettings::kSonic)
      poll_sonic(number, queue, watched);
    else
      poll_cumulus(number, queue, watched);
    remember(number, queue, watched);
  }
  owner_.network_.at(owner_.network_.now() + settings.poll, [this, number] { poll(number); });
}

void Watchdog::remember(uint32_t number, uint32_t queue, Watched& watched) {
  watched.sent = owner_.network_.port(owner_.ports_[number]).queues[queue].sent;
  watched.paused = paused_time(number, queue);
  watched.frames = pause_frames(number, queue);
}

void Watchdog::poll_sonic(uint32_t number, uint32_t queue, Watched& watched) {
  const WatchdogSettings& settings = owner_.port_settings(number).watchdog;
  const EgressQueue& egress = owner_.network_.port(owner_.ports_[number]).queues[queue];
  Time now = owner_.network_.now();
  if (watched.stormed) {
    if (pause_frames(number, queue) != watched.frames) watched.stormed_at = now;
    if (now - watched.stormed_at >= settings.restoration) set(number, queue, watched, false, false);
    return;
  }
  auto paused = static_cast<double>(paused_time(number, queue) - watched.paused);
  bool stuck = !egress.frames.empty() && egress.sent == watched.sent &&
               paused > kAlmostAll * static_cast<double>(settings.poll);
  watched.suspicious = stuck ? watched.suspicious + settings.poll : 0;
  if (static_cast<double>(watched.suspicious) <
      kAlmostAll * static_cast<double>(settings.detection))
    return;
  set(number, queue, watched, true, settings.action == WatchdogSettings::kDrop);
}

void Watchdog::poll_cumulus(uint32_t number, uint32_t queue, Watched& watched) {
  const WatchdogSettings& settings = owner_.port_settings(number).watchdog;
  const EgressQueue& egress = owner_.network_.port(owner_.ports_[number]).queues[queue];
  if (watched.stormed) {
    if (pause_frames(number, queue) == watched.frames) set(number, queue, watched, false, false);
    return;
  }
  bool stuck = paused(number, queue) && !egress.frames.empty() && egress.sent == watched.sent;
  watched.polls = stuck ? watched.polls + 1 : 0;
  if (watched.polls >= settings.robustness) set(number, queue, watched, true, true);
}

void Watchdog::set(uint32_t number, uint32_t queue, Watched& watched, bool stormed, bool discard) {
  const WatchdogSettings& settings = owner_.port_settings(number).watchdog;
  Network& network = owner_.network_;
  PortId id = owner_.ports_[number];
  auto bit = static_cast<uint8_t>(1u << queue);
  watched.stormed = stormed;
  watched.stormed_at = network.now();
  watched.suspicious = 0;
  watched.polls = 0;
  events_.push_back(
      {network.now(), static_cast<uint16_t>(number), static_cast<uint8_t>(queue), stormed});
  bool alert_only =
      settings.machine == WatchdogSettings::kSonic && settings.action == WatchdogSettings::kAlert;
  if (alert_only) return;
  Port& port = network.mutable_port(id);
  port.ignore_pause =
      static_cast<uint8_t>(stormed ? port.ignore_pause | bit : port.ignore_pause & ~bit);
  port.discard =
      static_cast<uint8_t>(stormed && discard ? port.discard | bit : port.discard & ~bit);
  if (stormed && discard) owner_.discard(id, bit, DropCause::kWatchdog);
  network.refresh(id);
}

// A priority that it watches stops this queue.
bool Watchdog::watches(uint32_t number, uint32_t queue) const {
  const PortSettings& settings = owner_.port_settings(number);
  for (uint32_t p = 0; p < kPriorities; ++p)
    if (settings.pfc_priority_to_queue[p] == queue && (settings.watchdog.mask >> p & 1) != 0)
      return true;
  return false;
}

// --- what is known of a queue: the pauses of the priorities that stop it

bool Watchdog::paused(uint32_t number, uint32_t queue) const {
  const Port& port = owner_.network_.port(owner_.ports_[number]);
  const PortSettings& settings = owner_.port_settings(number);
  for (uint32_t p = 0; p < kPriorities; ++p)
    if (settings.pfc_priority_to_queue[p] == queue && (port.paused >> p & 1) != 0) return true;
  return false;
}

Time Watchdog::paused_time(uint32_t number, uint32_t queue) const {
  const Port& port = owner_.network_.port(owner_.ports_[number]);
  const PortSettings& settings = owner_.port_settings(number);
  Time longest = 0;
  for (uint32_t p = 0; p < kPriorities; ++p) {
    if (settings.pfc_priority_to_queue[p] != queue) continue;
    Time paused = port.counters.priority[p].paused;
    if ((port.paused >> p & 1) != 0) paused += owner_.network_.now() - port.paused_since[p];
    longest = std::max(longest, paused);
  }
  return longest;
}

uint64_t Watchdog::pause_frames(uint32_t number, uint32_t queue) const {
  const Port& port = owner_.network_.port(owner_.ports_[number]);
  const PortSettings& settings = owner_.port_settings(number);
  uint64_t frames = 0;
  for (uint32_t p = 0; p < kPriorities; ++p)
    if (settings.pfc_priority_to_queue[p] == queue) frames += port.counters.priority[p].rx_pause;
  return frames;
}

}  // namespace verbena::fabric
