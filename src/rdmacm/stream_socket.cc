// A stream behind the calls of sockets: the answers of socket(7) and tcp(7) where rdma-core's
// rsocket(7) has no other.
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"

namespace verbena::rdmacm {
namespace {

// How long rclose waits for bytes under way, unless SO_LINGER says how long.
constexpr int kLingerMs = 2000, kLingerStepMs = 10;

// What came of an attempt to connect that has ended, told once; -1.
int tell_outcome(Stream& stream) {
  stream.outcome_due = false;
  const int error = std::exchange(stream.error, 0);
  return refuse(error != 0 ? error : ECONNABORTED);
}

int await_connection(Stream& stream, Lease& lease) {
  while (stream.state == StreamState::kConnecting) {
    if (!stream.may_wait(0)) {
      stream.outcome_due = true;
      return refuse(EINPROGRESS);
    }
    if (int error = stream.wait(lease); error != 0) return refuse(error);
    stream.progress();
  }
  return stream.state == StreamState::kConnected ? 0 : tell_outcome(stream);
}

// As shutdown(2) of a TCP listener: requests are refused, who waits in raccept is told EINVAL, and
// the socket may listen or connect again.
int stop_listening(Stream& stream) {
  const int error = renew(stream);
  if (error != 0) end(stream, error);
  stream.wake();
  return error != 0 ? refuse(error) : 0;
}

}  // namespace

int Stream::bind(const sockaddr* address, socklen_t) {
  if (rdma_bind_addr(id, const_cast<sockaddr*>(address)) != 0) return -1;
  bound = true;
  return 0;
}

int Stream::listen(int backlog) {
  if (state != StreamState::kFresh) return refuse(EINVAL);
  if (rdma_listen(id, backlog) != 0) return -1;
  state = StreamState::kListening;
  return 0;
}

int Stream::accept(Lease& lease, sockaddr* address, socklen_t* length) {
  if (state != StreamState::kListening) return refuse(EINVAL);
  while (true) {
    if (state != StreamState::kListening)  // rclose or rshutdown in another thread
      return refuse(state == StreamState::kEnded ? EBADF : EINVAL);
    progress();
    while (!requests.empty()) {
      rdma_cm_event* request = requests.front();
      requests.pop_front();
      auto stream = std::make_shared<Stream>();
      stream->mapping_count = mapping_count;
      stream->lingering = lingering;
      if (accept_stream(*stream, request) != 0) continue;  // the peer was told
      give_address(stream->id->route.addr.dst_addr, address, length);
      return enter_socket(stream);
    }
    if (!may_wait(0)) return refuse(EAGAIN);
    if (int error = wait(lease); error != 0) return refuse(error);
  }
}

int Stream::connect(Lease& lease, const sockaddr* address, socklen_t) {
  progress();
  if (state == StreamState::kConnecting && !greeted) {
    if (!may_wait(0)) return refuse(EALREADY);
    return await_connection(*this, lease);
  }
  if (state == StreamState::kConnected && std::exchange(outcome_due, false)) return 0;
  if (state == StreamState::kEnded && outcome_due) return tell_outcome(*this);
  if (state == StreamState::kEnded && !was_connected)
    if (int error = renew(*this); error != 0) return refuse(error);
  if (state != StreamState::kFresh) return refuse(EISCONN);
  if (rdma_resolve_addr(id, nullptr, const_cast<sockaddr*>(address), kResolveMs) != 0) return -1;
  state = StreamState::kConnecting;
  progress();
  return await_connection(*this, lease);
}

int Stream::shutdown(int how) {
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return refuse(EINVAL);
  if (state == StreamState::kListening) return how == SHUT_WR ? 0 : stop_listening(*this);
  if (!has_peer()) return refuse(ENOTCONN);
  if (how != SHUT_WR) read_shut = true;
  if (how != SHUT_RD) finished = true;
  progress();
  wake();
  return 0;
}

// Bytes on their way reach the peer before the connection ends, unless it takes too long. Nobody is
// there to send them behind the program's back, as TCP does where SO_LINGER is off.
void Stream::close(Lease& lease) {
  const auto now = std::chrono::steady_clock::now;
  const auto patience = lingering.l_onoff != 0
                            ? std::chrono::seconds(std::max(lingering.l_linger, 0))
                            : std::chrono::milliseconds(kLingerMs);
  const auto end = now() + patience;
  while (state == StreamState::kConnected && now() < end) {
    finished = read_shut = true;
    progress();
    if (parted && sending == 0 && control == 0) break;
    doze(lease, kLingerStepMs);
  }
  if (state == StreamState::kConnected || state == StreamState::kConnecting) rdma_disconnect(id);
  state = StreamState::kEnded;
  wake();
}

ssize_t Stream::send(Lease& lease, const msghdr& message, int message_flags) {
  if (message.msg_name != nullptr) return refuse(EISCONN);
  ssize_t total = 0;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    const ssize_t done =
        send_bytes(*this, lease, part.iov_base, part.iov_len, may_wait(message_flags));
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if (static_cast<size_t>(done) < part.iov_len) break;
  }
  return total;
}

ssize_t Stream::receive(Lease& lease, msghdr& message, int message_flags) {
  message.msg_flags = 0;
  ssize_t total = 0;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    if (part.iov_len == 0 && message.msg_iovlen > 1) continue;
    const bool first = total == 0 || (message_flags & MSG_WAITALL) != 0;
    const ssize_t done = receive_bytes(*this, lease, part.iov_base, part.iov_len, message_flags,
                                       first && may_wait(message_flags));
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if (static_cast<size_t>(done) < part.iov_len) break;
  }
  if (message.msg_name != nullptr)
    peer_name(static_cast<sockaddr*>(message.msg_name), &message.msg_namelen);
  return total;
}

int Stream::peer_name(sockaddr* address, socklen_t* length) {
  if (!has_peer()) return refuse(ENOTCONN);
  give_address(id->route.addr.dst_addr, address, length);
  return 0;
}

int Stream::own_name(sockaddr* address, socklen_t* length) {
  give_address(id->route.addr.src_addr, address, length);
  return 0;
}

off_t Stream::map(void* bytes, size_t length, int prot, off_t offset) {
  return map_memory(*this, bytes, length, prot, offset);
}

int Stream::unmap(void* bytes, size_t length) {
  return unmap_memory(*this, bytes, length);
}

ssize_t Stream::write_mapped(Lease& lease, const void* bytes, size_t length, uint64_t offset,
                             int message_flags) {
  return send_bytes(*this, lease, bytes, length, may_wait(message_flags), offset);
}

short Stream::ready(short events) const {
  int found = 0;
  if (state == StreamState::kListening) {
    if (!requests.empty()) found |= POLLIN | POLLRDNORM;
    return static_cast<short>(found & events);
  }
  if (state == StreamState::kFresh) return POLLHUP;
  if (readable()) found |= POLLIN | POLLRDNORM;
  if (peer_finished || read_shut || state == StreamState::kEnded) found |= POLLRDHUP;
  if (sendable()) found |= POLLOUT | POLLWRNORM;
  found &= events;
  // Who reads comes to the end first: programs (rstream) stop at the first POLLHUP.
  const bool unread = (events & POLLIN) != 0 && !arrived.empty();
  if (state == StreamState::kEnded && !unread) {
    found |= POLLHUP | (events & POLLOUT);
    if (error != 0) found |= POLLERR;
  }
  return static_cast<short>(found);
}

}  // namespace verbena::rdmacm
