// A datagram socket behind the calls of sockets: the answers of socket(7) and udp(7) where
// rdma-core's rsocket(7) has no other.
#include "rdmacm/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/plain_socket.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr int kCloseSteps = 20, kCloseStepMs = 10;  // how long rclose waits for sends under way
constexpr int kUdpBurst = 64;                       // datagrams taken at a time

size_t bytes_in(const msghdr& message) {
  size_t total = 0;
  for (size_t i = 0; i < message.msg_iovlen; ++i) total += message.msg_iov[i].iov_len;
  return total;
}

// A port of its own, which peers need to answer.
int bind_if_unbound(Datagram& socket) {
  sockaddr_storage own = name_of(socket);
  if (port_of(reinterpret_cast<sockaddr*>(&own)) != 0) return 0;
  own = {};
  own.ss_family = socket.family;
  const auto* any = reinterpret_cast<const sockaddr*>(&own);
  if (::bind(socket.udp, any, length_of(any)) != 0) return errno;
  tell_port(socket);
  return 0;
}

// Whether bind(2) would take the address as one of a certain interface.
bool is_specific(const Datagram& socket, const sockaddr_storage& own, socklen_t length) {
  const auto* address = reinterpret_cast<const sockaddr*>(&own);
  const auto gid = gid_of(address);
  return own.ss_family == socket.family && length >= length_of(address) && gid && !is_any(*gid);
}

uint32_t room_over_udp(const Datagram& socket) {
  return kMaxDatagramBytes - (socket.family == AF_INET ? Preamble::kBytes4 : Preamble::kBytes6);
}

bool fits_ud(const Path& path, size_t bytes) {
  const uint32_t field =
      path.endpoint->own.ss_family == AF_INET ? sizeof(Source4) : sizeof(Source6);
  return path.handle != nullptr && bytes + field <= path.endpoint->room;
}

// Whether the datagram went; else -1 with errno, EAGAIN: no room.
ssize_t try_to_send(Datagram& socket, const sockaddr_storage& to, const msghdr& message,
                    size_t bytes) {
  Path* path = path_to(socket, to);
  if (path == nullptr) return -1;
  if (!fits_ud(*path, bytes)) return send_over_udp(socket, *path, to, Preamble::kData, &message);
  if (path->endpoint->free_slots.empty()) return refuse(EAGAIN);
  if (int error = send_message(*path, message); error != 0) return refuse(error);
  return static_cast<ssize_t>(bytes);
}

// Until there is room on either road: 0 or errno.
int wait_for_room(Datagram& socket, Lease& lease, const sockaddr_storage& to, size_t bytes) {
  const Path* path = path_to(socket, to);
  if (path != nullptr && fits_ud(*path, bytes)) return socket.wait(lease);
  const int udp = socket.udp;
  lease.unlock();
  pollfd one{udp, POLLOUT, 0};
  const int result = ::poll(&one, 1, -1);
  const int error = errno;
  lease.lock();
  return result < 0 ? error : 0;
}

}  // namespace

int open_datagram(Datagram& socket, sa_family_t family) {
  if (int error = socket.open(); error != 0) return error;
  socket.family = family;
  socket.udp = plain_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return socket.udp < 0 ? errno : socket.watch(socket.udp);
}

Datagram::~Datagram() {
  for (auto& [key, path] : paths)
    if (path.handle != nullptr) ibv_destroy_ah(path.handle);
  endpoints.clear();
  if (udp >= 0) ::close(udp);
}

// An address without a device would lead to nobody: it is refused here rather than at a send. The
// queue pair comes first, because a UDP socket cannot be unbound when there is none.
int Datagram::bind(const sockaddr* address, socklen_t length) {
  const sockaddr_storage now = name_of(*this), own = storage_of(address, length);
  const bool bound = port_of(reinterpret_cast<const sockaddr*>(&now)) != 0;
  const size_t before = endpoints.size();
  if (!bound && is_specific(*this, own, length) && endpoint_at(*this, own) == nullptr) return -1;
  if (::bind(udp, address, length) != 0) {
    const int failed = errno;
    endpoints.resize(before);
    return refuse(failed);
  }
  tell_port(*this);
  return 0;
}

// A port that the attempt took stays, as udp(7)'s does; all else is as before when it fails.
int Datagram::connect(Lease&, const sockaddr* address, socklen_t length) {
  if (address->sa_family == AF_UNSPEC) {
    if (::connect(udp, address, length) != 0) return -1;
    peer.reset();
    return 0;
  }
  if (int failed = bind_if_unbound(*this); failed != 0) return refuse(failed);
  const sockaddr_storage to = storage_of(address, length);
  if (path_to(*this, to) == nullptr || ::connect(udp, address, length) != 0) return -1;
  peer = as_seen(*this, to);
  return 0;
}

int Datagram::shutdown(int how) {
  if (!peer) return refuse(ENOTCONN);
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return refuse(EINVAL);
  if (how != SHUT_WR) read_shut = true;
  if (how != SHUT_RD) write_shut = true;
  wake();
  return 0;
}

