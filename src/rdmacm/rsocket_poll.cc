// rpoll and rselect: streams beside other descriptors, asleep in the kernel until one of them has
// something to say.
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <chrono>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {

short ready(const Stream& stream, short events) {
  short found = 0;
  if (stream.state == StreamState::kListening) {
    if (!stream.requests.empty()) found |= POLLIN | POLLRDNORM;
    return static_cast<short>(found & events);
  }
  if (stream.state == StreamState::kFresh) return POLLHUP;
  if (stream.readable()) found |= POLLIN | POLLRDNORM;
  if (stream.sendable()) found |= POLLOUT | POLLWRNORM;
  found = static_cast<short>(found & events);
  // Who reads comes to the end first: programs (rstream) stop at the first POLLHUP.
  const bool unread = (events & POLLIN) != 0 && !stream.arrived.empty();
  if (stream.state == StreamState::kEnded && !unread) {
    found = static_cast<short>(found | POLLHUP | (events & POLLOUT));
    if (stream.error != 0) found |= POLLERR;
  }
  return found;
}

namespace {

using Clock = std::chrono::steady_clock;

struct Watched {
  std::vector<std::shared_ptr<Stream>> streams;  // null: a descriptor of another kind
};

// What is ready now. `last_look`: streams are armed, so that the sleep that follows ends.
int look(pollfd* fds, Watched& watched, bool last_look) {
  int count = 0;
  for (size_t i = 0; i < watched.streams.size(); ++i) {
    fds[i].revents = 0;
    Stream* stream = watched.streams[i].get();
    if (stream == nullptr) continue;
    Lease lease(stream->mutex);
    if (last_look) arm(*stream);
    progress(*stream);
    fds[i].revents = ready(*stream, fds[i].events);
    if (fds[i].revents != 0) ++count;
  }
  return count;
}

// The kernel's word on the others, and its sleep. -1 with errno.
int sleep(pollfd* fds, Watched& watched, int timeout) {
  std::vector<pollfd> plain(watched.streams.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    plain[i].fd = fds[i].fd;
    plain[i].events = watched.streams[i] ? short{POLLIN} : fds[i].events;
  }
  const int result = poll(plain.data(), plain.size(), timeout);
  for (size_t i = 0; i < plain.size(); ++i)
    if (!watched.streams[i]) fds[i].revents = plain[i].revents;
  return result < 0 ? -1 : 0;
}

int count_ready(const pollfd* fds, size_t count) {
  return static_cast<int>(
      std::count_if(fds, fds + count, [](const pollfd& each) { return each.revents != 0; }));
}

int poll_streams(pollfd* fds, nfds_t count, int timeout) {
  Watched watched;
  for (nfds_t i = 0; i < count; ++i) {
    const int saved = errno;
    watched.streams.push_back(fds[i].fd < 0 ? nullptr : find_stream(fds[i].fd));
    errno = saved;
  }
  const auto end = Clock::now() + std::chrono::milliseconds(std::max(timeout, 0));
  bool last_look = false;
  while (true) {
    const bool found = look(fds, watched, last_look) > 0;
    int left = 0;
    if (!found && last_look) {
      left = timeout < 0
                 ? -1
                 : static_cast<int>(
                       std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count());
      if (timeout >= 0) left = std::max(left, 0);
    }
    if (sleep(fds, watched, left) != 0) return -1;
    if (const int total = count_ready(fds, count); total > 0) return total;
    if (timeout >= 0 && last_look && Clock::now() >= end) {
      look(fds, watched, false);
      sleep(fds, watched, 0);
      return count_ready(fds, count);
    }
    last_look = timeout != 0;
    if (timeout == 0) return 0;
  }
}

// What rselect asks of one descriptor.
short wanted(int fd, const fd_set* read, const fd_set* write, const fd_set* except) {
  short events = 0;
  if (read != nullptr && FD_ISSET(fd, read)) events |= POLLIN;
  if (write != nullptr && FD_ISSET(fd, write)) events |= POLLOUT;
  if (except != nullptr && FD_ISSET(fd, except)) events |= POLLPRI;
  return events;
}

// Writes the answers into the sets; how many bits.
int give_sets(const std::vector<pollfd>& fds, fd_set* read, fd_set* write, fd_set* except) {
  int bits = 0;
  const auto set = [&bits](int fd, fd_set* to, bool is_ready) {
    if (to == nullptr || !FD_ISSET(fd, to)) return;
    if (is_ready)
      ++bits;
    else
      FD_CLR(fd, to);
  };
  for (const pollfd& each : fds) {
    set(each.fd, read, (each.revents & (POLLIN | POLLHUP | POLLERR)) != 0);
    set(each.fd, write, (each.revents & (POLLOUT | POLLERR)) != 0);
    set(each.fd, except, (each.revents & POLLPRI) != 0);
  }
  return bits;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rpoll(pollfd* fds, nfds_t count, int timeout) {
  return shielded([&] { return poll_streams(fds, count, timeout); });
}

int rselect(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  return shielded([&] {
    std::vector<pollfd> fds;
    for (int fd = 0; fd < std::min(count, int{FD_SETSIZE}); ++fd)
      if (short events = wanted(fd, read, write, except); events != 0)
        fds.push_back({fd, events, 0});
    const int ms = timeout == nullptr
                       ? -1
                       : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
    if (poll_streams(fds.data(), fds.size(), ms) < 0) return -1;
    return give_sets(fds, read, write, except);
  });
}
}
