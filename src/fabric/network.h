// The fabric: switches and host ports joined by links, and the one event queue that moves it all.
// It knows frames, not flows; what hosts send and do with what arrives is behind HostPort.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "fabric/event_queue.h"
#include "fabric/packet.h"
#include "fabric/port.h"
#include "fabric/routing.h"
#include "fabric/settings.h"
#include "fabric/switch.h"

namespace verbena::fabric {

// A host's adapter, as its port sees it.
class HostPort {
 public:
  virtual ~HostPort() = default;
  // A frame that arrived; the adapter gives it back with Network::release().
  virtual void receive(Time now, PacketId id) = 0;
  // The next frame to send, of a priority whose bit in `open` is set; kNoPacket: none now (the
  // adapter calls Network::wake() when that changes).
  virtual PacketId next(Time now, uint8_t open) = 0;
  virtual void on_time(Time now) = 0;  // the time given to Network::set_timer() has come
};

// Who looks on. Called only where asked for with Network::watch().
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_sent(Time, PortId, const Packet&, const Body&) {}
  virtual void on_received(Time, PortId, const Packet&, const Body&) {}
  virtual void on_drop(Time, PortId, const Packet&, DropCause) {}
};

class Network {
 public:
  explicit Network(uint64_t seed);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // --- building: all hosts, then all switches, then links; then finish().
  uint32_t add_host(const HostSettings& settings);
  uint32_t add_switch(const SwitchSettings& settings);
  // The port at `a`; its peer is the one at `b`. Ports of a node are numbered in this order.
  PortId connect(uint32_t a, uint32_t b, const LinkSettings& settings);
  void finish();
  void attach(uint32_t host, HostPort* adapter) { hosts_[host].adapter = adapter; }

  // --- running
  Time now() const { return now_; }
  // Everything up to and including `until`; the clock then stands there. Stops early when stop()
  // was called, or when nothing is left to happen (the clock stands at the last event).
  void run(Time until);
  void stop() { stopped_ = true; }
  void at(Time when, std::function<void()> action);
  void set_link(PortId port, bool up);  // both ends; routes follow

  // --- for adapters
  PacketPool& pool() { return pool_; }
  const PacketPool& pool() const { return pool_; }
  void release(PacketId id) { pool_.give(id); }
  void wake(uint32_t host) { kick(hosts_[host].port); }
  void set_timer(uint32_t host, Time at);
  uint8_t open_priorities(uint32_t host) const;  // not stopped by pauses

  // --- looking
  uint32_t hosts() const { return static_cast<uint32_t>(hosts_.size()); }
  uint32_t switches() const { return static_cast<uint32_t>(switches_.size()); }
  uint32_t nodes() const { return hosts() + switches(); }
  PortId ports() const { return static_cast<PortId>(ports_.size()); }
  const Port& port(PortId id) const { return ports_[id]; }
  PortId host_port(uint32_t host) const { return hosts_[host].port; }
  Switch& switch_at(uint32_t index) { return *switches_[index]; }
  const Switch& switch_at(uint32_t index) const { return *switches_[index]; }
  // Port `number` of `node`.
  PortId port_of(uint32_t node, uint32_t number) const { return by_node_[node][number]; }
  const std::vector<PortId>& ports_of(uint32_t node) const { return by_node_[node]; }
  void observe(Observer* observer) { observer_ = observer; }
  void close_counters();  // adds pauses that still last to the counters
  uint64_t trace_hash() const { return hash_; }
  uint64_t events() const { return events_done_; }
  uint64_t packet_hops() const { return packet_hops_; }
  uint64_t pause_frames() const { return pause_frames_; }
  uint64_t packets_inside() const { return pool_.used(); }
  uint64_t host_buffer_most(uint32_t host) const { return hosts_[host].most_held; }

  // --- for Switch
  void enqueue(PortId port, PacketId id);
  void drop(PortId port, PacketId id, DropCause cause, bool lossless);
  void send_pause(PortId port, uint8_t priorities, bool stop);
  void kick(PortId port);     // sends the next frame, now or when the port is free
  void refresh(PortId port);  // after pauses, or what they may stop, changed
  Port& mutable_port(PortId id) { return ports_[id]; }
  Prng& prng() { return prng_; }

 private:
  struct Host {
    HostSettings settings;
    HostPort* adapter = nullptr;
    PortId port = 0;
    Time timer = kForever;
    // A slow adapter.
    Serialiser receiver;
    PacketQueue held;
    uint64_t held_bytes = 0;
    uint64_t most_held = 0;
    bool pausing = false;
  };

  void handle(const Event& event);
  void on_arrival(PortId port);
  void on_pause_frame(PortId port, const PauseFrame& frame);
  void count_pause(Port& port, const PauseFrame& frame);  // that leaves
  uint8_t link_mask(const Port& port) const;
  void pause_if_full(uint32_t host);
  void apply_pause(PortId port, const PauseFrame& frame);
  void on_pause_timer(PortId port);
  void arm_pause_timer(PortId port, Time at);
  void release_pauses(PortId port);
  const PfcSettings& pfc_of(const Port& port) const;
  PacketId next_frame(PortId port);
  void transmit(PortId port, PacketId id);
  void add_telemetry(PortId port, PacketId id);
  void host_receive(uint32_t host, PacketId id);
  void on_host_receive(uint32_t host);
  void on_storm(uint32_t host);
  void compute_routes();
  void discard_incoming(PortId port);
  void mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ull ^ (hash_ >> 29); }

  Time now_ = 0;
  EventQueue queue_;
  PacketPool pool_;
  std::vector<Port> ports_;
  std::vector<std::vector<PortId>> by_node_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Switch>> switches_;
  std::vector<std::function<void()>> actions_;
  std::vector<uint32_t> free_actions_;
  Observer* observer_ = nullptr;
  Prng prng_;
  bool stopped_ = false;
  uint64_t hash_;
  uint64_t events_done_ = 0;
  uint64_t packet_hops_ = 0;
  uint64_t pause_frames_ = 0;
};

}  // namespace verbena::fabric
