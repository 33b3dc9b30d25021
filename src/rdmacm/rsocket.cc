// rsockets: streams behind the calls of sockets, by number. Datagram rsockets are not offered: they
// fail with a line in the explain log.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

constexpr int kLingerSteps = 200;  // of 10 ms: how long rclose waits for bytes under way

struct Table {
  std::mutex mutex;
  std::unordered_map<int, std::shared_ptr<Stream>> streams;
};

Table& table() {
  static auto* instance = new Table;
  return *instance;
}

int enter_stream(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(table().mutex);
  table().streams[stream->fd] = stream;
  return stream->fd;
}

bool may_wait(const Stream& stream, int flags) {
  return (stream.flags & O_NONBLOCK) == 0 && (flags & MSG_DONTWAIT) == 0;
}

// Runs `call` with the stream locked.
template <typename T = int, typename Call>
T with(int fd, Call call) {
  return shielded(static_cast<T>(-1), [&]() -> T {
    std::shared_ptr<Stream> stream = find_stream(fd);
    if (!stream) return -1;
    Lease lease(stream->mutex);
    return call(*stream, lease);
  });
}

int unsupported(int error, const char* call, const char* why) {
  return shielded([&] { return refuse(error, call, why); });
}

int connect(Stream& stream, Lease& lease, const sockaddr* address) {
  if (stream.state == StreamState::kConnected) return refuse(EISCONN);
  if (stream.state == StreamState::kConnecting && !may_wait(stream, 0)) return refuse(EALREADY);
  if (stream.state == StreamState::kFresh) {
    auto* to = const_cast<sockaddr*>(address);
    if (rdma_resolve_addr(stream.id, nullptr, to, kResolveMs) != 0) return -1;
    stream.state = StreamState::kConnecting;
  }
  while (true) {
    progress(stream);
    if (stream.state == StreamState::kConnected) return 0;
    if (stream.state != StreamState::kConnecting)
      return refuse(stream.error != 0 ? stream.error : ECONNRESET);
    if (!may_wait(stream, 0)) return refuse(EINPROGRESS);
    if (int error = wait(stream, lease); error != 0) return refuse(error);
  }
}

void give_address(const sockaddr& from, sockaddr* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return;
  memcpy(to, &from, std::min(*length, length_of(&from)));
  *length = length_of(&from);
}

// An accepted stream has one at once, although the peer's last word may be on its way.
bool has_peer(const Stream& stream) {
  return stream.state == StreamState::kConnected || stream.state == StreamState::kEnded ||
         (stream.state == StreamState::kConnecting && stream.greeted);
}

int accept(Stream& listener, Lease& lease, sockaddr* address, socklen_t* length) {
  while (true) {
    if (listener.state != StreamState::kListening) return refuse(EINVAL);
    progress(listener);
    while (!listener.requests.empty()) {
      rdma_cm_event* request = listener.requests.front();
      listener.requests.pop_front();
      auto stream = std::make_shared<Stream>();
      stream->mapping_count = listener.mapping_count;
      if (accept_stream(*stream, request) != 0) continue;  // the peer was told
      give_address(stream->id->route.addr.dst_addr, address, length);
      return enter_stream(stream);
    }
    if (!may_wait(listener, 0)) return refuse(EAGAIN);
    if (int error = wait(listener, lease); error != 0) return refuse(error);
  }
}

// Bytes on their way reach the peer before the connection ends, unless it takes too long.
void end(Stream& stream, Lease& lease) {
  for (int step = 0; step < kLingerSteps && stream.state == StreamState::kConnected; ++step) {
    stream.finished = stream.read_shut = true;
    progress(stream);
    if (stream.parted && stream.sending == 0 && stream.control == 0) break;
    stream.changed.wait_for(lease, std::chrono::milliseconds(10));
  }
  if (stream.state == StreamState::kConnected || stream.state == StreamState::kConnecting)
    rdma_disconnect(stream.id);
  stream.state = StreamState::kEnded;
  stream.changed.notify_all();
}

ssize_t send_all(Stream& stream, Lease& lease, const iovec* parts, size_t count, int flags) {
  ssize_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const ssize_t done =
        send(stream, lease, parts[i].iov_base, parts[i].iov_len, may_wait(stream, flags));
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if (static_cast<size_t>(done) < parts[i].iov_len) break;
  }
  return total;
}

ssize_t receive_all(Stream& stream, Lease& lease, const iovec* parts, size_t count, int flags) {
  ssize_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    const bool first = total == 0 || (flags & MSG_WAITALL) != 0;
    const ssize_t done = receive(stream, lease, parts[i].iov_base, parts[i].iov_len, flags,
                                 first && may_wait(stream, flags));
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if (static_cast<size_t>(done) < parts[i].iov_len) break;
  }
  return total;
}

}  // namespace

