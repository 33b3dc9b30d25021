// A datagram rsocket: a UDP socket that gives it its address and finds peers, and a UD queue pair
// for each local address that its peers are reached from. datagram_wire.h has the protocol.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rdmacm/completions.h"
#include "rdmacm/datagram_wire.h"
#include "rdmacm/socket.h"

namespace verbena::rdmacm {

inline constexpr uint32_t kDatagramReceives = 512;  // datagrams that wait to be read, on each road
inline constexpr uint32_t kDatagramSends = 64;      // under way from one queue pair
inline constexpr size_t kMaxPaths = 1024;  // peers remembered; the one used last goes first
inline constexpr uint64_t kDatagramReceiveId = kDatagramSends;  // wr_ids from here on: buffers

inline constexpr size_t kBufferBytes =
    kMaxDatagramBytes + 64;  // the GRH area goes before a message

// A queue pair at a local address.
struct Endpoint {
  rdma_cm_id* id = nullptr;
  Completions completions;
  sockaddr_storage own{};  // with the socket's port
  uint32_t room = 0;       // of one message, with the field
  std::unique_ptr<uint8_t[]> received, slots;
  ibv_mr* received_mr = nullptr;
  ibv_mr* slots_mr = nullptr;
  std::vector<uint32_t> free_slots;

  Endpoint() = default;
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
};

// The way to a peer.
struct Path {
  Endpoint* endpoint = nullptr;
  ibv_ah* handle = nullptr;  // null: the peer's queue pair is not known
  uint32_t qpn = 0;
  uint64_t used = 0;  // when: a count
};

// A datagram that waits to be read: in a buffer of an endpoint, or in `bytes`.
struct Arrival {
  sockaddr_storage from{};
  Endpoint* endpoint = nullptr;
  uint32_t buffer = 0, offset = 0, length = 0;
  std::vector<uint8_t> bytes;
};

struct Datagram final : Socket {
  using Key = std::array<uint8_t, 18>;  // address and port

  int udp = -1;
  sa_family_t family = AF_INET;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::map<Key, Path> paths;
  uint64_t uses = 0;
  std::optional<sockaddr_storage> peer;  // connected to
  std::deque<Arrival> arrived;
  size_t copied = 0;  // of them: not in buffers of endpoints
  bool read_shut = false, write_shut = false;
  int error = 0;  // that the next call tells

  ~Datagram() override;

  int bind(const sockaddr* address, socklen_t length) override;
  int connect(Lease& lease, const sockaddr* address, socklen_t length) override;
  int shutdown(int how) override;
  void close(Lease& lease) override;
  ssize_t send(Lease& lease, const msghdr& message, int flags) override;
  ssize_t receive(Lease& lease, msghdr& message, int flags) override;
  int peer_name(sockaddr* address, socklen_t* length) override;
  int own_name(sockaddr* address, socklen_t* length) override;
  int set_option(int level, int option, const void* value, socklen_t length) override;
  int get_option(int level, int option, void* value, socklen_t* length) override;
  short ready(short events) const override;
  void arm() override;
  void let_go() override;

 protected:
  void take_all() override;
};

int open_datagram(Datagram& socket, sa_family_t family);  // 0 or errno. Not locked.

// --- queue pairs and peers (datagram_paths.cc); locked
// The way to `peer`, made if need be; it may hold no queue pair yet. Null with errno. Until the
// next call.
Path* path_to(Datagram& socket, const sockaddr_storage& peer);
// The endpoint of a local address; null with errno.
Endpoint* endpoint_at(Datagram& socket, const sockaddr_storage& own);
// To all endpoints, when the UDP socket has got one.
void tell_port(Datagram& socket);
// What a peer said of itself.
void learn(Datagram& socket, Path& path, const sockaddr_storage& peer, uint32_t qpn);
bool same_peer(const sockaddr_storage& a, const sockaddr_storage& b);
sockaddr_storage storage_of(const sockaddr* address, socklen_t length);
// An address as programs see it on this socket: on one of IPv6 an IPv4 peer is ::ffff:a.b.c.d.
sockaddr_storage as_seen(const Datagram& socket, const sockaddr_storage& address);
sockaddr_storage name_of(const Datagram& socket);  // of the UDP socket

// --- messages (datagram_messages.cc); locked
void post_buffer(Endpoint& endpoint, uint32_t buffer);
// Sends by UD: the endpoint has a free slot and room. 0 or errno.
int send_message(const Path& path, const msghdr& message);
// Sends by UDP; as sendmsg(2) without waiting, of the data's bytes.
ssize_t send_over_udp(Datagram& socket, const Path& path, const sockaddr_storage& peer,
                      Preamble::Op op, const msghdr* message);
// What one completion or one UDP datagram brought. take_udp: false when there was none.
void take_message(Datagram& socket, Endpoint& endpoint, const ibv_wc& wc);
bool take_udp(Datagram& socket);
const uint8_t* bytes_of(const Arrival& arrival);
void forget(Datagram& socket);  // the first arrival

}  // namespace verbena::rdmacm
