// Where a datagram socket's queue pairs are, and which way its peers.
#include <errno.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/datagram.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr uint32_t kSmallestMtu = 128;  // times two to the power of the code: bytes

const sockaddr* plain(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Datagram::Key key_of(const sockaddr_storage& peer) {
  Datagram::Key key{};
  const engine::Gid gid = gid_of(plain(peer)).value_or(engine::Gid{});
  memcpy(key.data(), gid.bytes.data(), gid.bytes.size());
  const uint16_t port = port_of(plain(peer));
  memcpy(key.data() + gid.bytes.size(), &port, sizeof port);
  return key;
}

int make_buffers(Endpoint& endpoint) {
  endpoint.received.reset(new uint8_t[kDatagramReceives * kBufferBytes]);
  endpoint.slots.reset(new uint8_t[size_t{kDatagramSends} * kMaxDatagramBytes]);
  ibv_pd* pd = endpoint.id->pd;
  endpoint.received_mr = ibv_reg_mr(pd, endpoint.received.get(), kDatagramReceives * kBufferBytes,
                                    IBV_ACCESS_LOCAL_WRITE);
  endpoint.slots_mr =
      ibv_reg_mr(pd, endpoint.slots.get(), size_t{kDatagramSends} * kMaxDatagramBytes, 0);
  if (endpoint.received_mr == nullptr || endpoint.slots_mr == nullptr) return errno;
  for (uint32_t slot = 0; slot < kDatagramSends; ++slot) endpoint.free_slots.push_back(slot);
  return 0;
}

// An id with a device at the endpoint's address; 0 or errno.
int open_id(Endpoint& endpoint) {
  if (rdma_create_id(nullptr, &endpoint.id, nullptr, RDMA_PS_UDP) != 0) return errno;
  sockaddr_storage address = endpoint.own;
  auto* at = reinterpret_cast<sockaddr*>(&address);
  set_port(at, 0);  // peers know the UDP socket's
  if (rdma_bind_addr(endpoint.id, at) != 0) return errno;
  if (endpoint.id->verbs != nullptr) return 0;
  // Loopback, which no device has: another one stands for both ends, as for a stream. rdma-core's
  // sockets have no such way and answer ENODEV.
  return rdma_resolve_addr(endpoint.id, nullptr, at, kResolveMs) != 0 ? errno : 0;
}

// Of a new one at `own`; 0 or errno.
int open(Datagram& socket, Endpoint& endpoint, const sockaddr_storage& own) {
  // In the address's own family, which the socket's need not be.
  fill_address(endpoint.own, gid_of(plain(own)).value_or(engine::Gid{}), port_of(plain(own)),
               scope_of(plain(own)));
  if (int error = open_id(endpoint); error != 0) return error;
  if (int error = make_buffers(endpoint); error != 0) return error;
  constexpr uint32_t kEntries = kDatagramReceives + kDatagramSends;
  if (int error = endpoint.completions.open(socket, endpoint.id->verbs, kEntries); error != 0)
    return error;
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = endpoint.completions.cq;
  attr.qp_type = IBV_QPT_UD;
  attr.sq_sig_all = 1;
  attr.cap.max_send_wr = kDatagramSends;
  attr.cap.max_recv_wr = kDatagramReceives;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  if (rdma_create_qp(endpoint.id, nullptr, &attr) != 0) return errno;
  endpoint.room = std::min(kMaxDatagramBytes, kSmallestMtu << of(endpoint.id)->path_mtu);
  for (uint32_t buffer = 0; buffer < kDatagramReceives; ++buffer) post_buffer(endpoint, buffer);
  return 0;
}

bool is_ipv6_only(const Datagram& socket) {
  int only = 0;
  socklen_t length = sizeof only;
  ::getsockopt(socket.udp, IPPROTO_IPV6, IPV6_V6ONLY, &only, &length);
  return only != 0;
}

// Of a socket bound to this address (ipv6(7)).
bool can_reach_ipv4(const engine::Gid& bound) {
  return is_any(bound) || bound.is_ipv4();
}

// The local address that reaches the peer: the socket's own, or the kernel's choice.
std::optional<sockaddr_storage> source_for(const Datagram& socket, const sockaddr_storage& peer) {
  sockaddr_storage own = name_of(socket);
  const auto bound = gid_of(plain(own)), to = gid_of(plain(peer));
  const bool speaks_both = socket.family == AF_INET6;
  if (!bound || !to || (!speaks_both && peer.ss_family != socket.family)) {
    errno = EAFNOSUPPORT;
    return std::nullopt;
  }
  if (speaks_both && to->is_ipv4() && (is_ipv6_only(socket) || !can_reach_ipv4(*bound))) {
    refuse(ENETUNREACH, "rsend", "the socket is IPv6's alone, and " + text_of(*to) + " is IPv4's");
    return std::nullopt;
  }
  if (!is_any(*bound)) return own;
  auto local = port().local_end({}, *to, scope_of(plain(peer)));
  if (!local) {
    refuse("rsend", local.error());
    return std::nullopt;
  }
  const uint16_t own_port = port_of(plain(own));
  fill_address(own, local->source, own_port, local->interface_index);
  return own;
}

void forget_oldest(Datagram& socket) {
  auto oldest =
      std::min_element(socket.paths.begin(), socket.paths.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  if (oldest->second.handle != nullptr) ibv_destroy_ah(oldest->second.handle);
  socket.paths.erase(oldest);
}

uint8_t traffic_class(const Datagram& socket, bool four) {
  int tos = 0;
  socklen_t length = sizeof tos;
  ::getsockopt(socket.udp, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_TOS : IPV6_TCLASS, &tos,
               &length);
  return static_cast<uint8_t>(tos);
}

}  // namespace

Endpoint::~Endpoint() {
  if (id != nullptr && id->qp != nullptr) rdma_destroy_qp(id);
  completions.close();
  for (ibv_mr* mr : {received_mr, slots_mr})
    if (mr != nullptr) ibv_dereg_mr(mr);
  if (id != nullptr) rdma_destroy_id(id);
}

Endpoint* endpoint_at(Datagram& socket, const sockaddr_storage& own) {
  for (auto& each : socket.endpoints)
    if (gid_of(plain(each->own)) == gid_of(plain(own))) return each.get();
  auto fresh = std::make_unique<Endpoint>();
  if (int error = open(socket, *fresh, own); error != 0) {
    fresh.reset();
    errno = error;
    return nullptr;
  }
  socket.endpoints.push_back(std::move(fresh));
  return socket.endpoints.back().get();
}

Path* path_to(Datagram& socket, const sockaddr_storage& peer) {
  const Datagram::Key key = key_of(peer);
  auto found = socket.paths.find(key);
  if (found == socket.paths.end()) {
    const std::optional<sockaddr_storage> own = source_for(socket, peer);
    Endpoint* endpoint = own ? endpoint_at(socket, *own) : nullptr;
    if (endpoint == nullptr) return nullptr;
    if (socket.paths.size() >= kMaxPaths) forget_oldest(socket);
    found = socket.paths.emplace(key, Path{.endpoint = endpoint}).first;
  }
  found->second.used = ++socket.uses;
  return &found->second;
}

void learn(Datagram& socket, Path& path, const sockaddr_storage& peer, uint32_t qpn) {
  const auto gid = gid_of(plain(peer));
  if ((path.handle != nullptr && path.qpn == qpn) || !gid) return;
  if (path.handle != nullptr) ibv_destroy_ah(path.handle);
  const Id& id = *of(path.endpoint->id);
  const bool stands_in = gid->is_loopback() && id.destination != engine::Gid{};
  ibv_ah_attr attr = address_handle(id, stands_in ? id.destination : *gid);
  attr.grh.traffic_class = traffic_class(socket, gid->is_ipv4());
  path.handle = ibv_create_ah(path.endpoint->id->pd, &attr);
  path.qpn = qpn;
}

void tell_port(Datagram& socket) {
  const sockaddr_storage own = name_of(socket);
  for (auto& each : socket.endpoints)
    set_port(reinterpret_cast<sockaddr*>(&each->own), port_of(plain(own)));
}

bool same_peer(const sockaddr_storage& a, const sockaddr_storage& b) {
  return key_of(a) == key_of(b);
}

sockaddr_storage storage_of(const sockaddr* address, socklen_t length) {
  sockaddr_storage out{};
  memcpy(&out, address, std::min<size_t>(length, sizeof out));
  return out;
}

sockaddr_storage as_seen(const Datagram& socket, const sockaddr_storage& address) {
  if (socket.family == AF_INET || address.ss_family != AF_INET) return address;
  const engine::Gid gid = gid_of(plain(address)).value_or(engine::Gid{});
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = htons(port_of(plain(address)));
  memcpy(&mapped.sin6_addr, gid.bytes.data(), gid.bytes.size());
  return storage_of(reinterpret_cast<const sockaddr*>(&mapped), sizeof mapped);
}

sockaddr_storage name_of(const Datagram& socket) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  ::getsockname(socket.udp, reinterpret_cast<sockaddr*>(&own), &length);
  return own;
}

}  // namespace verbena::rdmacm
