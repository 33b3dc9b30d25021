// The engine at work: one step, the poll that lends its thread to it, and what every caller owes
// before it lets go of the lock.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "host/process.h"
#include "host/process_state.h"

namespace verbena::host {
namespace {

// A step that left packets waiting puts the timers off: the acknowledgement a timer waits for may
// be among them. Not for ever.
constexpr uint32_t kMaxUndrained = 64;
constexpr uint32_t kTransmitBudget = 256;  // packets per step
// While same-host traffic flows, the sockets (two system calls) are looked at in one of so many
// empty polls.
constexpr uint32_t kWireInterval = 32;
constexpr Duration kRecent = microseconds(200);
// A polling loop that posts one by one gets its packets sent in one system call of at most this
// many; its next poll sends what is left.
constexpr uint32_t kMaxDeferred = 16;

void wake(const link::Fd& eventfd) {
  uint64_t one = 1;
  while (::write(eventfd.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace

// --- one step

Process::Progress Process::drive(bool look_at_wire, bool thorough) {
  State& state = *state_;
  Progress progress;
  Instant now = progress.now = progress.end = this->now();
  bool timer_due = engine_->next_deadline() <= now;
  Links::Taken taken =
      links_->receive(*engine_, now, look_at_wire || timer_due, thorough || timer_due);
  progress.packets = taken.local + taken.wire;
  progress.drained = taken.drained;
  if (taken.local != 0) state.local_seen = now;
  if (taken.wire != 0) state.wire_seen = now;
  state.undrained = taken.drained ? 0 : state.undrained + 1;
  if (timer_due && state.undrained < kMaxUndrained) {
    if (taken.drained) engine_->on_time(now);
  } else if (timer_due) {
    engine_->on_time(now);
    state.undrained = 0;
  }
  links_->on_time(now);
  if (connections_) progress.packets += drive_connections(now);
  bool sends = false;
  engine::TransmitResult result = push_out(now, sends);
  if (sends || taken.wire != 0) progress.end = this->now();
  progress.blocked = result == engine::TransmitResult::kBlocked;
  progress.more = result == engine::TransmitResult::kMore;
  if (progress.packets != 0 || timer_due) state.publisher.touch();
  // Dozing pollers may find their completions among them.
  if (progress.packets != 0 && state.dozers != 0) wake(state.wake_drivers);
  if (state.publisher.due(now, *engine_)) state.publisher.publish(now, *engine_);
  deliver();
  return progress;
}

engine::TransmitResult Process::push_out(Instant now, bool& sends) {
  state_->posts = 0;
  engine::TransmitResult result = engine::TransmitResult::kIdle;
  if (engine_->wants_to_transmit()) {
    result = engine_->transmit(now, links_->sink(now), kTransmitBudget);
    state_->publisher.touch();
  }
  sends = links_->pending() != 0;
  if (!links_->flush()) result = engine::TransmitResult::kBlocked;
  return result;
}

void Process::step() {
  if (links_) drive(true, true);
}

void Process::step_if_attached() {
  Guard guard(*this);
  step();
}

void Process::transmit() {
  if (!links_) return;
  State& state = *state_;
  Instant now = this->now(), end = now;
  if (!engine_->wants_to_transmit()) return state.watch.posted(now, end);  // the window is full
  engine_->transmit(now, links_->sink(now), kTransmitBudget);
  state.publisher.touch();
  bool polls_soon = state.watch.polling() && state.posts++ > 0;
  if (polls_soon && links_->pending() < kMaxDeferred) {
    links_->ring();
  } else {
    bool calls = links_->pending() != 0;
    links_->flush();
    if (calls) end = this->now();  // on the wire that took microseconds
  }
  state.watch.posted(now, end);
  deliver();
}

// --- events

void Process::deliver() {
  State& state = *state_;
  if (!engine_->events().empty()) {
    state.events.swap(engine_->events());
    // First of all: whoever is woken below may take the flushed completions and reuse the buffers.
    for (const engine::Event& event : state.events)
      if (event.kind == engine::Event::kLeftService) revoke(*event.qp);
    for (const engine::Event& event : state.events) {
      if (event.kind == engine::Event::kLeftService) continue;
      Delivery delivery{event.kind, event.type, nullptr};
      EventChannel* channel = router_ ? router_(event, delivery) : nullptr;
      if (channel) channel->push(delivery);
    }
    state.events.clear();
  }
  if (!engine_->explanations().empty()) {
    state.explanations.swap(engine_->explanations());
    for (const std::string& text : state.explanations) state.log.write(text);
    state.explanations.clear();
  }
}

void Process::finish() {
  deliver();
  if (links_) wake_late_sleeper();
}

// Whoever sleeps now with the engine in its care must hear of work that is due before it wakes.
void Process::wake_late_sleeper() {
  bool due_now = engine_->wants_to_transmit() || links_->pending() != 0;
  Instant deadline =
      due_now
          ? Instant{0}
          : std::min({engine_->next_deadline(), links_->next_deadline(), connections_deadline()});
  if (state_->watch.sleeper_is_late(deadline)) wake_sleeper();
}

void Process::wake_sleeper() {
  wake(state_->watch.drivers() != 0 ? state_->wake_drivers : state_->wake_thread);
}

void Process::wake_drivers() {
  wake(state_->wake_drivers);
}

void Process::wake_thread() {
  wake(state_->wake_thread);
}

// --- polling

int Process::poll(engine::CompletionQueue& cq, engine::WorkCompletion* to, int count) {
  State& state = *state_;
  lock();
  state.watch.polled();
  // Before any completion is seen: its buffer may be changed then.
  if (links_ && links_->pending() != 0) links_->flush();
  int taken = static_cast<int>(cq.pop(to, static_cast<uint32_t>(std::max(count, 0))));
  if (taken == 0 && count > 0) {
    if (links_) poll_step();
    taken = static_cast<int>(cq.pop(to, static_cast<uint32_t>(count)));
    if (taken == 0 && links_) links_->stage();
    if (taken == 0 && cq.overrun()) taken = -1;
  }
  RestPolicy::Rest rest = RestPolicy::Rest::kNone;
  if (taken == 0)
    rest = state.rest.empty(state.last_poll);
  else
    state.rest.found();
  if (links_) wake_late_sleeper();
  bool can_doze = links_ && !engine_->wants_to_transmit() && links_->pending() == 0;
  unlock();
  if (rest == RestPolicy::Rest::kDoze && can_doze)
    doze();
  else if (rest != RestPolicy::Rest::kNone)
    yield();
  return taken;
}

void Process::yield() {
  Instant before = now();
  ::sched_yield();
  Instant after = now();
  lock();
  state_->rest.yielded(after, after - before);
  unlock();
}

void Process::poll_step() {
  State& state = *state_;
  bool local_only = state.local_seen > state.wire_seen &&
                    ++state.polls_since_wire < kWireInterval &&
                    state.last_poll - state.local_seen < kRecent;
  if (!local_only) state.polls_since_wire = 0;
  Progress progress = drive(!local_only, false);
  state.last_poll = progress.now;
  if (state.watch.polled_step(progress.now, progress.end)) {
    settle_bell();
    wake_thread();
  }
}

void Process::arm(engine::CompletionQueue& cq, bool solicited_only) {
  Guard guard(*this);
  engine_->arm(cq, solicited_only);
  if (links_ && state_->watch.armed()) wake_thread();
}

}  // namespace verbena::host
