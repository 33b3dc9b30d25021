// Addresses and routes: binding, finding the device that reaches a destination, listening.
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

constexpr uint8_t kExactly = 2;  // selectors of a path record: this very value
constexpr uint16_t kDefaultPkey = 0xffff;

cm::PortSpace space_of(const Id& id) {
  return static_cast<cm::PortSpace>(id.ps);
}

// Takes the port of the id's source address. 0, or -1 with errno.
int take_port(Id& id, const char* call, uint16_t wanted, const engine::Gid& address) {
  Result<host::CmBinding> bound =
      port().bind(space_of(id), wanted, address, id.reuse, id.one_family);
  if (!bound) return refuse(id, call, bound.error());
  id.binding = *bound;
  set_port(&id.route.addr.src_addr, bound->port);
  Lock lock(library());
  enter(bound->listener, id);
  return 0;
}

std::string why_no_device(const engine::Gid& gid, int error) {
  if (error == ENODEV)
    return "no device has the address " + text_of(gid) +
           "; `verbena devices` shows which there are";
  return "a device that may have the address " + text_of(gid) + " cannot be opened";
}

// The local address of the id becomes `gid`; any: none yet. So also a loopback address that no
// device has, as on Linux, where no adapter has one: libfabric asks in this way whether rdma_cm
// works.
int take_source(Id& id, const char* call, const engine::Gid& gid, uint32_t scope) {
  id.scope = scope;
  if (is_any(gid)) return 0;
  if (int error = check_local(gid); error != 0)
    return refuse(id, error, call,
                  error == EADDRNOTAVAIL ? text_of(gid) + " is no address of this host"
                                         : std::string("the host's addresses cannot be read"));
  id.source = gid;
  if (int error = take_device(id); error != 0) {
    id.source = {};
    // As Linux: who binds to loopback has no device before its peer is known.
    if (error == ENODEV && gid.is_loopback()) return 0;
    return refuse(id, error, call, why_no_device(gid, error));
  }
  return 0;
}

int bind(Id& id, const sockaddr* address) {
  constexpr const char* kCall = "rdma_bind_addr";
  if (id.stage != Stage::kIdle) return refuse(id, EINVAL, kCall, "the id is bound already");
  std::optional<engine::Gid> gid = gid_of(address);
  if (!gid) return refuse(id, EAFNOSUPPORT, kCall, "addresses are IPv4 or IPv6");
  if (take_source(id, kCall, *gid, scope_of(address)) != 0) return -1;
  memcpy(&id.route.addr.src_storage, address, length_of(address));
  if (take_port(id, kCall, port_of(address), *gid) != 0) {
    id.route.addr.src_storage = {};
    id.source = {};
    return -1;
  }
  id.stage = Stage::kBound;
  return 0;
}

// Which address a destination of "any" means: this host.
engine::Gid loopback(bool ipv4) {
  static constexpr uint8_t kIpv4[4] = {127, 0, 0, 1};
  if (ipv4) return engine::Gid::from_ipv4(kIpv4);
  engine::Gid gid;
  gid.bytes[15] = 1;
  return gid;
}

// What rdma_resolve_addr was given as the source of an id that is not bound.
int note_source(Id& id, const sockaddr* source) {
  constexpr const char* kCall = "rdma_resolve_addr";
  std::optional<engine::Gid> gid = gid_of(source);
  if (!gid) return refuse(id, EAFNOSUPPORT, kCall, "addresses are IPv4 or IPv6");
  if (take_source(id, kCall, *gid, scope_of(source)) != 0) return -1;
  memcpy(&id.route.addr.src_storage, source, length_of(source));
  if (port_of(source) == 0) return 0;
  if (take_port(id, kCall, port_of(source), *gid) != 0) return -1;
  id.stage = Stage::kBound;
  return 0;
}

