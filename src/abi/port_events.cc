// Port and address events. The kernel announces changes of links and addresses on a netlink socket.
// No thread exists before the first queue pair, so whoever waits in ibv_get_async_event() listens
// to it himself; from then on the background thread does too, for programs that poll async_fd.
#include "abi/port_events.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "abi/device.h"
#include "abi/errors.h"
#include "host/mutex.h"

namespace verbena::abi {
namespace {

// No ForkMutex: events are pushed with this lock held (a context may go away otherwise), and fork
// takes the channels' locks before those of all ForkMutexes. This one it takes before everything.
struct Audience {
  host::Mutex mutex;
  std::vector<Context*> contexts;
  int fd = -1;  // netlink; never closed
};

int open_netlink() {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return -1;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

// Never destroyed: exit handlers of programs still use verbs.
Audience& audience() {
  static Audience* const instance = [] {
    auto* made = new Audience;
    made->fd = open_netlink();
    host::Process& process = host::Process::get();  // its fork handlers come before ours
    if (made->fd >= 0) process.watch_machine(made->fd, look_for_changes);
    ::pthread_atfork([] { audience().mutex.lock(); }, [] { audience().mutex.unlock(); },
                     [] {
                       audience().mutex.reset();
                       // The parent reads from the socket it shares with us.
                       int fresh = audience().fd < 0 ? -1 : open_netlink();
                       if (fresh < 0) return;
                       dup3(fresh, audience().fd, O_CLOEXEC);
                       close(fresh);
                     });
    return made;
  }();
  return *instance;
}

void tell(Context* context, engine::AsyncType type) {
  if (context->port_events.fetch_add(1) < kMaxPortEvents)
    context->async.push({engine::Event::kPort, type, nullptr});
  else
    --context->port_events;
}

bool same_gids(const host::DeviceModel& a, const host::DeviceModel& b) {
  return std::equal(
      a.gids.begin(), a.gids.end(), b.gids.begin(), b.gids.end(),
      [](const host::GidEntry& x, const host::GidEntry& y) { return x.gid == y.gid; });
}

// True when the kernel said something since the last time.
bool heard_something(int fd) {
  char buffer[8192];
  bool heard = false;
  for (;;) {
    ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) {  // more was said than fitted: read the state, not the words
      heard = true;
      continue;
    }
    if (got <= 0) return heard;
    heard = true;
  }
}

// Either of two descriptors, as one that can be waited for.
class Either {
 public:
  Either(int a, int b) : fd_(epoll_create1(EPOLL_CLOEXEC)) {
    for (int each : {a, b}) {
      epoll_event event{};
      event.events = EPOLLIN;
      if (fd_ >= 0 && each >= 0) epoll_ctl(fd_, EPOLL_CTL_ADD, each, &event);
    }
  }
  ~Either() {
    if (fd_ >= 0) close(fd_);
  }
  Either(const Either&) = delete;
  Either& operator=(const Either&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void enter_audience(Context* context) {
  std::lock_guard lock(audience().mutex);
  audience().contexts.push_back(context);
}

void leave_audience(Context* context) {
  std::lock_guard lock(audience().mutex);
  std::erase(audience().contexts, context);
}

void report_changes(Device* device, const host::DeviceModel& before,
                    const host::DeviceModel& after) {
  bool port = before.port_active != after.port_active, gids = !same_gids(before, after);
  if (!port && !gids) return;
  std::lock_guard lock(audience().mutex);
  for (Context* context : audience().contexts) {
    if (context->device != device) continue;
    if (port)
      tell(context,
           after.port_active ? engine::AsyncType::kPortActive : engine::AsyncType::kPortErr);
    if (gids) tell(context, engine::AsyncType::kGidChange);
  }
}

int change_fd() {
  return audience().fd;
}

void look_for_changes() {
  int fd = change_fd();
  if (fd < 0 || !heard_something(fd)) return;
  try {
    static_cast<void>(list_devices());  // compares with what was known
  } catch (const std::bad_alloc&) {     // the next look tells
  }
}

int next_event(Context* context, host::Delivery& delivery) {
  host::EventChannel& channel = context->async;
  int flags = fcntl(channel.fd(), F_GETFL);
  bool may_wait = change_fd() >= 0 && flags >= 0 && !(flags & O_NONBLOCK);
  Either either(may_wait ? channel.fd() : -1, change_fd());
  look_for_changes();
  if (!may_wait || either.fd() < 0) {
    if (int error = channel.pop(delivery)) return error;
  } else {
    // Several threads may wait here for one context, and an event that wakes them all goes to one.
    // The others wait on, here and not in pop(), which hears no changes.
    while (!channel.take(delivery)) {
      if (int error = host::Process::get().wait_readable(either.fd())) return error;
      look_for_changes();
    }
  }
  if (delivery.kind == engine::Event::kPort) --context->port_events;
  return 0;
}

}  // namespace verbena::abi
