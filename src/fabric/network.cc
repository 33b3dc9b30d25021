// Building and running: who is connected to whom, and what each event does. Pauses are in pause.cc.
#include "fabric/network.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace verbena::fabric {

const char* name(DropCause cause) {
  static constexpr const char* kNames[kDropCauses] = {"no buffer", "queue full", "WRED",
                                                      "TTL",       "no route",   "MTU",
                                                      "link down", "watchdog",   "host buffer"};
  return kNames[static_cast<size_t>(cause)];
}

Network::Network(uint64_t seed) : prng_(seed), hash_(seed) {}
Network::~Network() = default;

// --- building

uint32_t Network::add_host(const HostSettings& settings) {
  CHECK(switches_.empty());
  Host host;
  host.settings = settings;
  host.receiver = Serialiser(settings.receive_bits_per_second);
  hosts_.push_back(host);
  by_node_.emplace_back();
  return hosts() - 1;
}

uint32_t Network::add_switch(const SwitchSettings& settings) {
  uint32_t node = nodes();
  switches_.push_back(std::make_unique<Switch>(*this, node, settings));
  by_node_.emplace_back();
  return node;
}

PortId Network::connect(uint32_t a, uint32_t b, const LinkSettings& settings) {
  PortId first = ports();
  for (uint32_t node : {a, b}) {
    Port port;
    port.node = node;
    port.number = static_cast<uint16_t>(by_node_[node].size());
    port.is_host = node < hosts();
    port.link = settings;
    port.wire = Serialiser(settings.bits_per_second);
    by_node_[node].push_back(ports());
    ports_.push_back(port);
  }
  ports_[first].peer = first + 1;
  ports_[first + 1].peer = first;
  return first;
}

void Network::finish() {
  for (uint32_t h = 0; h < hosts(); ++h) {
    CHECK(by_node_[h].size() == 1);
    hosts_[h].port = by_node_[h][0];
    const HostSettings& settings = hosts_[h].settings;
    if (settings.storm_mask != 0) queue_.push(settings.storm_from, EventKind::kStorm, h);
  }
  for (auto& s : switches_) s->finish(by_node_[s->node()]);
  compute_routes();
}

void Network::compute_routes() {
  Graph graph;
  graph.hosts = hosts();
  graph.edges.resize(nodes());
  for (const Port& port : ports_)
    if (port.up) graph.edges[port.node].push_back({ports_[port.peer].node, port.number});
  std::vector<RouteTable> tables = fabric::compute_routes(graph);
  for (size_t s = 0; s < switches_.size(); ++s) switches_[s]->routes(std::move(tables[s]));
}

// --- running

void Network::run(Time until) {
  stopped_ = false;
  Event event;
  while (!stopped_ && queue_.pop(until, event)) {
    now_ = event.at;
    ++events_done_;
    handle(event);
  }
  if (!stopped_ && until != kForever) now_ = until;
}

void Network::at(Time when, std::function<void()> action) {
  uint32_t index;
  if (free_actions_.empty()) {
    index = static_cast<uint32_t>(actions_.size());
    actions_.emplace_back();
  } else {
    index = free_actions_.back();
    free_actions_.pop_back();
  }
  actions_[index] = std::move(action);
  queue_.push(when, EventKind::kControl, index);
}

void Network::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kArrival:
      return on_arrival(event.index);
    case EventKind::kPortFree:
      ports_[event.index].free_pending = false;
      return kick(event.index);
    case EventKind::kPauseTimer:
      return on_pause_timer(event.index);
    case EventKind::kHostTimer: {
      Host& host = hosts_[event.index];
      if (host.timer != now_) return;  // moved since
      host.timer = kForever;
      host.adapter->on_time(now_);
      return;
    }
    case EventKind::kHostReceive:
      return on_host_receive(event.index);
    case EventKind::kStorm:
      return on_storm(event.index);
    case EventKind::kControl: {
      std::function<void()> action = std::exchange(actions_[event.index], nullptr);
      free_actions_.push_back(event.index);
      action();
      return;
    }
  }
}

