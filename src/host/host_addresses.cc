// The address cache and the route probe: a UDP socket that is connected and never written.
#include "host/host_addresses.h"

#include <errno.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_socket.h"
#include "host/config.h"
#include "host/interfaces.h"
#include "link/fd.h"
#include "wire/headers.h"

namespace verbena::host {
namespace {

constexpr Duration kRefreshInterval = seconds(1);

bool is_loopback_ipv4(const engine::Gid& gid) {
  return gid.is_ipv4() && gid.bytes[12] == 127;
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const engine::Gid& gid, uint16_t port, uint32_t interface_index) {
  SocketAddress out;
  if (gid.is_ipv4()) {
    auto* address = reinterpret_cast<sockaddr_in*>(&out.storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    memcpy(&address->sin_addr, gid.bytes.data() + 12, 4);
    out.length = sizeof(sockaddr_in);
  } else {
    auto* address = reinterpret_cast<sockaddr_in6*>(&out.storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(port);
    memcpy(&address->sin6_addr, gid.bytes.data(), 16);
    if (gid.is_link_local()) address->sin6_scope_id = interface_index;
    out.length = sizeof(sockaddr_in6);
  }
  return out;
}

}  // namespace

const HostAddresses::Entry* HostAddresses::find(const engine::Gid& gid) const {
  auto it =
      std::lower_bound(entries_.begin(), entries_.end(), gid,
                       [](const Entry& entry, const engine::Gid& g) { return entry.gid < g; });
  return it != entries_.end() && it->gid == gid ? &*it : nullptr;
}

void HostAddresses::refresh() {
  Result<std::vector<Interface>> interfaces = read_interfaces();
  if (!interfaces) return;  // the old list is the better guess
  entries_.clear();
  for (const Interface& interface : *interfaces)
    for (const InterfaceAddress& address : interface.addresses)
      entries_.push_back({address.gid, interface.ifindex});
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.gid < b.gid; });
  last_miss_ = {};
}

bool HostAddresses::contains_now(const engine::Gid& gid) {
  if (is_loopback_ipv4(gid) || find(gid)) return true;
  refresh();
  return find(gid) != nullptr;
}

bool HostAddresses::contains(Instant now, const engine::Gid& gid) {
  bool stale = now - refreshed_ > kRefreshInterval;
  if (!stale && gid == last_miss_) return false;
  if (is_loopback_ipv4(gid) || find(gid)) return true;
  if (stale) {
    refreshed_ = now;
    refresh();
    if (find(gid)) return true;
  }
  last_miss_ = gid;
  return false;
}

uint32_t HostAddresses::interface_of(const engine::Gid& gid) {
  if (!contains_now(gid)) return 0;
  const Entry* entry = find(gid);
  return entry ? entry->interface_index : 0;
}

namespace {

Result<link::Fd> connected_probe(const engine::AddressVector& route, uint32_t interface_index) {
  const engine::Gid& from = route.source;
  const engine::Gid& to = route.destination;
  const bool bound = from != engine::Gid{};
  const std::string destination = engine::address_text(to);
  const std::string path =
      bound ? fmt::format("from {} to {}", engine::address_text(from), destination)
            : "to " + destination;
  if (bound && from.is_ipv4() != to.is_ipv4())
    return fail(EINVAL, fmt::format("no way {}: one is IPv4, the other IPv6; choose a GID index "
                                    "(sgid_index {} now) of the destination's family",
                                    path, route.source_gid_index));
  if (to.is_link_local() && interface_index == 0)
    return fail(EINVAL, fmt::format("no route {}: a link-local address needs its interface "
                                    "(sin6_scope_id; in programs' options {}%INTERFACE)",
                                    path, destination));
  link::Fd probe(plain_socket(to.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid())
    return fail(errno, fmt::format("no socket to look up the route {}: {}", path, strerror(errno)));
  SocketAddress source = socket_address(from, 0, interface_index);
  if (bound && ::bind(probe.get(), source.get(), source.length) != 0)
    return fail(
        errno,
        fmt::format("{} (sgid_index {}) cannot be a source address: {}; see `verbena devices`",
                    engine::address_text(from), route.source_gid_index, strerror(errno)));
  SocketAddress target = socket_address(to, wire::kRoceUdpPort, interface_index);
  if (::connect(probe.get(), target.get(), target.length) != 0)
    return fail(errno,
                fmt::format("no route {}: {}; check `ip route get {}`{}", path, strerror(errno),
                            destination, bound ? " and the source address or GID index" : ""));
  return probe;
}

}  // namespace

Result<void> check_route(const engine::AddressVector& route, uint32_t interface_index) {
  Result<link::Fd> probe = connected_probe(route, interface_index);
  if (!probe) return tl::unexpected<Error>(probe.error());
  return {};
}

Result<engine::Gid> source_of_route(const engine::Gid& wanted, const engine::Gid& destination,
                                    uint32_t interface_index) {
  engine::AddressVector route;
  route.source = wanted;
  route.destination = destination;
  Result<link::Fd> probe = connected_probe(route, interface_index);
  if (!probe) return tl::unexpected<Error>(probe.error());
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (::getsockname(probe->get(), reinterpret_cast<sockaddr*>(&name), &length) != 0)
    return fail(errno, "the kernel does not tell the source address of a route");
  engine::Gid source;
  if (name.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(name);
    return engine::Gid::from_ipv4(reinterpret_cast<const uint8_t*>(&four.sin_addr));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(name);
  memcpy(source.bytes.data(), &six.sin6_addr, source.bytes.size());
  return source;
}

}  // namespace verbena::host
