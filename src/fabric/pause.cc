// Priority flow control on links (IEEE 802.1Qbb): frames that stop and let go, pauses that expire
// by their quanta, pauses that last and are renewed, adapters that pause without end.
#include <algorithm>

#include "fabric/network.h"

namespace verbena::fabric {

const PfcSettings& Network::pfc_of(const Port& port) const {
  return port.is_host ? hosts_[port.node].settings.pfc : port.settings->pfc;
}

// A pause of the whole link stops every priority of who has it set, or of a host that obeys pauses.
uint8_t Network::link_mask(const Port& port) const {
  bool obeys =
      port.is_host ? hosts_[port.node].settings.pfc.rx_mask != 0 : port.settings->link_pause;
  return obeys ? 0xff : 0;
}

// --- sending

// What is to be said of the priorities goes with the frame that waits to be sent, if one does:
// there is never more than one.
void Network::send_pause(PortId id, uint8_t priorities, bool stop) {
  Port& port = ports_[id];
  if (!port.up || priorities == 0) return;
  const PfcSettings& pfc = pfc_of(port);
  if (port.control.empty()) {
    PacketId frame = pool_.take();
    Packet& packet = pool_[frame];
    packet.kind = FrameKind::kPause;
    packet.bytes = kPauseFrameBytes;
    pool_.body(frame).pause = {};
    pool_.body(frame).pause.link = !port.is_host && port.settings->link_pause;
    port.control.push(pool_, frame);
  }
  PauseFrame& pause = pool_.body(port.control.head).pause;
  pause.mask |= priorities;
  // Not before the frame itself has left, which takes less than two quanta.
  auto share = static_cast<Time>(pfc.refresh * static_cast<double>(port.quanta_time(pfc.quanta)));
  Time renew = now_ + std::max(share, port.quanta_time(2));
  for (uint32_t p = 0; p < kPriorities; ++p) {
    if ((priorities >> p & 1) == 0) continue;
    pause.quanta[p] = stop ? pfc.quanta : 0;
    port.renew_at[p] = renew;
  }
  port.pausing =
      static_cast<uint8_t>(stop ? port.pausing | priorities : port.pausing & ~priorities);
  if (stop && pfc.expires) arm_pause_timer(id, renew);
  kick(id);
}

void Network::count_pause(Port& port, const PauseFrame& frame) {
  ++pause_frames_;
  for (uint32_t p = 0; p < kPriorities; ++p) {
    if ((frame.mask >> p & 1) == 0) continue;
    PriorityCounters& counters = port.counters.priority[p];
    ++(frame.quanta[p] != 0 ? counters.tx_pause : counters.tx_resume);
  }
}

void Network::on_storm(uint32_t h) {
  const HostSettings& settings = hosts_[h].settings;
  if (now_ >= settings.storm_until) return;
  send_pause(hosts_[h].port, settings.storm_mask, true);
  queue_.push(now_ + settings.storm_interval, EventKind::kStorm, h);
}

// --- obeying

void Network::on_pause_frame(PortId id, const PauseFrame& frame) {
  Port& port = ports_[id];
  for (uint32_t p = 0; p < kPriorities; ++p) {
    if ((frame.mask >> p & 1) == 0) continue;
    PriorityCounters& counters = port.counters.priority[p];
    ++(frame.quanta[p] != 0 ? counters.rx_pause : counters.rx_resume);
  }
  Time response = pfc_of(port).response;
  if (response == 0) return apply_pause(id, frame);
  port.late.push_back({now_ + response, frame});
  arm_pause_timer(id, now_ + response);
}

void Network::apply_pause(PortId id, const PauseFrame& frame) {
  Port& port = ports_[id];
  const PfcSettings& pfc = pfc_of(port);
  uint8_t obeyed = frame.link ? link_mask(port) : pfc.rx_mask;
  for (uint32_t p = 0; p < kPriorities; ++p) {
    auto bit = static_cast<uint8_t>(1u << p);
    if ((frame.mask & obeyed & bit) == 0) continue;
    bool was = (port.paused & bit) != 0;
    if (frame.quanta[p] != 0) {
      if (!was) port.paused_since[p] = now_;
      port.paused |= bit;
      port.paused_until[p] = pfc.expires ? now_ + port.quanta_time(frame.quanta[p]) : kForever;
      if (pfc.expires) arm_pause_timer(id, port.paused_until[p]);
    } else if (was) {
      port.paused = static_cast<uint8_t>(port.paused & ~bit);
      port.counters.priority[p].paused += now_ - port.paused_since[p];
    }
  }
  refresh(id);
}

// Which queues the pauses stop, after something about them changed.
void Network::refresh(PortId id) {
  Port& port = ports_[id];
  uint8_t stopped = 0;
  for (uint32_t p = 0; p < kPriorities; ++p) {
    if ((port.paused >> p & 1) == 0) continue;
    uint32_t queue = port.is_host ? p : port.settings->pfc_priority_to_queue[p];
    stopped |= static_cast<uint8_t>(1u << queue);
  }
  port.stopped = stopped;
  kick(id);
}

uint8_t Network::open_priorities(uint32_t host) const {
  return static_cast<uint8_t>(~ports_[hosts_[host].port].stopped);
}

// --- time

void Network::arm_pause_timer(PortId id, Time at) {
  Port& port = ports_[id];
  if (at >= port.pause_timer) return;
  port.pause_timer = at;
  queue_.push(at, EventKind::kPauseTimer, id);
}

void Network::on_pause_timer(PortId id) {
  if (ports_[id].pause_timer != now_) return;  // an earlier one took its place
  ports_[id].pause_timer = kForever;
  while (!ports_[id].late.empty() && ports_[id].late.front().at <= now_) {
    PauseFrame frame = ports_[id].late.front().frame;
    ports_[id].late.erase(ports_[id].late.begin());
    apply_pause(id, frame);
  }
  Port& port = ports_[id];
  const PfcSettings& pfc = pfc_of(port);
  uint8_t renew = 0;
  bool changed = false;
  Time next = port.late.empty() ? kForever : port.late.front().at;
  for (uint32_t p = 0; p < kPriorities; ++p) {
    auto bit = static_cast<uint8_t>(1u << p);
    if ((port.paused & bit) != 0 && port.paused_until[p] <= now_) {
      port.paused = static_cast<uint8_t>(port.paused & ~bit);
      port.counters.priority[p].paused += now_ - port.paused_since[p];
      ++port.counters.priority[p].expired;
      changed = true;
    } else if ((port.paused & bit) != 0) {
      next = std::min(next, port.paused_until[p]);
    }
    if ((port.pausing & bit) == 0 || !pfc.expires) continue;
    if (port.renew_at[p] <= now_)
      renew |= bit;
    else
      next = std::min(next, port.renew_at[p]);
  }
  if (next != kForever) arm_pause_timer(id, next);
  // A storm has its own clock; what it stops is not renewed, and nothing lets it go.
  if (port.is_host) {
    auto own = static_cast<uint8_t>(hosts_[port.node].pausing ? pfc.tx_mask : 0);
    port.pausing &= static_cast<uint8_t>(~(renew & ~own));
    renew &= own;
  }
  if (renew != 0) send_pause(id, renew, true);
  if (changed) refresh(id);
}

void Network::release_pauses(PortId id) {
  Port& port = ports_[id];
  for (uint32_t p = 0; p < kPriorities; ++p)
    if ((port.paused >> p & 1) != 0)
      port.counters.priority[p].paused += now_ - port.paused_since[p];
  port.paused = port.stopped = port.pausing = 0;
  port.late.clear();
}

void Network::close_counters() {
  for (Port& port : ports_)
    for (uint32_t p = 0; p < kPriorities; ++p) {
      if ((port.paused >> p & 1) == 0) continue;
      port.counters.priority[p].paused += now_ - port.paused_since[p];
      port.paused_since[p] = now_;
    }
}

}  // namespace verbena::fabric