std::shared_ptr<Stream> find_stream(int fd) {
  std::lock_guard lock(table().mutex);
  auto found = table().streams.find(fd);
  if (found != table().streams.end()) return found->second;
  errno = EBADF;
  return nullptr;
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rsocket(int domain, int type, int protocol) {
  constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (domain != AF_INET && domain != AF_INET6)
    return unsupported(EAFNOSUPPORT, "rsocket", "addresses are IPv4 or IPv6");
  if ((type & ~kFlags) != SOCK_STREAM || (protocol != 0 && protocol != IPPROTO_TCP))
    return unsupported(ENOTSUP, "rsocket", "only streams (SOCK_STREAM) are offered");
  return shielded([&] {
    auto stream = std::make_shared<Stream>();
    if (int error = open_stream(*stream, nullptr); error != 0) return refuse(error);
    if ((type & SOCK_NONBLOCK) != 0) stream->flags = O_NONBLOCK;
    return enter_stream(stream);
  });
}

int rbind(int fd, const sockaddr* address, socklen_t) {
  return with(fd, [&](Stream& stream, Lease&) {
    return rdma_bind_addr(stream.id, const_cast<sockaddr*>(address));
  });
}

int rlisten(int fd, int backlog) {
  return with(fd, [&](Stream& stream, Lease&) {
    if (stream.state != StreamState::kFresh) return refuse(EINVAL);
    if (rdma_listen(stream.id, backlog) != 0) return -1;
    stream.state = StreamState::kListening;
    return 0;
  });
}

int raccept(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Stream& stream, Lease& lease) {
    return verbena::rdmacm::accept(stream, lease, address, length);
  });
}

int rconnect(int fd, const sockaddr* address, socklen_t) {
  return with(fd, [&](Stream& stream, Lease& lease) {
    return verbena::rdmacm::connect(stream, lease, address);
  });
}

int rshutdown(int fd, int how) {
  return with(fd, [&](Stream& stream, Lease&) {
    if (!has_peer(stream)) return refuse(ENOTCONN);
    if (how != SHUT_WR) stream.read_shut = true;
    if (how != SHUT_RD) stream.finished = true;
    progress(stream);
    stream.changed.notify_all();
    return 0;
  });
}

int rclose(int fd) {
  const int result = with(fd, [](Stream& stream, Lease& lease) {
    end(stream, lease);
    return 0;
  });
  std::shared_ptr<Stream> last;  // ends outside the lock
  if (result == 0) {
    std::lock_guard lock(table().mutex);
    auto found = table().streams.find(fd);
    if (found != table().streams.end()) {
      last = std::move(found->second);
      table().streams.erase(found);
    }
  }
  return result;
}

ssize_t rsend(int fd, const void* bytes, size_t length, int flags) {
  const iovec part{const_cast<void*>(bytes), length};
  return with<ssize_t>(
      fd, [&](Stream& stream, Lease& lease) { return send_all(stream, lease, &part, 1, flags); });
}

ssize_t rsendto(int fd, const void* bytes, size_t length, int flags, const sockaddr* to,
                socklen_t) {
  if (to != nullptr) return refuse(EISCONN);
  return rsend(fd, bytes, length, flags);
}

ssize_t rsendmsg(int fd, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) return refuse(ENOTSUP);
  return with<ssize_t>(fd, [&](Stream& stream, Lease& lease) {
    return send_all(stream, lease, message->msg_iov, message->msg_iovlen, flags);
  });
}

ssize_t rwrite(int fd, const void* bytes, size_t length) {
  return rsend(fd, bytes, length, 0);
}

ssize_t rwritev(int fd, const iovec* parts, int count) {
  return with<ssize_t>(fd, [&](Stream& stream, Lease& lease) {
    return send_all(stream, lease, parts, static_cast<size_t>(std::max(count, 0)), 0);
  });
}

ssize_t rrecv(int fd, void* bytes, size_t length, int flags) {
  return with<ssize_t>(fd, [&](Stream& stream, Lease& lease) {
    return receive(stream, lease, bytes, length, flags, may_wait(stream, flags));
  });
}

ssize_t rrecvfrom(int fd, void* bytes, size_t length, int flags, sockaddr* from,
                  socklen_t* from_length) {
  const ssize_t done = rrecv(fd, bytes, length, flags);
  if (done >= 0 && from != nullptr) rgetpeername(fd, from, from_length);
  return done;
}

ssize_t rrecvmsg(int fd, msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) return refuse(ENOTSUP);
  return with<ssize_t>(fd, [&](Stream& stream, Lease& lease) {
    return receive_all(stream, lease, message->msg_iov, message->msg_iovlen, flags);
  });
}

ssize_t rread(int fd, void* bytes, size_t length) {
  return rrecv(fd, bytes, length, 0);
}

ssize_t rreadv(int fd, const iovec* parts, int count) {
  return with<ssize_t>(fd, [&](Stream& stream, Lease& lease) {
    return receive_all(stream, lease, parts, static_cast<size_t>(std::max(count, 0)), 0);
  });
}

int rgetpeername(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Stream& stream, Lease&) {
    if (!has_peer(stream)) return refuse(ENOTCONN);
    give_address(stream.id->route.addr.dst_addr, address, length);
    return 0;
  });
}

int rgetsockname(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Stream& stream, Lease&) {
    give_address(stream.id->route.addr.src_addr, address, length);
    return 0;
  });
}

off_t riomap(int fd, void* bytes, size_t length, int prot, int, off_t offset) {
  return with<off_t>(
      fd, [&](Stream& stream, Lease&) { return map(stream, bytes, length, prot, offset); });
}

int riounmap(int fd, void* bytes, size_t length) {
  return with(fd, [&](Stream& stream, Lease&) { return unmap(stream, bytes, length); });
}

size_t riowrite(int fd, const void* bytes, size_t length, off_t offset, int flags) {
  return static_cast<size_t>(with<ssize_t>(fd, [&](Stream& stream, Lease& lease) {
    return send(stream, lease, bytes, length, may_wait(stream, flags),
                static_cast<uint64_t>(offset));
  }));
}
}
