// The calls of rsockets: each finds its socket by number and asks it, locked.
#include <rdma/rsocket.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

// Runs `call` with the socket locked. -1 with EBADF: there is none.
template <typename T = int, typename Call>
T with(int fd, Call call) {
  return shielded(static_cast<T>(-1), [&]() -> T {
    std::shared_ptr<Socket> socket = find_socket(fd);
    if (!socket) return -1;
    Lease lease(socket->mutex);
    return call(*socket, lease);
  });
}

int unsupported(int error, const char* why) {
  return shielded([&] { return refuse(error, "rsocket", why); });
}

int open_socket(int type) {
  auto stream = std::make_shared<Stream>();
  if (int error = open_stream(*stream, nullptr); error != 0) return refuse(error);
  if ((type & SOCK_NONBLOCK) != 0) stream->flags = O_NONBLOCK;
  return enter_socket(stream);
}

int control(Socket& socket, int command, int value) {
  switch (command) {
    case F_GETFL:
      return O_RDWR | socket.flags;
    case F_SETFL:
      socket.flags = value & O_NONBLOCK;
      return 0;
    case F_GETFD:
    case F_SETFD:
      return fcntl(socket.fd, command, value);
    default:
      return refuse(ENOTSUP, "rfcntl", "the command is not known");
  }
}

ssize_t send(int fd, const msghdr& message, int flags) {
  return with<ssize_t>(
      fd, [&](Socket& socket, Lease& lease) { return socket.send(lease, message, flags); });
}

ssize_t receive(int fd, msghdr& message, int flags) {
  return with<ssize_t>(
      fd, [&](Socket& socket, Lease& lease) { return socket.receive(lease, message, flags); });
}

msghdr message_of(const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<size_t>(std::max(count, 0));
  return message;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rsocket(int domain, int type, int protocol) {
  constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (domain != AF_INET && domain != AF_INET6)
    return unsupported(EAFNOSUPPORT, "addresses are IPv4 or IPv6");
  if ((type & ~kFlags) != SOCK_STREAM || (protocol != 0 && protocol != IPPROTO_TCP))
    return unsupported(ENOTSUP, "only streams (SOCK_STREAM) are offered");
  return shielded([&] { return open_socket(type); });
}

int rbind(int fd, const sockaddr* address, socklen_t length) {
  return with(fd, [&](Socket& socket, Lease&) { return socket.bind(address, length); });
}

int rlisten(int fd, int backlog) {
  return with(fd, [&](Socket& socket, Lease&) { return socket.listen(backlog); });
}

int raccept(int fd, sockaddr* address, socklen_t* length) {
  return with(fd,
              [&](Socket& socket, Lease& lease) { return socket.accept(lease, address, length); });
}

int rconnect(int fd, const sockaddr* address, socklen_t length) {
  return with(fd,
              [&](Socket& socket, Lease& lease) { return socket.connect(lease, address, length); });
}

int rshutdown(int fd, int how) {
  return with(fd, [&](Socket& socket, Lease&) { return socket.shutdown(how); });
}

int rclose(int fd) {
  return shielded([&] {
    std::shared_ptr<Socket> last = leave_socket(fd);  // ends behind the lock
    if (!last) return close_inherited(fd) ? 0 : -1;
    Lease lease(last->mutex);
    last->close(lease);
    return 0;
  });
}

ssize_t rsend(int fd, const void* bytes, size_t length, int flags) {
  return rsendto(fd, bytes, length, flags, nullptr, 0);
}

ssize_t rsendto(int fd, const void* bytes, size_t length, int flags, const sockaddr* to,
                socklen_t to_length) {
  const iovec part{const_cast<void*>(bytes), length};
  msghdr message = message_of(&part, 1);
  message.msg_name = const_cast<sockaddr*>(to);
  message.msg_namelen = to_length;
  return send(fd, message, flags);
}

ssize_t rsendmsg(int fd, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) return refuse(ENOTSUP);
  return send(fd, *message, flags);
}

ssize_t rwrite(int fd, const void* bytes, size_t length) {
  return rsend(fd, bytes, length, 0);
}

ssize_t rwritev(int fd, const iovec* parts, int count) {
  return send(fd, message_of(parts, count), 0);
}

ssize_t rrecv(int fd, void* bytes, size_t length, int flags) {
  return rrecvfrom(fd, bytes, length, flags, nullptr, nullptr);
}

ssize_t rrecvfrom(int fd, void* bytes, size_t length, int flags, sockaddr* from,
                  socklen_t* from_length) {
  const iovec part{bytes, length};
  msghdr message = message_of(&part, 1);
  message.msg_name = from_length != nullptr ? from : nullptr;
  message.msg_namelen = from_length != nullptr ? *from_length : 0;
  const ssize_t done = receive(fd, message, flags);
  if (done >= 0 && message.msg_name != nullptr) *from_length = message.msg_namelen;
  return done;
}

ssize_t rrecvmsg(int fd, msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) return refuse(ENOTSUP);
  return receive(fd, *message, flags);
}

ssize_t rread(int fd, void* bytes, size_t length) {
  return rrecv(fd, bytes, length, 0);
}

ssize_t rreadv(int fd, const iovec* parts, int count) {
  msghdr message = message_of(parts, count);
  return receive(fd, message, 0);
}

int rgetpeername(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Socket& socket, Lease&) { return socket.peer_name(address, length); });
}

int rgetsockname(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Socket& socket, Lease&) { return socket.own_name(address, length); });
}

int rsetsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  return with(
      fd, [&](Socket& socket, Lease&) { return socket.set_option(level, option, value, length); });
}

int rgetsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  return with(
      fd, [&](Socket& socket, Lease&) { return socket.get_option(level, option, value, length); });
}

int rfcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const int value = command == F_SETFL || command == F_SETFD ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return with(fd, [&](Socket& socket, Lease&) { return control(socket, command, value); });
}

off_t riomap(int fd, void* bytes, size_t length, int prot, int, off_t offset) {
  return with<off_t>(
      fd, [&](Socket& socket, Lease&) { return socket.map(bytes, length, prot, offset); });
}

int riounmap(int fd, void* bytes, size_t length) {
  return with(fd, [&](Socket& socket, Lease&) { return socket.unmap(bytes, length); });
}

size_t riowrite(int fd, const void* bytes, size_t length, off_t offset, int flags) {
  return static_cast<size_t>(with<ssize_t>(fd, [&](Socket& socket, Lease& lease) {
    return socket.write_mapped(lease, bytes, length, static_cast<uint64_t>(offset), flags);
  }));
}
}
