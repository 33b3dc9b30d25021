// Socket addresses and the GIDs that mean the same.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "rdmacm/id.h"

namespace verbena::rdmacm {

std::optional<engine::Gid> gid_of(const sockaddr* address) {
  engine::Gid gid;
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    memcpy(&in, address, sizeof in);
    uint8_t bytes[4];
    memcpy(bytes, &in.sin_addr, sizeof bytes);
    return engine::Gid::from_ipv4(bytes);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    memcpy(gid.bytes.data(), &in6.sin6_addr, gid.bytes.size());
    return gid;
  }
  return std::nullopt;
}

// Both families have the port at the same place.
uint16_t port_of(const sockaddr* address) {
  sockaddr_in in;
  memcpy(&in, address, sizeof in);
  return length_of(address) == 0 ? uint16_t{0} : ntohs(in.sin_port);
}

void set_port(sockaddr* address, uint16_t port) {
  const uint16_t big = htons(port);
  memcpy(reinterpret_cast<char*>(address) + offsetof(sockaddr_in, sin_port), &big, sizeof big);
}

uint32_t scope_of(const sockaddr* address) {
  if (address->sa_family != AF_INET6) return 0;
  sockaddr_in6 in6;
  memcpy(&in6, address, sizeof in6);
  return in6.sin6_scope_id;
}

void fill_address(sockaddr_storage& to, const engine::Gid& gid, uint16_t port, uint32_t scope) {
  memset(&to, 0, sizeof to);
  if (gid.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    memcpy(&in.sin_addr, gid.bytes.data() + 12, 4);
    memcpy(&to, &in, sizeof in);
    return;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  memcpy(&in6.sin6_addr, gid.bytes.data(), gid.bytes.size());
  if (gid.is_link_local() || (gid.is_multicast() && (gid.bytes[1] & 0x0f) <= 2))
    in6.sin6_scope_id = scope;
  memcpy(&to, &in6, sizeof in6);
}

socklen_t length_of(const sockaddr* address) {
  switch (address->sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return 0;
  }
}

bool is_any(const engine::Gid& gid) {
  static constexpr uint8_t kNoIpv4[4] = {};
  return gid == engine::Gid{} || gid == engine::Gid::from_ipv4(kNoIpv4);
}

ibv_gid to_verbs(const engine::Gid& gid) {
  ibv_gid out;
  memcpy(out.raw, gid.bytes.data(), sizeof out.raw);
  return out;
}

std::string text_of(const engine::Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "?";
  const bool four = gid.is_ipv4();
  inet_ntop(four ? AF_INET : AF_INET6, gid.bytes.data() + (four ? 12 : 0), text, sizeof text);
  return text;
}

std::string addresses_of(const rdma_cm_id& id) {
  const auto end_text = [](const sockaddr& address) -> std::string {
    const std::optional<engine::Gid> gid = gid_of(&address);
    if (!gid) return "";
    const std::string text = gid->is_ipv4() ? text_of(*gid) : "[" + text_of(*gid) + "]";
    return text + ":" + std::to_string(port_of(&address));
  };
  const std::string from = end_text(id.route.addr.src_addr);
  const std::string to = end_text(id.route.addr.dst_addr);
  return to.empty() ? from : from + " -> " + to;
}

}  // namespace verbena::rdmacm
