// The semaphore of the eventfd always equals the length of the queue, so a program that polls the
// descriptor sees exactly whether pop() would find something.
#include "host/event_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "host/process.h"

namespace verbena::host {
namespace {

// Takes one count off the semaphore and never blocks, whatever the descriptor's flags: the
// program may have read it behind our back.
void take_count(int fd) {
  uint64_t one = 0;
  iovec to{&one, sizeof one};
  while (::preadv2(fd, &to, 1, -1, RWF_NOWAIT) < 0 && errno == EINTR) {
  }
}

// Every living channel, for the fork handlers. Never destroyed: channels may outlive exit().
struct Registry {
  Mutex mutex;
  std::vector<EventChannel*> channels;
};
Registry& registry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

EventChannel::EventChannel() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {
  std::lock_guard guard(registry().mutex);
  registry().channels.push_back(this);
}

EventChannel::~EventChannel() {
  {
    std::lock_guard guard(registry().mutex);
    std::erase(registry().channels, this);
  }
  if (fd_ >= 0) ::close(fd_);
}

void EventChannel::before_fork() {
  registry().mutex.lock();
  for (EventChannel* channel : registry().channels) channel->mutex_.lock();
}

void EventChannel::after_fork_parent() {
  for (EventChannel* channel : registry().channels) channel->mutex_.unlock();
  registry().mutex.unlock();
}

void EventChannel::after_fork_child() {
  for (EventChannel* channel : registry().channels) channel->renew_in_child();
  registry().mutex.reset();
}

// The descriptor is shared with the parent: a count taken here would be one that a waiter there
// never sees.
void EventChannel::renew_in_child() {
  mutex_.reset();
  of_parent_.insert(of_parent_.end(), queue_.begin(), queue_.end());
  queue_.clear();
  int flags = ::fcntl(fd_, F_GETFL), descriptor_flags = ::fcntl(fd_, F_GETFD);
  if (flags < 0 || descriptor_flags < 0) return;  // the program closed it
  int options = EFD_SEMAPHORE | (flags & O_NONBLOCK ? EFD_NONBLOCK : 0);
  int own = ::eventfd(0, options | EFD_CLOEXEC);
  if (own < 0 && errno == EMFILE) {
    ::close(fd_);
    own = ::eventfd(0, options | EFD_CLOEXEC);  // the only free number is the one closed now
  }
  if (own < 0) return;
  if (own != fd_) {
    ::dup3(own, fd_, O_CLOEXEC);
    ::close(own);
  }
  if (!(descriptor_flags & FD_CLOEXEC)) ::fcntl(fd_, F_SETFD, 0);
}

void EventChannel::push(const Delivery& delivery) {
  std::lock_guard guard(mutex_);
  queue_.push_back(delivery);
  uint64_t one = 1;
  while (::write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool EventChannel::take(Delivery& to) {
  std::lock_guard guard(mutex_);
  // An empty queue with a count (the program wrote to the descriptor) must not look readable.
  take_count(fd_);
  if (queue_.empty()) return false;
  to = queue_.front();
  queue_.pop_front();
  return true;
}

int EventChannel::pop(Delivery& to) {
  for (;;) {
    if (take(to)) return 0;
    int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0) return errno;
    if (flags & O_NONBLOCK) {
      Process::get().step_if_attached();
      return take(to) ? 0 : EAGAIN;
    }
    int error = Process::get().wait_readable(fd_);
    if (error != 0) return error;
  }
}

uint32_t EventChannel::forget(const void* object) {
  std::lock_guard guard(mutex_);
  auto names_it = [object](const Delivery& delivery) { return delivery.object == object; };
  uint32_t removed = static_cast<uint32_t>(std::erase_if(queue_, names_it));
  for (uint32_t i = 0; i < removed; ++i) take_count(fd_);
  return removed + static_cast<uint32_t>(std::erase_if(of_parent_, names_it));
}

}  // namespace verbena::host
