// getifaddrs gives one record per address and one per link; this file folds them into one record
// per interface. The MTU comes from an ioctl, which answers for the caller's own namespace.
#include "host/interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/plain_socket.h"

namespace verbena::host {
namespace {

uint8_t prefix_of(const uint8_t* mask, size_t size) {
  int bits = 0;
  for (size_t i = 0; i < size; ++i) bits += std::popcount(mask[i]);
  return static_cast<uint8_t>(bits);
}

Interface& find_or_add(std::vector<Interface>& list, const std::string& name) {
  for (Interface& entry : list)
    if (entry.name == name) return entry;
  list.push_back(Interface{.name = name});
  return list.back();
}

void add_ipv4(Interface& interface, const ifaddrs& record) {
  const auto* address = reinterpret_cast<const sockaddr_in*>(record.ifa_addr);
  InterfaceAddress entry;
  entry.gid = engine::Gid::from_ipv4(reinterpret_cast<const uint8_t*>(&address->sin_addr));
  if (record.ifa_netmask != nullptr) {
    const auto* mask = reinterpret_cast<const sockaddr_in*>(record.ifa_netmask);
    entry.prefix_length = prefix_of(reinterpret_cast<const uint8_t*>(&mask->sin_addr), 4);
  }
  interface.addresses.push_back(entry);
}

void add_ipv6(Interface& interface, const ifaddrs& record) {
  const auto* address = reinterpret_cast<const sockaddr_in6*>(record.ifa_addr);
  InterfaceAddress entry;
  memcpy(entry.gid.bytes.data(), &address->sin6_addr, 16);
  if (record.ifa_netmask != nullptr) {
    const auto* mask = reinterpret_cast<const sockaddr_in6*>(record.ifa_netmask);
    entry.prefix_length = prefix_of(mask->sin6_addr.s6_addr, 16);
  }
  interface.addresses.push_back(entry);
}

void add_link(Interface& interface, const ifaddrs& record) {
  const auto* link = reinterpret_cast<const sockaddr_ll*>(record.ifa_addr);
  interface.ifindex = static_cast<uint32_t>(link->sll_ifindex);
  if (link->sll_halen == 6) memcpy(interface.mac.data(), link->sll_addr, 6);
}

void add_record(std::vector<Interface>& list, const ifaddrs& record) {
  // An IPv4 address may carry a label such as "eth0:1"; the interface is what precedes the colon.
  const std::string label = record.ifa_name;
  Interface& interface = find_or_add(list, label.substr(0, label.find(':')));
  interface.up = (record.ifa_flags & IFF_UP) != 0;
  interface.running = (record.ifa_flags & IFF_RUNNING) != 0;
  interface.loopback = (record.ifa_flags & IFF_LOOPBACK) != 0;
  if (record.ifa_addr == nullptr) return;
  const int family = record.ifa_addr->sa_family;
  if (family == AF_PACKET) add_link(interface, record);
  if (interface.addresses.size() >= kMaxAddresses) return;
  if (family == AF_INET) add_ipv4(interface, record);
  if (family == AF_INET6) add_ipv6(interface, record);
}

void read_mtu(int fd, Interface& interface) {
  ifreq request{};
  if (interface.name.size() >= sizeof(request.ifr_name)) return;
  memcpy(request.ifr_name, interface.name.c_str(), interface.name.size() + 1);
  if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
    interface.mtu = static_cast<uint32_t>(request.ifr_mtu);
  if (interface.ifindex == 0) interface.ifindex = if_nametoindex(interface.name.c_str());
}

}  // namespace

Result<std::vector<Interface>> read_interfaces() {
  ifaddrs* records = nullptr;
  if (getifaddrs(&records) != 0)
    return fail(errno, "cannot list the network interfaces: " + std::string(strerror(errno)));
  std::vector<Interface> list;
  for (const ifaddrs* record = records; record != nullptr; record = record->ifa_next)
    if (list.size() < kMaxInterfaces) add_record(list, *record);
  freeifaddrs(records);

  const int fd = plain_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(errno, "cannot read interface MTUs: " + std::string(strerror(errno)));
  for (Interface& interface : list) read_mtu(fd, interface);
  close(fd);
  std::sort(list.begin(), list.end(),
            [](const Interface& a, const Interface& b) { return a.ifindex < b.ifindex; });
  return list;
}

}  // namespace verbena::host
