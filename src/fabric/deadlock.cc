// The graph of waits and a cycle in it; see deadlock.h.
#include "fabric/deadlock.h"

#include <algorithm>

namespace verbena::fabric {

namespace {

// Queues that hold frames and may not send them.
uint8_t blocked(const Port& port) {
  if (port.is_host) return 0;
  return static_cast<uint8_t>(port.ready & port.stopped & ~port.ignore_pause);
}

// Follows waits from `start` depth first; on a way back to a port of the present path, the cycle.
class CycleSearch {
 public:
  CycleSearch(const Network& network, const std::vector<bool>& stuck)
      : network_(network), stuck_(stuck), state_(network.ports(), kNew) {}

  std::vector<PortId> from(PortId start) {
    if (state_[start] != kNew) return {};
    path_.clear();
    enter(start);
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.next == step.waits_for.size()) {
        state_[step.port] = kDone;
        path_.pop_back();
        continue;
      }
      PortId next = step.waits_for[step.next++];
      if (state_[next] == kNew)
        enter(next);
      else if (state_[next] == kOnPath)
        return cycle_at(next);
    }
    return {};
  }

 private:
  enum State : uint8_t { kNew, kOnPath, kDone };
  struct Step {
    PortId port;
    std::vector<PortId> waits_for;
    size_t next = 0;
  };

  void enter(PortId port) {
    state_[port] = kOnPath;
    path_.push_back({port, waits(port)});
  }

  // The egress ports of the next switch that hold what came from here.
  std::vector<PortId> waits(PortId id) const {
    std::vector<PortId> found;
    const Port& peer = network_.port(network_.port(id).peer);
    if (peer.is_host) return found;
    const Switch& next = network_.switch_at(peer.node - network_.hosts());
    for (uint32_t to = 0; to < next.ports().size(); ++to)
      if (next.held(peer.number, to) > 0 && stuck_[next.ports()[to]])
        found.push_back(next.ports()[to]);
    return found;
  }

  std::vector<PortId> cycle_at(PortId port) const {
    std::vector<PortId> cycle;
    bool inside = false;
    for (const Step& step : path_) {
      inside |= step.port == port;
      if (inside) cycle.push_back(step.port);
    }
    return cycle;
  }

  const Network& network_;
  const std::vector<bool>& stuck_;
  std::vector<State> state_;
  std::vector<Step> path_;
};

}  // namespace

std::vector<PortId> DeadlockWatch::look(const Network& network) {
  std::vector<Sent> sent(network.ports());
  std::vector<bool> stuck(network.ports());
  for (PortId id = 0; id < network.ports(); ++id) {
    const Port& port = network.port(id);
    uint8_t queues = blocked(port);
    for (uint32_t q = 0; q < kPriorities; ++q) {
      sent[id][q] = port.queues[q].sent;
      bool silent = !sent_.empty() && sent_[id][q] == sent[id][q];
      if ((queues >> q & 1) != 0 && silent) stuck[id] = true;
    }
  }
  sent_ = std::move(sent);
  CycleSearch search(network, stuck);
  for (PortId id = 0; id < network.ports(); ++id) {
    if (!stuck[id]) continue;
    std::vector<PortId> cycle = search.from(id);
    if (!cycle.empty()) return cycle;
  }
  return {};
}

}  // namespace verbena::fabric
