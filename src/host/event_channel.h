// A descriptor that programs poll, epoll or read-block on, and the queue of objects behind it:
// completion channels (ibv_comp_channel.fd) and the async event descriptor of a context.
#pragma once

#include <cstdint>
#include <deque>

#include "engine/event.h"
#include "host/mutex.h"

namespace verbena::host {

// One delivered event. `object` is the Door's object (CompletionQueue::owner and so on).
struct Delivery {
  engine::Event::Kind kind = engine::Event::kCompletion;
  engine::AsyncType type = engine::AsyncType::kCqErr;
  void* object = nullptr;
};

class EventChannel {
 public:
  // Creates the eventfd (semaphore mode, CLOEXEC, blocking). fd() is -1 if that failed (errno).
  EventChannel();
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  int fd() const { return fd_; }
  // Adds one event and makes the descriptor readable. Any thread.
  void push(const Delivery& delivery);
  // Takes the next event if there is one; never waits, whatever the descriptor's flags.
  bool take(Delivery& to);
  // Takes the next event; waits for one as long as the descriptor's own flags say (O_NONBLOCK:
  // EAGAIN). While it waits it drives the engine (Process::wait_readable). 0 or errno (EINTR too).
  int pop(Delivery& to);
  // Removes undelivered events of an object about to be destroyed; returns how many.
  uint32_t forget(const void* object);

  // fork: a thread that vanishes in the child must not hold any channel's lock there. The fork
  // handlers of Process call these with the process lock held. A child's channel keeps its number
  // but gets a semaphore of its own, and it has no events: those queued are the parent's (only
  // forget() still counts them, for whoever waits until every event is acknowledged).
  static void before_fork();
  static void after_fork_parent();
  static void after_fork_child();

 private:
  void renew_in_child();

  int fd_ = -1;
  Mutex mutex_;
  std::deque<Delivery> queue_;
  std::deque<Delivery> of_parent_;  // in a forked child: what was queued then
};

}  // namespace verbena::host