void Network::set_timer(uint32_t host, Time at) {
  if (at == hosts_[host].timer) return;
  hosts_[host].timer = at;
  if (at != kForever) queue_.push(at, EventKind::kHostTimer, host);
}

// --- frames on links

void Network::kick(PortId id) {
  Port& port = ports_[id];
  if (now_ < port.busy_until) {
    if (port.free_pending) return;
    port.free_pending = true;
    queue_.push(port.busy_until, EventKind::kPortFree, id);
    return;
  }
  PacketId next = next_frame(id);
  if (next != kNoPacket) transmit(id, next);
}

PacketId Network::next_frame(PortId id) {
  Port& port = ports_[id];
  if (!port.up) return kNoPacket;
  if (!port.control.empty()) return port.control.pop(pool_);
  if (!port.is_host) return switches_[port.node - hosts()]->next(id);
  Host& host = hosts_[port.node];
  return host.adapter ? host.adapter->next(now_, open_priorities(port.node)) : kNoPacket;
}

void Network::transmit(PortId id, PacketId frame) {
  Port& port = ports_[id];
  Packet& packet = pool_[frame];
  if (packet.collects && !port.is_host) add_telemetry(id, frame);
  Time takes = port.wire.take(packet.bytes + port.link.gap_bytes);
  // A pause that the frame's leaving set free may have gone out of this port before it.
  port.busy_until = std::max(now_, port.busy_until) + takes;
  port.counters.busy += takes;
  port.counters.tx_bytes += packet.bytes;
  ++port.counters.tx_packets;
  if (packet.kind == FrameKind::kPause) count_pause(port, pool_.body(frame).pause);
  if (packet.kind == FrameKind::kRoce) {
    PriorityCounters& counters = port.counters.priority[packet.priority];
    ++counters.tx_packets;
    counters.tx_bytes += packet.bytes;
    ++packet_hops_;
  }
  if (observer_) observer_->on_sent(now_, id, packet, pool_.body(frame));
  packet.arrives = port.busy_until + port.link.delay;
  Port& peer = ports_[port.peer];
  if (!peer.is_host) packet.arrives += switches_[peer.node - hosts()]->settings().latency;
  bool alone = peer.incoming.empty();
  peer.incoming.push(pool_, frame);
  if (alone) queue_.push(packet.arrives, EventKind::kArrival, port.peer);
  bool more = port.is_host || !port.control.empty() ||
              (port.ready & ~(port.stopped & ~port.ignore_pause)) != 0;
  if (more && !port.free_pending) {
    port.free_pending = true;
    queue_.push(port.busy_until, EventKind::kPortFree, id);
  }
}

// The frame grows, behind the switch's buffer: what that counts is what came in.
void Network::add_telemetry(PortId id, PacketId frame) {
  const Port& port = ports_[id];
  Body& body = pool_.body(frame);
  if (!switches_[port.node - hosts()]->settings().telemetry || body.hops == kMaxTelemetry) return;
  pool_.telemetry(frame)[body.hops++] = {port.link.bits_per_second, port.counters.tx_bytes,
                                         port.queued_bytes(), now_, id};
  pool_[frame].bytes += body.hop_bytes;
}

void Network::on_arrival(PortId id) {
  Port& port = ports_[id];
  if (port.incoming.empty()) return;  // the link went down
  if (pool_[port.incoming.head].arrives != now_) return;
  PacketId frame = port.incoming.pop(pool_);
  if (!port.incoming.empty())
    queue_.push(pool_[port.incoming.head].arrives, EventKind::kArrival, id);
  const Packet& packet = pool_[frame];
  mix(static_cast<uint64_t>(now_) ^ uint64_t{id} << 48);
  mix(uint64_t{packet.bytes} << 32 | packet.psn << 2 | packet.ecn);
  if (observer_) observer_->on_received(now_, id, packet, pool_.body(frame));
  if (packet.kind == FrameKind::kPause) {
    PauseFrame pause = pool_.body(frame).pause;
    pool_.give(frame);
    return on_pause_frame(id, pause);
  }
  if (port.is_host) return host_receive(port.node, frame);
  switches_[port.node - hosts()]->receive(id, frame);
}

