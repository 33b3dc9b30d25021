// The world's event loop, and packets on their way between its engines.
#include "sim/world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "wire/frame.h"
#include "wire/icrc.h"

namespace verbena::sim {

namespace {

constexpr Duration kRetryAfter = microseconds(1);  // a refused packet is offered again
constexpr uint64_t kSeedOfRoads = 0x726f616473ull;

size_t host_of(const engine::Gid& gid) {
  return size_t{gid.bytes[14]} << 8 | gid.bytes[15];
}

}  // namespace

// One packet on a road.
struct World::Flight {
  size_t from = 0, to = 0;
  std::vector<uint8_t> bytes;  // wire: the IP datagram; local: headers as on the wire, then payload
  // Local only.
  size_t header_bytes = 0;
  engine::AddressVector route;
  std::vector<memory::Segment> segments;  // of the sender, when by reference
  uint32_t length = 0;
  bool by_reference = false;
  uint8_t path_mtu = 0;
  uint32_t source_qpn = 0, epoch = 0, region_key = 0;
};

struct World::Event {
  Instant at;
  uint64_t order = 0;
  std::unique_ptr<Flight> flight;  // or else:
  std::function<void()> action;
};

class World::Sink : public engine::PacketSink {
 public:
  Sink(World& world, size_t host) : world_(world), host_(host) {}
  bool send(const engine::TxPacket& packet) override { return world_.send(host_, packet); }

 private:
  World& world_;
  size_t host_;
};

// Fetches bytes that a packet refers to, unless their owner took them back.
class World::Fetcher : public memory::ForeignMemory {
 public:
  Fetcher(World& world, const Flight& flight) : world_(world), flight_(flight) {}

  bool copy_out(std::span<const memory::Segment> segments, size_t offset, uint8_t* to,
                size_t length) override {
    Host& owner = world_.hosts_[flight_.from];
    memory::KeyTable& keys = owner.device->keys();
    bool offered = flight_.region_key ? keys.find_region(flight_.region_key) != nullptr
                                      : owner.epochs[flight_.source_qpn] == flight_.epoch;
    bool vanishes = world_.prng_.chance_ppm(world_.options_.lose_ppm);
    size_t copied = vanishes ? world_.prng_.below(length) : length;
    memory::Payload plain{segments, flight_.length, nullptr};
    if (!offered || !plain.copy_out(offset, to, copied) || vanishes) {
      ++world_.counters_.payload_lost;
      return false;
    }
    return true;
  }

 private:
  World& world_;
  const Flight& flight_;
};

World::World(const WorldOptions& options)
    : options_(options), prng_(options.seed), hash_(options.seed) {}
World::~World() = default;

engine::Gid World::gid(size_t host) {
  engine::Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 10;
  gid.bytes[14] = static_cast<uint8_t>((host + 1) >> 8);
  gid.bytes[15] = static_cast<uint8_t>(host + 1);
  return gid;
}

size_t World::add_host(engine::DeviceOptions options) {
  Host host;
  options.seed = prng_.next();
  host.device = std::make_unique<engine::Device>(options);
  hosts_.push_back(std::move(host));
  return hosts_.size() - 1;
}

Road& World::road(size_t from, size_t to) {
  auto found = roads_.find({from, to});
  if (found != roads_.end()) return found->second;
  Prng seeds(options_.seed ^ kSeedOfRoads ^ (uint64_t{from} << 20 | to) * 0x9e3779b97f4a7c15ull);
  return roads_.emplace(std::pair{from, to}, Road(options_.faults, seeds.next())).first->second;
}

// --- the event loop

void World::push(Event event) {
  event.order = order_++;
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), [](const Event& a, const Event& b) {
    return std::pair{a.at, a.order} > std::pair{b.at, b.order};
  });
}

void World::at(Instant when, std::function<void()> action) {
  push({std::max(when, now_), 0, nullptr, std::move(action)});
}

Instant World::next_deadline(size_t& host) const {
  Instant first = kNever;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    Instant deadline = hosts_[i].device->next_deadline();
    if (deadline < first) {
      first = deadline;
      host = i;
    }
  }
  return first;
}

bool World::quiet() const {
  size_t host = 0;
  return queue_.empty() && next_deadline(host) == kNever;
}

