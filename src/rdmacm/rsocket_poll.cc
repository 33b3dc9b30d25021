// rpoll and rselect: sockets beside other descriptors, asleep in the kernel until one of them has
// something to say.
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "rdmacm/id.h"
#include "rdmacm/socket.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

using Clock = std::chrono::steady_clock;

// Whether poll's answer ends the wait: for rselect not every one does.
using Counts = bool (*)(const pollfd& each);

struct Watched {
  std::shared_ptr<Socket> socket;  // null: a descriptor of another kind
  bool silent = false;             // such a one whose lasting answer nobody asked for
  std::optional<uint64_t> bed;     // asleep on the socket since this call
};

// Threads that took an event wake those who sleep; see Socket::wake.
void get_up(std::vector<Watched>& watched) {
  for (Watched& each : watched) {
    if (!each.bed) continue;
    Lease lease(each.socket->mutex);
    each.socket->get_up(*each.bed);
    each.bed.reset();
  }
}

// The same when the thread is cancelled in its sleep.
struct Riser {
  std::vector<Watched>& watched;
  ~Riser() { get_up(watched); }
};

// What is ready now on sockets. `to_sleep`: what comes later wakes who sleeps on their descriptors;
// get_up() follows.
void look(pollfd* fds, std::vector<Watched>& watched, bool to_sleep) {
  for (size_t i = 0; i < watched.size(); ++i) {
    fds[i].revents = 0;
    Socket* socket = watched[i].socket.get();
    if (socket == nullptr) continue;
    Lease lease(socket->mutex);
    if (to_sleep) socket->arm();
    socket->progress();
    fds[i].revents = socket->ready(fds[i].events);
    if (to_sleep) watched[i].bed = socket->lie_down();
  }
}

// The kernel's word on the others, and its sleep. 0 or errno.
int sleep(pollfd* fds, std::vector<Watched>& watched, int timeout, Counts counts) {
  std::vector<pollfd> plain(watched.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    plain[i].fd = watched[i].silent ? -1 : fds[i].fd;
    plain[i].events = watched[i].socket ? short{POLLIN} : fds[i].events;
  }
  const int result = poll(plain.data(), plain.size(), timeout);
  if (result < 0) return errno;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (watched[i].socket || watched[i].silent) continue;
    fds[i].revents = plain[i].revents;
    watched[i].silent = fds[i].revents != 0 && !counts(fds[i]);
  }
  return 0;
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

// As poll(2). `timeout` in ms, negative: none.
int poll_sockets(pollfd* fds, nfds_t count, int timeout, Counts counts) {
  std::vector<Watched> watched(count);
  const Riser riser{watched};
  const int saved = errno;
  for (nfds_t i = 0; i < count; ++i)
    if (fds[i].fd >= 0) watched[i].socket = find_socket(fds[i].fd);
  errno = saved;
  const auto end = Clock::now() + std::chrono::milliseconds(std::max(timeout, 0));
  const auto total = [&] { return static_cast<int>(std::count_if(fds, fds + count, counts)); };
  for (bool to_sleep = false;; to_sleep = true) {
    const bool last = timeout == 0 || (to_sleep && timeout > 0 && Clock::now() >= end);
    look(fds, watched, to_sleep && !last);
    const bool now = last || !to_sleep || total() > 0;
    const int error = sleep(fds, watched,
                            now           ? 0
                            : timeout < 0 ? -1
                                          : milliseconds_until(end),
                            counts);
    get_up(watched);
    if (error != 0) return refuse(error);
    if (const int found = total(); found > 0 || last) return found;
  }
}

bool any(const pollfd& each) {
  return each.revents != 0;
}

constexpr short kReadable = POLLIN | POLLHUP | POLLERR, kWritable = POLLOUT | POLLERR;

// What select(2) calls ready of what it was asked for.
bool selected(const pollfd& each) {
  return ((each.events & POLLIN) != 0 && (each.revents & kReadable) != 0) ||
         ((each.events & POLLOUT) != 0 && (each.revents & kWritable) != 0) ||
         ((each.events & POLLPRI) != 0 && (each.revents & POLLPRI) != 0) ||
         (each.revents & POLLNVAL) != 0;
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
    set(each.fd, read, (each.revents & kReadable) != 0);
    set(each.fd, write, (each.revents & kWritable) != 0);
    set(each.fd, except, (each.revents & POLLPRI) != 0);
  }
  return bits;
}

// Rounded up; -1: none. Nothing: no time.
std::optional<int> milliseconds_of(const timeval* timeout) {
  if (timeout == nullptr) return -1;
  if (timeout->tv_sec < 0 || timeout->tv_usec < 0) return std::nullopt;
  const int64_t seconds = std::min<int64_t>(timeout->tv_sec, INT_MAX / 1000);
  const int64_t rest = std::min<int64_t>(timeout->tv_usec, INT_MAX);
  return static_cast<int>(std::min<int64_t>(seconds * 1000 + (rest + 999) / 1000, INT_MAX));
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rpoll(pollfd* fds, nfds_t count, int timeout) {
  return shielded([&] { return poll_sockets(fds, count, timeout, any); });
}

int rselect(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  return shielded([&] {
    const std::optional<int> ms = milliseconds_of(timeout);
    if (count < 0 || !ms) return refuse(EINVAL);
    std::vector<pollfd> fds;
    for (int fd = 0; fd < std::min(count, int{FD_SETSIZE}); ++fd)
      if (short events = wanted(fd, read, write, except); events != 0)
        fds.push_back({fd, events, 0});
    if (poll_sockets(fds.data(), fds.size(), *ms, selected) < 0) return -1;
    for (const pollfd& each : fds)
      if ((each.revents & POLLNVAL) != 0) return refuse(EBADF);
    return give_sets(fds, read, write, except);
  });
}
}