void Network::enqueue(PortId id, PacketId frame) {
  Port& port = ports_[id];
  const Packet& packet = pool_[frame];
  EgressQueue& queue = port.queues[packet.queue];
  queue.frames.push(pool_, frame);
  queue.bytes += packet.bytes;
  uint64_t& most = port.counters.most_bytes[packet.queue];
  if (queue.bytes > most) most = queue.bytes;
  port.ready |= static_cast<uint8_t>(1u << packet.queue);
  kick(id);
}

void Network::drop(PortId id, PacketId frame, DropCause cause, bool lossless) {
  Port& port = ports_[id];
  ++port.counters.drops[static_cast<size_t>(cause)];
  if (lossless) ++port.counters.lossless_drops;
  if (observer_) observer_->on_drop(now_, id, pool_[frame], cause);
  pool_.give(frame);
}

// --- links that fail

void Network::discard_incoming(PortId id) {
  Port& port = ports_[id];
  while (!port.incoming.empty()) drop(id, port.incoming.pop(pool_), DropCause::kLinkDown, false);
}

void Network::set_link(PortId id, bool up) {
  PortId ends[2] = {id, ports_[id].peer};
  if (ports_[id].up == up) return;
  for (PortId end : ends) ports_[end].up = up;
  compute_routes();
  for (PortId end : ends) {
    Port& port = ports_[end];
    if (!port.is_host) switches_[port.node - hosts()]->forget_pauses(port.number);
    if (!up) {
      discard_incoming(end);
      while (!port.control.empty()) pool_.give(port.control.pop(pool_));
      if (!port.is_host) switches_[port.node - hosts()]->discard(end, 0xff, DropCause::kLinkDown);
      release_pauses(end);
    } else {
      kick(end);
    }
    // Its switch forgot that it was stopped; a slow receiver says so again.
    if (port.is_host) {
      hosts_[port.node].pausing = false;
      if (up) pause_if_full(port.node);
    }
  }
}

// --- the receive side of adapters

void Network::host_receive(uint32_t h, PacketId frame) {
  Host& host = hosts_[h];
  const HostSettings& settings = host.settings;
  if (settings.receive_bits_per_second == 0) {
    if (host.adapter) return host.adapter->receive(now_, frame);
    pool_.give(frame);
    return;
  }
  uint32_t bytes = pool_[frame].bytes;
  if (host.held_bytes + bytes > settings.receive_buffer_bytes)
    return drop(host.port, frame, DropCause::kHostBuffer, true);
  if (host.held.empty()) queue_.push(now_ + host.receiver.take(bytes), EventKind::kHostReceive, h);
  host.held.push(pool_, frame);
  host.held_bytes += bytes;
  if (host.held_bytes > host.most_held) host.most_held = host.held_bytes;
  pause_if_full(h);
}

void Network::pause_if_full(uint32_t h) {
  Host& host = hosts_[h];
  const HostSettings& settings = host.settings;
  if (settings.receive_bits_per_second == 0 || settings.pfc.tx_mask == 0) return;
  if (host.pausing || host.held_bytes < settings.receive_xoff_bytes) return;
  host.pausing = true;
  send_pause(host.port, settings.pfc.tx_mask, true);
}

void Network::on_host_receive(uint32_t h) {
  Host& host = hosts_[h];
  PacketId frame = host.held.pop(pool_);
  host.held_bytes -= pool_[frame].bytes;
  if (!host.held.empty()) {
    Time takes = host.receiver.take(pool_[host.held.head].bytes);
    queue_.push(now_ + takes, EventKind::kHostReceive, h);
  }
  if (host.pausing && host.held_bytes <= host.settings.receive_xon_bytes) {
    host.pausing = false;
    send_pause(host.port, host.settings.pfc.tx_mask, false);
  }
  if (host.adapter) return host.adapter->receive(now_, frame);
  pool_.give(frame);
}

}  // namespace verbena::fabric