bool World::run(Instant until) {
  for (;;) {
    size_t host = 0;
    Instant deadline = next_deadline(host);
    Instant event = queue_.empty() ? kNever : queue_.front().at;
    Instant next = std::min(deadline, event);
    if (next == kNever || next > until) {
      if (until != kNever) now_ = until;
      return true;
    }
    if (++steps_ > options_.max_steps) return false;
    now_ = std::max(now_, next);
    if (event <= deadline) {
      std::pop_heap(queue_.begin(), queue_.end(), [](const Event& a, const Event& b) {
        return std::pair{a.at, a.order} > std::pair{b.at, b.order};
      });
      Event due = std::move(queue_.back());
      queue_.pop_back();
      if (due.flight)
        deliver(*due.flight);
      else
        due.action();
    } else {
      note(static_cast<uint64_t>(now_.ps) ^ host);
      hosts_[host].device->on_time(now_);
      service(host);
    }
  }
}

void World::take_events(size_t host) {
  std::vector<engine::Event> events = std::exchange(hosts_[host].device->events(), {});
  for (const engine::Event& event : events) {
    if (event.kind == engine::Event::kLeftService) ++hosts_[host].epochs[event.qp->qpn()];
    if (on_event) on_event(host, event);
  }
}

void World::service(size_t host) {
  Sink sink(*this, host);
  engine::Device& device = *hosts_[host].device;
  engine::TransmitResult result;
  do {
    result = device.transmit(now_, sink);
    take_events(host);
    if (on_step) on_step(host);
    take_events(host);
  } while (result != engine::TransmitResult::kBlocked && device.wants_to_transmit());
  if (result == engine::TransmitResult::kBlocked && !hosts_[host].retry_planned) {
    hosts_[host].retry_planned = true;
    at(now_ + kRetryAfter, [this, host] {
      hosts_[host].retry_planned = false;
      service(host);
    });
  }
}

// --- packets

bool World::send(size_t from, const engine::TxPacket& packet) {
  const engine::Gid& to = packet.route->destination;
  if (to.is_multicast()) {
    for (size_t i = 0; i < hosts_.size(); ++i) send_to(from, i, packet);
  } else {
    size_t host = host_of(to);  // a packet to nobody's address is lost
    if (host > 0 && host <= hosts_.size() && !send_to(from, host - 1, packet)) return false;
  }
  if (on_send) on_send(from, packet);
  return true;
}

// The IP datagram: IPv4, UDP, BTH and extension headers, payload, pad, ICRC.
std::vector<uint8_t> World::encode(const engine::TxPacket& packet) const {
  uint8_t headers[wire::kMaxHeaderBytes];
  size_t header_bytes = wire::emit_headers(packet.header, headers);
  size_t udp_payload =
      header_bytes + packet.payload.length + packet.header.pad_count + wire::kIcrcBytes;
  std::vector<uint8_t> bytes(wire::kIpv4UdpBytes + udp_payload);
  std::span<const uint8_t, 16> source(packet.route->source.bytes);
  std::span<const uint8_t, 16> destination(packet.route->destination.bytes);
  wire::DatagramHeaders chosen;
  chosen.source_port =
      wire::udp_source_port(packet.route->flow_label, packet.source_qpn, packet.header.dest_qpn);
  chosen.traffic_class = packet.route->traffic_class;
  wire::emit_ipv4_udp(std::span(bytes).first<wire::kIpv4UdpBytes>(), source.last<4>(),
                      destination.last<4>(), chosen, static_cast<uint16_t>(udp_payload));
  uint8_t* at = bytes.data() + wire::kIpv4UdpBytes;
  std::memcpy(at, headers, header_bytes);
  CHECK(packet.payload.copy_out(0, at + header_bytes, packet.payload.length));
  auto frame = wire::parse_ip(bytes);
  CHECK(frame);
  wire::icrc_store(bytes.data() + bytes.size() - wire::kIcrcBytes, wire::icrc_of(*frame));
  return bytes;
}

