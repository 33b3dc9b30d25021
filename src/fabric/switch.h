// A switch: from a frame's fields to its priority, group and queue; through the shared buffer; to
// one of the ports that lead on; marked or dropped on the way; and the pauses it owes upstream.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fabric/port.h"
#include "fabric/routing.h"
#include "fabric/settings.h"
#include "fabric/shared_buffer.h"
#include "fabric/watchdog.h"

namespace verbena::fabric {

class Network;

class Switch {
 public:
  Switch(Network& network, uint32_t node, const SwitchSettings& settings)
      : network_(network), node_(node), settings_(settings) {}

  void finish(std::vector<PortId> ports);  // all links are made
  // Ports (numbers) that lead toward a host.
  std::span<const uint16_t> toward(uint32_t host) const { return table_.toward(host); }
  void routes(RouteTable table) { table_ = std::move(table); }

  // A frame that came in at `port` is in the switch's hands.
  void receive(PortId port, PacketId id);
  // `id` leaves its queue to be sent (or discarded): buffer is freed, pauses may end, a mark is
  // made. False: it was discarded.
  void on_dequeue(PortId port, PacketId id);
  // The next frame of an egress port; kNoPacket: nothing that may go.
  PacketId next(PortId port);
  // Everything in `queues` of the port is lost (watchdog, link down).
  void discard(PortId port, uint8_t queues, DropCause cause);

  // The link of port `number` went down or came up: whoever was stopped there no longer is.
  void forget_pauses(uint32_t number) { paused_groups_[number] = 0; }

  const SwitchSettings& settings() const { return settings_; }
  const SharedBuffer& buffer() const { return *buffer_; }
  uint32_t node() const { return node_; }
  const std::vector<PortId>& ports() const { return ports_; }
  const std::vector<WatchdogEvent>& watchdog_events() const { return watchdog_.events(); }
  // Bytes in egress port `to` of lossless frames that came in at port `from` (numbers here).
  uint64_t held(uint32_t from, uint32_t to) const { return held_[from * ports_.size() + to]; }
  const PortSettings& port_settings(uint32_t number) const;

  // What stopped what, at the moment it did: the first link of a cascade of pauses.
  struct PauseCause {
    uint16_t ingress = 0;  // whose sender was stopped
    uint16_t egress = 0;   // the port that held most of it
  };
  const std::vector<PauseCause>& pause_causes() const { return causes_; }

 private:
  friend class Watchdog;
  struct Flowlet {
    Time last = -kForever / 2;
    uint16_t port = 0;
    bool used = false;
  };

  uint8_t classify(const PortSettings& settings, const Packet& packet) const;
  bool choose_port(const Packet& packet, uint32_t& number);
  uint32_t least_loaded(std::span<const uint16_t> ports);
  uint32_t grade(uint32_t number);
  bool mark_or_drop(const EcnSettings& ecn, uint64_t bytes);
  void pause_if_due(uint32_t number, uint32_t group);
  void pause(uint32_t number, uint32_t group);
  void resume_if_due(uint32_t number, uint32_t group);
  uint8_t priorities_of(uint32_t number, uint32_t group) const;
  void note_cause(uint32_t number);
  bool egress_full(const QueueSettings& queue, uint64_t queued, uint32_t bytes) const;

  Network& network_;
  uint32_t node_;
  SwitchSettings settings_;
  std::vector<PortId> ports_;
  std::vector<const PortSettings*> port_settings_;
  std::unique_ptr<SharedBuffer> buffer_;
  RouteTable table_;
  std::vector<uint8_t> paused_groups_;  // by port: groups whose sender we stopped
  std::vector<uint32_t> held_;          // [ingress][egress] bytes of lossless groups
  std::vector<Flowlet> flowlets_;
  std::vector<PauseCause> causes_;
  Watchdog watchdog_{*this};
};

}  // namespace verbena::fabric