int resolve(Id& id, const sockaddr* source, const sockaddr* destination) {
  constexpr const char* kCall = "rdma_resolve_addr";
  if (id.stage != Stage::kIdle && id.stage != Stage::kBound)
    return refuse(id, EINVAL, kCall, "the id has a destination already, or listens");
  std::optional<engine::Gid> to = gid_of(destination);
  if (!to) return refuse(id, EAFNOSUPPORT, kCall, "addresses are IPv4 or IPv6");
  if (source != nullptr && length_of(source) != 0 && id.stage == Stage::kIdle)
    if (note_source(id, source) != 0) return -1;
  if (is_any(*to)) *to = loopback(to->is_ipv4());
  if (id.source != engine::Gid{} && id.source.is_ipv4() != to->is_ipv4())
    return refuse(id, EINVAL, kCall, "source and destination are of two address families");
  const uint32_t scope = scope_of(destination) != 0 ? scope_of(destination) : id.scope;
  Result<host::CmPort::LocalEnd> local = port().local_end(id.source, *to, scope);
  if (!local) return refuse(id, kCall, local.error());
  id.source = local->source;
  id.scope = scope != 0 ? scope : local->interface_index;
  id.destination = *to;
  uint16_t own_port = port_of(&id.route.addr.src_addr);
  if (own_port == 0) own_port = port().ephemeral_port();
  fill_address(id.route.addr.src_storage, id.source, own_port, id.scope);
  fill_address(id.route.addr.dst_storage, *to, port_of(destination), id.scope);
  int error = take_device(id);
  if (error == ENODEV && id.source.is_loopback()) error = take_device_for_loopback(id);
  if (error != 0) {
    if (port().explaining())
      port().explain(std::string(kCall) + ": " + text_of(*to) +
                     " is not reached: " + why_no_device(id.source, error));
    report(id, RDMA_CM_EVENT_ADDR_ERROR, -error);
    return complete(id);
  }
  id.stage = Stage::kResolved;
  report(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  return complete(id);
}

int resolve_route(Id& id) {
  if (id.stage != Stage::kResolved)
    return refuse(EINVAL, "rdma_resolve_route", "rdma_resolve_addr has not succeeded yet");
  const uint8_t timeout = id.ack_timeout.value_or(id.path_timeout);
  ibv_sa_path_rec& path = id.path;
  path = {};
  path.sgid = to_verbs(id.source);
  path.dgid = to_verbs(id.destination);
  path.hop_limit = 64;
  path.traffic_class = id.tos;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = htons(kDefaultPkey);
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.mtu = id.path_mtu;
  path.rate = id.rate;
  path.packet_life_time = timeout > 0 ? static_cast<uint8_t>(timeout - 1) : uint8_t{0};
  id.route.path_rec = &path;
  id.route.num_paths = 1;
  id.route.addr.addr.ibaddr.sgid = path.sgid;
  id.route.addr.addr.ibaddr.dgid = path.dgid;
  id.route.addr.addr.ibaddr.pkey = path.pkey;
  id.stage = Stage::kRouted;
  report(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return complete(id);
}

int listen(Id& id, int backlog) {
  constexpr const char* kCall = "rdma_listen";
  if (id.stage == Stage::kIdle) {  // as a socket: any address, any port
    sockaddr_in any{};
    any.sin_family = AF_INET;
    if (bind(id, reinterpret_cast<const sockaddr*>(&any)) != 0) return -1;
  }
  if (id.stage != Stage::kBound || !id.binding)
    return refuse(id, EINVAL, kCall, "the id listens already, or is a connection");
  Result<void> done = port().listen(*id.binding, static_cast<uint32_t>(std::max(backlog, 0)));
  if (!done) return refuse(id, kCall, done.error());
  id.stage = Stage::kListening;
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  if (id == nullptr || address == nullptr) return refuse_null(__func__);
  return shielded([&] { return verbena::rdmacm::bind(*of(id), address); });
}

// Nothing is asked of the network, so there is nothing to wait for.
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int) {
  if (id == nullptr || destination == nullptr) return refuse_null(__func__);
  return shielded([&] { return resolve(*of(id), source, destination); });
}

int rdma_resolve_route(rdma_cm_id* id, int) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return resolve_route(*of(id)); });
}

int rdma_listen(rdma_cm_id* id, int backlog) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return verbena::rdmacm::listen(*of(id), backlog); });
}
}
