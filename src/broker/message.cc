// SCM_RIGHTS in one place, with every received descriptor owned before anything is judged.
#include "broker/message.h"

#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstring>

namespace verbena::broker {

int64_t now_ms() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

int send_message(int socket, const void* bytes, size_t length, std::span<const int> fds,
                 int flags) {
  iovec iov{const_cast<void*>(bytes), length};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  if (fds.size() > kMaxFds) return EINVAL;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  while (::sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Received receive_message(int socket, void* bytes, size_t capacity, int flags) {
  Received out;
  iovec iov{bytes, capacity};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n;
  bool was_reset = false;
  while ((n = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC)) < 0) {
    // The kernel tells that the other end hung up, with something of ours unread, before it gives
    // out what that end said last.
    if (errno == ECONNRESET && !was_reset) {
      was_reset = true;
    } else if (errno != EINTR) {
      out.error = errno;
      return out;
    }
  }
  out.length = static_cast<size_t>(n);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      link::Fd owned(fd);
      if (out.fd_count < kMaxFds) out.fds[out.fd_count++] = std::move(owned);
    }
  }
  if (message.msg_flags & MSG_TRUNC) out.error = EMSGSIZE;
  if (message.msg_flags & MSG_CTRUNC) out.error = EMFILE;  // no room for the descriptors sent
  return out;
}

}  // namespace verbena::broker
