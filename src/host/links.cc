// Opens the links, routes between them, and translates their counters into the engine's.
#include "host/links.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

#include "link/slot.h"

namespace verbena::host {
namespace {

constexpr uint32_t kLocalBurst = 256;  // packets per receive()
constexpr uint32_t kWireBurst = 4;     // datagrams of one socket per receive(): more may wait
constexpr uint32_t kMinWireWindow = 64 * 1024;
constexpr uint32_t kMaxWireWindow = 1024 * 1024;
constexpr Duration kReportInterval = seconds(1);

}  // namespace

Links::Links(HostAddresses& addresses)
    : addresses_(addresses), trace_(::getenv("VERBENA_TRACE"), "VERBENA_TRACE", "packets") {}

Links::~Links() = default;

Result<std::unique_ptr<Links>> Links::open(const broker::AttachOptions& options,
                                           HostAddresses& addresses) {
  Result<std::unique_ptr<broker::Lease>> lease = broker::attach(options);
  if (!lease) return tl::unexpected<Error>(lease.error());
  std::unique_ptr<Links> links(new Links(addresses));
  links->lease_ = std::move(*lease);
  link::UdpOptions udp;
  udp.udp4 = links->lease_->udp4();
  udp.udp6 = links->lease_->udp6();
  udp.slot = links->slot();
  udp.port = options.port;
  udp.interface_of = [&addresses](const engine::AddressVector& route) {
    return addresses.interface_of(route.source);
  };
  Result<std::unique_ptr<link::UdpLink>> opened = link::UdpLink::open(udp);
  if (!opened) return tl::unexpected<Error>(opened.error());
  links->udp_ = std::move(*opened);
  broker::Lease& slot = *links->lease_;
  links->local_ = std::make_unique<link::LocalLink>(slot, slot.segment().local, slot.slot(),
                                                    slot.generation(), slot.wakeup());
  Result<void> lenses = links->open_lenses();
  if (!lenses) return tl::unexpected<Error>(lenses.error());
  return links;
}

Result<void> Links::open_lenses() {
  if (!trace_.opened()) return trace_.opened();
  auto setting = [](const char* name) {
    const char* value = ::getenv(name);
    return std::string(value ? value : "");
  };
  link::LensOptions options;
  options.fault = setting("VERBENA_FAULT");
  options.pcap = setting("VERBENA_PCAP");
  if (trace_.enabled()) options.trace = [this](std::string_view line) { trace_.write(line); };
  options.spoil_next = [this] { udp_->spoil_next(); };
  Result<std::unique_ptr<link::LensStack>> lenses = link::LensStack::open(*this, options);
  if (!lenses) return tl::unexpected<Error>(lenses.error());
  lenses_ = std::move(*lenses);
  return {};
}

// Peers are taken to have such a socket as we. The kernel counts the memory that holds a packet: up
// to 5/3 of its payload at a path MTU of 4096.
uint32_t Links::wire_window_bytes() const {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  if (::getsockopt(lease_->udp4(), SOL_SOCKET, SO_RCVBUF, &bytes, &length) != 0) bytes = 0;
  return std::clamp(static_cast<uint32_t>(bytes) / 5 * 3, kMinWireWindow, kMaxWireWindow);
}

bool Links::eligible(uint32_t qpn) const {
  return local_->eligible(link::slot_of(qpn));
}

Result<void> Links::prepare(uint32_t qpn) {
  const uint8_t slot = link::slot_of(qpn);
  if (local_->prepare(slot) || !local_->no_room_for(slot)) return {};
  return fail(
      ENOMEM,
      fmt::format("QP {:#08x} is of a process on this host, whose memory for the local link "
                  "({} MiB of address space) cannot be mapped: raise `ulimit -v`, or set "
                  "VERBENA_LOCAL=off for both",
                  qpn, broker::kSegmentBytes >> 20));
}

// --- out

engine::PacketSink& Links::sink(Instant now) {
  now_ = now;
  if (!lenses_) return *this;
  lenses_->on_time(now);
  return lenses_->top();
}

void Links::on_time(Instant now) {
  now_ = now;
  if (lenses_) lenses_->on_time(now);
}

bool Links::goes_local(const engine::TxPacket& packet) {
  if (packet.path != engine::Path::kAny) return packet.path == engine::Path::kLocal;
  const engine::Gid& destination = packet.route->destination;
  return !destination.is_multicast() && eligible(packet.header.dest_qpn) &&
         addresses_.contains(now_, destination);
}

bool Links::send(const engine::TxPacket& packet) {
  if (goes_local(packet)) return local_->send(packet);
  if (!udp_->send(packet)) return false;
  ++staged_;
  return true;
}

bool Links::flush() {
  ring();
  if (staged_ == 0) return true;
  if (!udp_->flush()) return false;
  staged_ = 0;
  return true;
}

// --- in

Links::Taken Links::receive(engine::Device& engine, Instant now, bool look_at_wire, bool thorough) {
  Taken taken;
  auto visit = [&](const engine::RxPacket& packet) {
    if (lenses_) lenses_->received(packet);
    engine.receive(now, packet);
  };
  taken.local = static_cast<uint32_t>(local_->receive(visit, kLocalBurst));
  taken.drained = taken.local < kLocalBurst;
  if (!look_at_wire) return taken;
  auto forward = [this](uint8_t to, const engine::RxPacket& packet) {
    return local_->forward(to, packet);
  };
  taken.wire = static_cast<uint32_t>(udp_->receive(visit, forward, thorough));
  if (taken.wire >= kWireBurst) taken.drained = false;
  if (taken.wire != 0) count_drops(engine);
  if (engine.explaining()) explain_losses(engine, now);
  return taken;
}

void Links::count_drops(engine::Device& engine) {
  const link::UdpReceiveCounters& counters = udp_->receive_counters();
  uint64_t malformed = counters.truncated;
  for (uint64_t n : counters.parse_errors) malformed += n;
  // Nobody's packets: the first device's, whichever counts now.
  engine::Counters& to = engine.first_port_counters();
  to.rx_icrc_encapsulated += counters.icrc_errors - counted_icrc_errors_;
  to.rx_malformed += malformed - counted_malformed_;
  counted_icrc_errors_ = counters.icrc_errors;
  counted_malformed_ = malformed;
}

void Links::explain_losses(engine::Device& engine, Instant now) {
  const link::UdpSendCounters& counters = udp_->send_counters();
  uint64_t lost = counters.too_big + counters.unreachable + counters.refused;
  if (lost == reported_losses_ || now - reported_ < kReportInterval) return;
  const char* advice = "see `ip route`";
  if (counters.last_error == EMSGSIZE)
    advice =
        "the queue pair's path MTU does not fit the route: choose a smaller one or raise the "
        "interface MTU";
  engine.explain(fmt::format("{} packets did not leave this host: {}; {}", lost - reported_losses_,
                             strerror(counters.last_error), advice));
  reported_losses_ = lost;
  reported_ = now;
}

// --- sleep

size_t Links::fill(pollfd* fds) const {
  size_t count = 0;
  fds[count++] = {lease_->wakeup(), POLLIN, 0};
  fds[count++] = {lease_->udp4(), POLLIN, 0};
  if (lease_->udp6() >= 0) fds[count++] = {lease_->udp6(), POLLIN, 0};
  return count;
}

bool Links::prepare_to_sleep() {
  bell_on_ = true;
  return local_->prepare_sleep();
}

void Links::awake() {
  if (bell_on_) local_->finish_sleep();
  bell_on_ = false;
}

// --- what same-host peers may read, and what the wire still points at

void Links::revoke(uint32_t qpn) {
  udp_->let_go();
  local_->revoke(qpn);
}
void Links::publish_key(uint32_t key) {
  local_->publish_key(key);
}
void Links::withdraw_key(uint32_t key) {
  udp_->let_go();
  local_->withdraw_key(key);
}

// --- groups

int Links::join(const engine::Gid& group, uint32_t interface_index) {
  uint8_t bytes[16];
  memcpy(bytes, group.bytes.data(), sizeof bytes);
  Result<void> result = lease_->join(bytes, interface_index);
  return result ? 0 : result.error().code;
}

int Links::leave(const engine::Gid& group, uint32_t interface_index) {
  uint8_t bytes[16];
  memcpy(bytes, group.bytes.data(), sizeof bytes);
  Result<void> result = lease_->leave(bytes, interface_index);
  return result ? 0 : result.error().code;
}

}  // namespace verbena::host