void Datagram::close(Lease& lease) {
  read_shut = write_shut = true;
  wake();
  const auto idle = [this] {
    return std::all_of(endpoints.begin(), endpoints.end(),
                       [](const auto& each) { return each->free_slots.size() == kDatagramSends; });
  };
  for (int step = 0; step < kCloseSteps; ++step) {
    progress();
    if (idle()) break;
    doze(lease, kCloseStepMs);
  }
}

ssize_t Datagram::send(Lease& lease, const msghdr& message, int message_flags) {
  if (message.msg_name == nullptr && !peer) return refuse(EDESTADDRREQ);
  const size_t bytes = bytes_in(message);
  if (bytes > room_over_udp(*this))
    return refuse(EMSGSIZE, "rsend",
                  "a datagram has at most " + std::to_string(room_over_udp(*this)) + " bytes");
  if (int failed = bind_if_unbound(*this); failed != 0) return refuse(failed);
  const sockaddr_storage to =
      message.msg_name == nullptr
          ? *peer
          : storage_of(static_cast<const sockaddr*>(message.msg_name), message.msg_namelen);
  while (true) {
    progress();
    if (write_shut) return refuse(EPIPE);
    if (error != 0) return refuse(std::exchange(error, 0));
    const ssize_t done = try_to_send(*this, to, message, bytes);
    if (done >= 0 || errno != EAGAIN || !may_wait(message_flags)) return done;
    if (int failed = wait_for_room(*this, lease, to, bytes); failed != 0) return refuse(failed);
  }
}

ssize_t Datagram::receive(Lease& lease, msghdr& message, int message_flags) {
  while (true) {
    progress();
    if (!arrived.empty()) break;
    if (error != 0) return refuse(std::exchange(error, 0));
    if (read_shut) return 0;
    if (!may_wait(message_flags)) return refuse(EAGAIN);
    if (int failed = wait(lease); failed != 0) return refuse(failed);
  }
  const Arrival& first = arrived.front();
  size_t done = 0;
  for (size_t i = 0; i < message.msg_iovlen && done < first.length; ++i) {
    const size_t part = std::min<size_t>(message.msg_iov[i].iov_len, first.length - done);
    memcpy(message.msg_iov[i].iov_base, bytes_of(first) + done, part);
    done += part;
  }
  const size_t length = first.length;
  message.msg_flags = done < length ? MSG_TRUNC : 0;
  give_address(reinterpret_cast<const sockaddr&>(first.from),
               static_cast<sockaddr*>(message.msg_name), &message.msg_namelen);
  if ((message_flags & MSG_PEEK) == 0) forget(*this);
  return static_cast<ssize_t>((message_flags & MSG_TRUNC) != 0 ? length : done);
}

int Datagram::peer_name(sockaddr* address, socklen_t* length) {
  if (!peer) return refuse(ENOTCONN);
  give_address(reinterpret_cast<const sockaddr&>(*peer), address, length);
  return 0;
}

int Datagram::own_name(sockaddr* address, socklen_t* length) {
  return ::getsockname(udp, address, length);
}

// The UDP socket has them all; what only tunes RDMA is taken and has no effect here.
int Datagram::set_option(int level, int option, const void* value, socklen_t length) {
  if (level == SOL_RDMA) return option >= RDMA_SQSIZE && option <= RDMA_ROUTE ? 0 : refuse(ENOTSUP);
  return ::setsockopt(udp, level, option, value, length);
}

int Datagram::get_option(int level, int option, void* value, socklen_t* length) {
  if (value == nullptr || length == nullptr) return refuse(EFAULT);
  int number = 0;
  if (level == SOL_RDMA && option == RDMA_SQSIZE) {
    number = static_cast<int>(kDatagramSends);
  } else if (level == SOL_RDMA && option == RDMA_RQSIZE) {
    number = static_cast<int>(kDatagramReceives);
  } else if (level == SOL_SOCKET && option == SO_ERROR && (progress(), error != 0)) {
    number = std::exchange(error, 0);
  } else if (level == SOL_RDMA) {
    return refuse(ENOTSUP, "rgetsockopt", "the option is not known");
  } else {
    return ::getsockopt(udp, level, option, value, length);
  }
  *length = std::min<socklen_t>(*length, sizeof number);
  memcpy(value, &number, *length);
  return 0;
}

short Datagram::ready(short events) const {
  int found = 0;
  if (!arrived.empty() || read_shut) found |= POLLIN | POLLRDNORM;
  const auto has_room = [](const auto& each) { return !each->free_slots.empty(); };
  if (endpoints.empty() || std::any_of(endpoints.begin(), endpoints.end(), has_room))
    found |= POLLOUT | POLLWRNORM;
  found &= events;
  if (error != 0) found |= POLLERR;
  return static_cast<short>(found);
}

void Datagram::let_go() {
  Socket::let_go();
  ::close(std::exchange(udp, -1));
}

void Datagram::arm() {
  for (auto& each : endpoints) each->completions.arm();
}

void Datagram::take_all() {
  ibv_wc wc;
  for (auto& each : endpoints)
    while (each->completions.take(wc)) {
      ++version_;
      take_message(*this, *each, wc);
    }
  for (int i = 0; i < kUdpBurst && take_udp(*this); ++i) ++version_;
}

}  // namespace verbena::rdmacm
