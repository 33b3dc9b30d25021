// Event channels: a semaphore eventfd that programs poll, and the queue behind it. Transitions of
// queue pairs that an event asks for are made when the program takes it, on its own thread.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <new>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

// Somebody acknowledged an event. Never destroyed; one for all, as destructions are rare.
std::condition_variable& acknowledged() {
  static auto* condition = new std::condition_variable;
  return *condition;
}

void make_readable(int fd) {
  const uint64_t one = 1;
  while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

// Takes one count, if there is one; never waits.
void take_count(int fd) {
  pollfd ready{fd, POLLIN, 0};
  uint64_t count;
  const int saved = errno;
  if (poll(&ready, 1, 0) > 0 && read(fd, &count, sizeof count) < 0) errno = saved;
}

// A channel of the parent of a fork: what is queued is the parent's, and may be half written.
void meet(Channel& channel) {
  if (channel.generation == generation()) return;
  new (&channel.records) std::deque<std::unique_ptr<Record>>;
  channel.waiters = 0;
  channel.generation = generation();
}

// library() held.
void push(Channel& channel, std::unique_ptr<Record> record) {
  meet(channel);
  channel.records.push_back(std::move(record));
  make_readable(channel.fd);
}

// The next record, without waiting.
std::unique_ptr<Record> take(Channel& channel) {
  Lock lock(library());
  meet(channel);
  take_count(channel.fd);  // without records a left-over count would only wake us for nothing
  if (channel.records.empty()) return nullptr;
  std::unique_ptr<Record> record = std::move(channel.records.front());
  channel.records.pop_front();
  ++record->owner->unacknowledged;
  return record;
}

constexpr size_t kGraves = 64;

// A destroyed channel that nobody waits on. Its memory stays for a while: rping's event thread
// comes back to a channel that its main thread has destroyed meanwhile. library() held.
void bury(Channel& channel) {
  static auto* graves = new std::deque<std::unique_ptr<Channel>>;
  channel.records.clear();
  close(channel.fd);
  channel.fd = -1;
  graves->emplace_back(&channel);
  if (graves->size() > kGraves) graves->pop_front();
}

// A thread inside rdma_get_cm_event. Programs (rping) destroy the channel under it and expect it to
// stay asleep; it must not meet freed memory when a signal wakes it after all.
class Waiter {
 public:
  explicit Waiter(Channel& channel) : channel_(channel) {
    Lock lock(library());
    meet(channel);
    ++channel_.waiters;
  }
  ~Waiter() {
    Lock lock(library());
    if (--channel_.waiters == 0 && channel_.abandoned && channel_.fd >= 0) bury(channel_);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

 private:
  Channel& channel_;
};

int next_event(Channel& channel, rdma_cm_event** event) {
  Waiter waiter(channel);
  if (channel.fd < 0) {  // destroyed a moment ago: as if this thread had come before that
    pause();
    return refuse(EINTR);
  }
  while (true) {
    if (std::unique_ptr<Record> record = take(channel)) {
      if (!act(*record)) {
        rdma_ack_cm_event(record.release());
        continue;
      }
      *event = record.release();
      return 0;
    }
    const int flags = fcntl(channel.fd, F_GETFL);
    if (flags < 0) return -1;
    if ((flags & O_NONBLOCK) != 0) return refuse(EAGAIN);
    if (int error = port().wait_readable(channel.fd); error != 0) return refuse(error);
  }
}

}  // namespace

Channel::~Channel() {
  if (fd >= 0) close(fd);
}

int open_channel(Channel& channel) {
  channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  channel.generation = generation();
  return channel.fd < 0 ? errno : 0;
}

void push(Id& id, std::unique_ptr<Record> record) {
  push(id.events(), std::move(record));
}

int give_channel(Id& child, Id& listener) {
  std::unique_ptr<Channel> own;
  if (listener.synchronous()) {
    own = std::make_unique<Channel>();
    if (int error = open_channel(*own); error != 0) return error;
  }
  Lock lock(library());
  child.channel = own ? own.get() : listener.channel;
  child.own_channel = std::move(own);
  return 0;
}

void report(Id& id, rdma_cm_event_type type, int status) {
  auto record = std::make_unique<Record>();
  record->id = record->owner = &id;
  record->event = type;
  record->status = status;
  Lock lock(library());
  push(id, std::move(record));
}

std::vector<Id*> forget_events(Id& id) {
  std::vector<Id*> children;
  if (id.channel == nullptr) return children;
  meet(id.events());
  std::erase_if(id.events().records, [&](const std::unique_ptr<Record>& record) {
    if (record->id != &id && record->listen_id != &id) return false;
    if (record->id != &id) children.push_back(of(record->id));
    take_count(id.channel->fd);
    return true;
  });
  return children;
}

void move_events(Id& id, Channel& to) {
  std::deque<std::unique_ptr<Record>>& from = id.events().records;
  std::vector<std::unique_ptr<Record>> moving;
  for (std::unique_ptr<Record>& record : from)
    if (record->owner == &id) {
      take_count(id.channel->fd);
      moving.push_back(std::move(record));
    }
  std::erase(from, nullptr);
  for (std::unique_ptr<Record>& record : moving) push(to, std::move(record));
}

void await_acknowledgements(Id& id) {
  std::unique_lock lock(library());
  if (id.generation != generation()) return;
  acknowledged().wait(lock, [&] { return id.unacknowledged == 0; });
}

int complete(Id& id) {
  if (!id.synchronous()) return 0;
  do {
    if (id.event != nullptr) {
      rdma_ack_cm_event(id.event);
      id.event = nullptr;
    }
    if (rdma_get_cm_event(id.channel, &id.event) != 0) return -1;
  } while (id.event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);  // of the connection before
  const int status = id.event->status;
  if (status == 0) return 0;
  if (id.event->event == RDMA_CM_EVENT_REJECTED) return refuse(ECONNREFUSED);
  return refuse(status < 0 ? -status : ECONNREFUSED);
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  auto* channel = new (std::nothrow) Channel;
  if (channel == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (int error = open_channel(*channel); error != 0) {
    delete channel;
    errno = error;
    return nullptr;
  }
  return channel;
}

void rdma_destroy_event_channel(rdma_event_channel* base) {
  if (base == nullptr) return;
  auto* channel = static_cast<Channel*>(base);
  Lock lock(library());
  meet(*channel);
  channel->abandoned = true;
  if (channel->waiters == 0) bury(*channel);
}

int rdma_get_cm_event(rdma_event_channel* base, rdma_cm_event** event) {
  if (base == nullptr || event == nullptr) return refuse_null(__func__);
  return shielded([&] { return next_event(*static_cast<Channel*>(base), event); });
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return refuse_null(__func__);
  std::unique_ptr<Record> record(static_cast<Record*>(event));
  Lock lock(library());
  if (record->owner->unacknowledged > 0) --record->owner->unacknowledged;
  acknowledged().notify_all();
  return 0;
}

const char* rdma_event_str(rdma_cm_event_type event) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return "RDMA_CM_EVENT_ADDR_RESOLVED";
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "RDMA_CM_EVENT_ADDR_ERROR";
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return "RDMA_CM_EVENT_ROUTE_RESOLVED";
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "RDMA_CM_EVENT_ROUTE_ERROR";
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return "RDMA_CM_EVENT_CONNECT_REQUEST";
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return "RDMA_CM_EVENT_CONNECT_RESPONSE";
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "RDMA_CM_EVENT_CONNECT_ERROR";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "RDMA_CM_EVENT_UNREACHABLE";
    case RDMA_CM_EVENT_REJECTED:
      return "RDMA_CM_EVENT_REJECTED";
    case RDMA_CM_EVENT_ESTABLISHED:
      return "RDMA_CM_EVENT_ESTABLISHED";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "RDMA_CM_EVENT_DISCONNECTED";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "RDMA_CM_EVENT_DEVICE_REMOVAL";
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      return "RDMA_CM_EVENT_MULTICAST_JOIN";
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return "RDMA_CM_EVENT_MULTICAST_ERROR";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "RDMA_CM_EVENT_ADDR_CHANGE";
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return "RDMA_CM_EVENT_TIMEWAIT_EXIT";
  }
  return "UNKNOWN EVENT";
}
}