bool World::send_to(size_t from, size_t to, const engine::TxPacket& packet) {
  Fate fate = road(from, to).judge(now_, packet.payload.length + wire::kMaxHeaderBytes);
  if (fate.refused) return false;
  ++counters_.packets;
  Flight flight;
  flight.from = from;
  flight.to = to;
  if (options_.local) {
    uint8_t headers[wire::kMaxHeaderBytes];
    flight.header_bytes = wire::emit_headers(packet.header, headers);
    flight.bytes.assign(headers, headers + flight.header_bytes);
    flight.route = *packet.route;
    flight.length = packet.payload.length;
    flight.by_reference = packet.by_reference;
    flight.source_qpn = packet.source_qpn;
    flight.region_key = packet.region_key;
    flight.path_mtu = packet.path_mtu;
    flight.epoch = hosts_[from].epochs[packet.source_qpn];
    if (flight.by_reference) {
      flight.segments.assign(packet.payload.segments.begin(), packet.payload.segments.end());
    } else {
      flight.bytes.resize(flight.header_bytes + flight.length);
      CHECK(packet.payload.copy_out(0, &flight.bytes[flight.header_bytes], flight.length));
    }
  } else {
    flight.bytes = encode(packet);
    note(wire::icrc_load(&flight.bytes[flight.bytes.size() - wire::kIcrcBytes]));
  }
  note(static_cast<uint64_t>(now_.ps) << 4 | fate.copies);
  for (int i = 0; i < fate.copies; ++i) {
    auto copy = std::make_unique<Flight>(flight);
    if (i == 0 && !options_.local) {
      for (int n = 0; n < fate.turned_bits; ++n) {
        uint64_t bit = road(from, to).prng().below(copy->bytes.size() * 8);
        copy->bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      }
    }
    push({fate.arrivals[i], 0, std::move(copy), {}});
  }
  return true;
}

void World::deliver(Flight& flight) {
  note(static_cast<uint64_t>(now_.ps) << 8 ^ flight.to ^ flight.bytes.size() << 32);
  if (options_.local)
    deliver_local(flight);
  else
    deliver_bytes(flight);
  service(flight.to);
}

void World::deliver_bytes(Flight& flight) {
  auto frame = wire::parse_ip(flight.bytes);
  if (!frame) {
    ++counters_.unparsable;
    return;
  }
  if (wire::icrc_of(*frame) != wire::icrc_carried(*frame)) {
    ++counters_.bad_icrc;
    return;
  }
  wire::Parsed parsed = wire::parse(frame->udp_payload);
  if (parsed.error != wire::ParseError::kNone) {
    ++counters_.unparsable;
    return;
  }
  engine::RxPacket rx;
  rx.header = parsed.packet;
  memory::Segment segment{const_cast<uint8_t*>(parsed.payload.data()), parsed.payload.size()};
  rx.payload = {{&segment, 1}, static_cast<uint32_t>(parsed.payload.size()), nullptr};
  for (engine::Gid* gid : {&rx.source, &rx.destination}) gid->bytes[10] = gid->bytes[11] = 0xff;
  std::memcpy(&rx.source.bytes[12], frame->ip4.source, 4);
  std::memcpy(&rx.destination.bytes[12], frame->ip4.destination, 4);
  rx.traffic_class = frame->ip4.tos;
  rx.hop_limit = frame->ip4.ttl;
  ++counters_.delivered;
  hosts_[flight.to].device->receive(now_, rx);
}

void World::deliver_local(Flight& flight) {
  // Headers cross the same codec as on the wire; four bytes stand for the ICRC.
  std::vector<uint8_t> headers(flight.bytes.begin(),
                               flight.bytes.begin() + static_cast<long>(flight.header_bytes));
  headers[1] &= static_cast<uint8_t>(~0x30);  // the pad is not sent here
  headers.resize(headers.size() + wire::kIcrcBytes);
  wire::Parsed parsed = wire::parse(headers);
  CHECK(parsed.error == wire::ParseError::kNone);
  engine::RxPacket rx;
  rx.header = parsed.packet;
  Fetcher fetcher(*this, flight);
  memory::Segment segment{flight.bytes.data() + flight.header_bytes, flight.length};
  if (flight.by_reference)
    rx.payload = {flight.segments, flight.length, &fetcher};
  else
    rx.payload = {{&segment, 1}, flight.length, nullptr};
  rx.source = flight.route.source;
  rx.destination = flight.route.destination;
  rx.path = engine::Path::kLocal;
  rx.path_mtu = flight.path_mtu;
  rx.traffic_class = flight.route.traffic_class;
  ++counters_.delivered;
  hosts_[flight.to].device->receive(now_, rx);
}

}  // namespace verbena::sim
