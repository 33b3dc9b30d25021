// Everything here comes from the wire: what is no datagram to QP 1 with its Q_Key and a whole MAD
// is dropped.
#include "broker/management.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

namespace verbena::broker {
namespace {

constexpr int kHoldMs = 500;  // as a port that is bound and does not listen yet
constexpr int kLookAgainMs = 10;
constexpr size_t kMaxHeld = 64;

// The interface that has the link-local address, without which nothing can leave from it; 0: none.
uint32_t interface_of(const engine::Gid& gid) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return 0;
  uint32_t index = 0;
  for (const ifaddrs* at = all; at != nullptr && index == 0; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET6) continue;
    sockaddr_in6 address;
    std::memcpy(&address, at->ifa_addr, sizeof(address));
    if (std::memcmp(&address.sin6_addr, gid.bytes.data(), gid.bytes.size()) == 0)
      index = ::if_nametoindex(at->ifa_name);
  }
  ::freeifaddrs(all);
  return index;
}

}  // namespace

Result<std::unique_ptr<Management>> Management::open(const SlotSockets& zero, uint16_t port) {
  link::UdpOptions options;
  options.udp4 = zero.udp4.get();
  options.udp6 = zero.udp6.get();
  options.slot = 0;
  options.port = port;
  options.segmentation = false;
  options.interface_of = [](const engine::AddressVector& route) {
    return interface_of(route.source);
  };
  Result<std::unique_ptr<link::UdpLink>> udp = link::UdpLink::open(options);
  if (!udp) return tl::unexpected<Error>(udp.error());
  std::unique_ptr<Management> made(new Management);
  made->udp_ = std::move(*udp);
  return made;
}

void Management::receive(Deliver deliver) {
  udp_->receive([&](const engine::RxPacket& packet) { on_packet(packet, deliver); },
                [](uint8_t, const engine::RxPacket&) { return false; }, /*thorough=*/true);
  udp_->flush();
}

void Management::on_packet(const engine::RxPacket& packet, Deliver deliver) {
  if (!cm::is_management(packet)) return;
  MadMessage message;
  message.traffic_class = packet.traffic_class;
  message.hop_limit = packet.hop_limit;
  std::memcpy(message.source, packet.source.bytes.data(), sizeof(message.source));
  std::memcpy(message.destination, packet.destination.bytes.data(), sizeof(message.destination));
  if (!packet.payload.copy_out(0, message.mad, cm::kMadBytes)) return;
  const std::optional<cm::Destination> to = cm::destination_of(message.mad);
  const Fate fate = to ? deliver(*to, message) : Fate::kTaken;
  if (fate == Fate::kTaken) return;
  if (fate == Fate::kNobodyYet && held_.size() < kMaxHeld)
    held_.push_back({0, *to, message});
  else
    answer(message);
}

void Management::answer(const MadMessage& message) {
  const auto answer = cm::answer_for_nobody(message.mad);
  if (!answer) return;
  cm::Route back;
  std::memcpy(back.source.bytes.data(), message.destination, sizeof(message.destination));
  std::memcpy(back.destination.bytes.data(), message.source, sizeof(message.source));
  send(back, *answer);
}

int Management::look_again(int64_t now_ms, Deliver deliver) {
  if (held_.empty()) return -1;
  std::erase_if(held_, [&](Held& held) {
    if (held.until_ms == 0) held.until_ms = now_ms + kHoldMs;
    if (deliver(held.to, held.message) == Fate::kTaken) return true;
    if (held.until_ms > now_ms) return false;
    answer(held.message);
    return true;
  });
  udp_->flush();
  return held_.empty() ? -1 : kLookAgainMs;
}

}  // namespace verbena::broker
