// A frame's way through a switch; see switch.h.
#include "fabric/switch.h"

#include <algorithm>
#include <utility>

#include "fabric/network.h"

namespace verbena::fabric {

namespace {

constexpr uint32_t kMostGrade = 4;
constexpr Time kUtilisationWindow = 10 * kMicrosecond;
constexpr uint32_t kEthernetBytes = 18;  // header and FCS around what the MTU counts
constexpr size_t kMostCauses = 100'000;

}  // namespace

const PortSettings& Switch::port_settings(uint32_t number) const {
  return *port_settings_[number];
}

void Switch::finish(std::vector<PortId> ports) {
  ports_ = std::move(ports);
  for (uint32_t number = 0; number < ports_.size(); ++number) {
    auto own = settings_.ports.find(number);
    port_settings_.push_back(own != settings_.ports.end() ? &own->second : &settings_.port);
    Port& port = network_.mutable_port(ports_[number]);
    port.settings = port_settings_[number];
    port.scheduler = Scheduler(port.settings->queues);
  }
  buffer_ = std::make_unique<SharedBuffer>(settings_, port_settings_);
  paused_groups_.assign(ports_.size(), 0);
  held_.assign(ports_.size() * ports_.size(), 0);
  if (settings_.routing.mode == RoutingSettings::kFlowlet)
    flowlets_.resize(settings_.routing.flowlet_entries);
  watchdog_.start();
}

// --- in

uint8_t Switch::classify(const PortSettings& settings, const Packet& packet) const {
  switch (settings.trust) {
    case Trust::kPort:
      return settings.default_priority;
    case Trust::kPcp:
      return settings.pcp_to_priority[packet.pcp];
    case Trust::kDscp:
    case Trust::kBoth:
      break;
  }
  return settings.dscp_to_priority[packet.dscp];
}

void Switch::receive(PortId in, PacketId id) {
  Packet& packet = network_.pool()[id];
  uint32_t number = network_.port(in).number;
  const PortSettings& settings = *port_settings_[number];
  packet.priority = classify(settings, packet);
  packet.group = settings.priority_to_group[packet.priority];
  packet.ingress = static_cast<uint16_t>(number);
  const GroupSettings& group = settings.groups[packet.group];
  if (packet.bytes > settings.mtu + kEthernetBytes)
    return network_.drop(in, id, DropCause::kMtu, false);
  if (packet.ttl <= 1) return network_.drop(in, id, DropCause::kTtl, false);
  --packet.ttl;
  uint32_t out = 0;
  if (!choose_port(packet, out)) return network_.drop(in, id, DropCause::kNoRoute, false);
  Port& egress = network_.mutable_port(ports_[out]);
  const PortSettings& to = *port_settings_[out];
  packet.queue = to.priority_to_queue[packet.priority];
  const QueueSettings& queue = to.queues[packet.queue];
  uint64_t queued = egress.queues[packet.queue].bytes;
  if ((egress.discard >> packet.queue & 1) != 0)
    return network_.drop(ports_[out], id, DropCause::kWatchdog, group.lossless);
  if (!group.lossless && egress_full(queue, queued, packet.bytes))
    return network_.drop(ports_[out], id, DropCause::kTail, false);
  bool markable = queue.ecn.mark && packet.ecn != kNotEct;
  if (queue.ecn.drop && !markable && mark_or_drop(queue.ecn, queued))
    return network_.drop(ports_[out], id, DropCause::kWred, group.lossless);
  if (!buffer_->admit(number, packet.group, packet.bytes)) {
    uint8_t refused = packet.group;
    network_.drop(in, id, DropCause::kNoBuffer, group.lossless);
    if (group.lossless) pause(number, refused);
    return;
  }
  if (markable && queue.ecn.at == EcnSettings::kEnqueue &&
      mark_or_drop(queue.ecn, queued + packet.bytes)) {
    packet.ecn = kCongestionExperienced;
    ++egress.counters.marks[packet.queue];
  }
  if (to.remark_dscp[packet.priority] != kNoRemark) packet.dscp = to.remark_dscp[packet.priority];
  if (group.lossless) held_[number * ports_.size() + out] += packet.bytes;
  uint8_t in_group = packet.group;
  network_.enqueue(ports_[out], id);
  if (group.lossless) pause_if_due(number, in_group);
}

bool Switch::egress_full(const QueueSettings& queue, uint64_t queued, uint32_t bytes) const {
  uint64_t limit = queue.max_bytes;
  if (queue.alpha > 0)
    limit = std::min(
        limit, static_cast<uint64_t>(queue.alpha * static_cast<double>(buffer_->free_shared())));
  return queued + bytes > limit;
}

// RED without an average, as switches of today do it.
bool Switch::mark_or_drop(const EcnSettings& ecn, uint64_t bytes) {
  if (bytes <= ecn.min_bytes) return false;
  if (bytes > ecn.max_bytes) return true;
  double span = static_cast<double>(ecn.max_bytes - ecn.min_bytes);
  double share = span > 0 ? static_cast<double>(bytes - ecn.min_bytes) / span : 1.0;
  constexpr double kWhole = 4294967296.0;
  return static_cast<double>(network_.prng().next() >> 32) < ecn.probability * share * kWhole;
}

// --- where to

bool Switch::choose_port(const Packet& packet, uint32_t& number) {
  std::span<const uint16_t> ports = table_.toward(packet.destination);
  if (ports.empty()) return false;
  if (ports.size() == 1) {
    number = ports[0];
    return true;
  }
  auto count = static_cast<uint32_t>(ports.size());
  switch (settings_.routing.mode) {
    case RoutingSettings::kEcmp:
      number = ports[ecmp_choice(packet.flow_hash, settings_.hash_seed + node_, count)];
      return true;
    case RoutingSettings::kAdaptive:
      number = least_loaded(ports);
      return true;
    case RoutingSettings::kFlowlet:
      break;
  }
  Flowlet& flowlet = flowlets_[packet.flow_hash & (flowlets_.size() - 1)];
  Time now = network_.now();
  bool still = flowlet.used && now - flowlet.last <= settings_.routing.flowlet_gap &&
               std::find(ports.begin(), ports.end(), flowlet.port) != ports.end();
  if (!still) flowlet.port = static_cast<uint16_t>(least_loaded(ports));
  flowlet.used = true;
  flowlet.last = now;
  number = flowlet.port;
  return true;
}

// The port of the best grade; among equals one by chance, or all would rush to the first.
uint32_t Switch::least_loaded(std::span<const uint16_t> ports) {
  uint32_t best = UINT32_MAX, chosen = ports[0], equal = 0;
  for (uint16_t number : ports) {
    uint32_t own = grade(number);
    if (own > best) continue;
    if (own < best) equal = 0;
    best = own;
    if (network_.prng().below(++equal) == 0) chosen = number;
  }
  return chosen;
}

uint32_t Switch::grade(uint32_t number) {
  Port& port = network_.mutable_port(ports_[number]);
  const RoutingSettings& routing = settings_.routing;
  Time now = network_.now();
  if (Time passed = now - port.window_start; passed >= kUtilisationWindow) {
    double sent = static_cast<double>(port.counters.tx_bytes - port.window_bytes) * 8;
    double possible = static_cast<double>(port.link.bits_per_second) *
                      (static_cast<double>(passed) / static_cast<double>(kSecond));
    port.busy_grade = sent > routing.utilisation_threshold * possible ? 1 : 0;
    port.window_start = now;
    port.window_bytes = port.counters.tx_bytes;
  }
  uint64_t step = std::max<uint64_t>(1, routing.queue_step_bytes);
  auto by_queue = static_cast<uint32_t>(std::min<uint64_t>(kMostGrade, port.queued_bytes() / step));
  return std::min(kMostGrade, by_queue + port.busy_grade);
}

// --- out

PacketId Switch::next(PortId id) {
  Port& port = network_.mutable_port(id);
  auto open = static_cast<uint8_t>(port.ready & ~(port.stopped & ~port.ignore_pause));
  if (open == 0) return kNoPacket;
  PacketPool& pool = network_.pool();
  uint32_t q = port.scheduler.pick(
      open, [&](uint32_t queue) { return pool[port.queues[queue].frames.head].bytes; });
  EgressQueue& queue = port.queues[q];
  PacketId next = queue.frames.pop(pool);
  Packet& packet = pool[next];
  queue.bytes -= packet.bytes;
  ++queue.sent;
  if (queue.frames.empty()) port.ready = static_cast<uint8_t>(port.ready & ~(1u << q));
  const EcnSettings& ecn = port.settings->queues[q].ecn;
  if (ecn.mark && ecn.at == EcnSettings::kDequeue && packet.ecn != kNotEct &&
      mark_or_drop(ecn, queue.bytes)) {
    packet.ecn = kCongestionExperienced;
    ++port.counters.marks[q];
  }
  on_dequeue(id, next);
  return next;
}

void Switch::on_dequeue(PortId out, PacketId id) {
  const Packet& packet = network_.pool()[id];
  buffer_->release(packet.ingress, packet.group, packet.bytes);
  if (!port_settings_[packet.ingress]->groups[packet.group].lossless) return;
  held_[packet.ingress * ports_.size() + network_.port(out).number] -= packet.bytes;
  resume_if_due(packet.ingress, packet.group);
}

void Switch::discard(PortId id, uint8_t queues, DropCause cause) {
  Port& port = network_.mutable_port(id);
  for (uint32_t q = 0; q < kPriorities; ++q) {
    if ((queues >> q & 1) == 0) continue;
    EgressQueue& queue = port.queues[q];
    while (!queue.frames.empty()) {
      PacketId next = queue.frames.pop(network_.pool());
      queue.bytes -= network_.pool()[next].bytes;
      on_dequeue(id, next);
      const Packet& packet = network_.pool()[next];
      bool lossless = port_settings_[packet.ingress]->groups[packet.group].lossless;
      network_.drop(id, next, cause, lossless);
    }
    port.ready = static_cast<uint8_t>(port.ready & ~(1u << q));
  }
}

// --- pauses of those upstream

uint8_t Switch::priorities_of(uint32_t number, uint32_t group) const {
  const PortSettings& settings = *port_settings_[number];
  if (settings.link_pause) return 0xff;
  uint8_t mask = 0;
  for (uint32_t p = 0; p < kPriorities; ++p)
    if (settings.priority_to_group[p] == group) mask |= static_cast<uint8_t>(1u << p);
  return static_cast<uint8_t>(mask & settings.pfc.tx_mask);
}

void Switch::pause_if_due(uint32_t number, uint32_t group) {
  if (buffer_->over(number, group)) pause(number, group);
}

void Switch::pause(uint32_t number, uint32_t group) {
  if ((paused_groups_[number] >> group & 1) != 0) return;
  uint8_t priorities = priorities_of(number, group);
  if (priorities == 0) return;
  bool first = paused_groups_[number] == 0;
  paused_groups_[number] |= static_cast<uint8_t>(1u << group);
  note_cause(number);
  if (first || !port_settings_[number]->link_pause)
    network_.send_pause(ports_[number], priorities, true);
}

void Switch::resume_if_due(uint32_t number, uint32_t group) {
  if ((paused_groups_[number] >> group & 1) == 0 || !buffer_->under(number, group)) return;
  paused_groups_[number] &= static_cast<uint8_t>(~(1u << group));
  // The whole link goes on when no group holds it any more.
  if (paused_groups_[number] == 0 || !port_settings_[number]->link_pause)
    network_.send_pause(ports_[number], priorities_of(number, group), false);
}

void Switch::note_cause(uint32_t number) {
  if (causes_.size() >= kMostCauses) return;
  uint32_t most = 0;
  for (uint32_t to = 1; to < ports_.size(); ++to)
    if (held(number, to) > held(number, most)) most = to;
  causes_.push_back({static_cast<uint16_t>(number), static_cast<uint16_t>(most)});
}

}  // namespace verbena::fabric
