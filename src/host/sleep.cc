// Whoever waits without polling: the background thread, and threads of the application blocked in
// an event channel. Both sleep on the links' descriptors until the engine's next deadline, and do
// not wake at all while there is nothing to do.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "host/process.h"
#include "host/process_state.h"

namespace verbena::host {
namespace {

constexpr size_t kThreadStack = 256 * 1024;  // address space; a step touches under 32 KiB
constexpr Duration kMinRetry = microseconds(20);
constexpr Duration kMaxRetry = microseconds(200);
constexpr Duration kPolite = microseconds(50);
constexpr int kMaxPolite = 4;
// A thread that works all the time is never found without the lock: it is driving, no need to ask.
constexpr uint32_t kMaxMissedTicks = 8;
constexpr unsigned long kTimerSlackNs = 1000;  // the default of 50 us blurs retransmission timers

// Sleeps until a descriptor is ready or `until` has come (kNever: no limit).
int sleep_on(pollfd* fds, size_t count, Instant now, Instant until) {
  timespec timeout{};
  if (until > now) {
    int64_t ns = (until - now).ns() + 1;  // never early
    timeout.tv_sec = ns / 1'000'000'000;
    timeout.tv_nsec = ns % 1'000'000'000;
  }
  return ::ppoll(fds, count, until == kNever ? nullptr : &timeout, nullptr);
}

void clear(const pollfd& fd) {
  uint64_t count;
  if (fd.revents & POLLIN)
    while (::read(fd.fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

// ppoll returns EINTR after every handler, read(2) only after those without SA_RESTART. Which one
// ran cannot be asked; whether any handler wants interruption can. Handlers of the faults do not
// count: after those a program does not come back here.
bool handlers_want_interruption() {
  for (int number = 1; number < NSIG; ++number) {
    if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
        number == SIGTRAP || number == SIGABRT || number == SIGSYS)
      continue;
    struct sigaction action;
    if (::sigaction(number, nullptr, &action) != 0) continue;
    bool has_handler = (action.sa_flags & SA_SIGINFO) ||
                       (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (has_handler && !(action.sa_flags & SA_RESTART)) return true;
  }
  return false;
}

int wait_alone(int fd) {
  pollfd one{fd, POLLIN, 0};
  for (;;) {
    if (::ppoll(&one, 1, nullptr, nullptr) > 0) return 0;
    if (errno != EINTR) return errno;
    if (handlers_want_interruption()) return EINTR;
  }
}

}  // namespace

// --- going to sleep

// The eventfd that others wake the thread by, the links' descriptors, one of the caller's own, and
// the background thread's line to the broker.
struct Process::Bed {
  explicit Bed(const link::Fd& wake) { fds[0] = {wake.get(), POLLIN, 0}; }
  // As sleep_on(); what rang is quiet again. Negative descriptors are ignored.
  int sleep(int own, Instant now, Instant until, pollfd line = {-1, 0, 0}) {
    fds[count] = {own, POLLIN, 0};
    fds[count + 1] = line;
    int ready = sleep_on(fds, count + 2, now, until);
    if (ready > 0) {
      clear(fds[0]);
      if (count > 1) clear(fds[1]);  // the local link's bell
    }
    return ready;
  }
  short own_events() const { return fds[count].revents; }
  short line_events() const { return fds[count + 1].revents; }

  pollfd fds[4 + Links::kMaxFds] = {};
  size_t count = 1;
};

// Until when the caller may sleep on the links, which are told to ring and are in `bed`; nothing:
// there is work now.
std::optional<Instant> Process::prepare_sleep(const Progress& last, Bed& bed) {
  State& state = *state_;
  if (last.packets != 0 || !last.drained || last.more || links_->stage()) return {};
  Instant until = std::min({engine_->next_deadline(), links_->next_deadline(),
                            state.publisher.deadline(*engine_), connections_deadline()});
  if (last.blocked) {
    state.retry_after = std::clamp(state.retry_after * 2, kMinRetry, kMaxRetry);
    until = std::min(until, last.now + state.retry_after);
  } else {
    state.retry_after = {};
  }
  if (!links_->prepare_to_sleep()) return {};
  state.watch.sleeping_until(until);
  bed.count += links_->fill(bed.fds + bed.count);
  if (connections_) bed.fds[bed.count++] = {connections_->fd(), POLLIN, 0};
  return until;
}

// The caller does not sleep on the links (any more). If nobody does, peers may send without
// ringing. If somebody does, the caller may have answered the bell, which rings once, in his place.
void Process::settle_bell() {
  State& state = *state_;
  if (!links_) return;
  bool needed = state.watch.mode() == Watch::Mode::kWatching || state.watch.drivers() != 0 ||
                state.dozers != 0;
  if (!needed)
    links_->awake();
  else if (!links_->prepare_to_sleep())
    wake_sleeper();
}

// --- the background thread

void Process::watch_machine(int fd, void (*look)()) {
  Guard guard(*this);
  state_->machine_fd = fd;
  state_->look_at_machine = look;
}

Result<void> Process::start_thread() {
  State& state = *state_;
  state.wake_thread.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  state.wake_drivers.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state.wake_thread.valid() || !state.wake_drivers.valid())
    return fail(errno, std::string("no descriptor for the background thread: ") + strerror(errno));
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGSEGV);  // blocked, a fault kills before the guard sees it
  ::sigdelset(&all, SIGBUS);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  ::pthread_attr_setstacksize(&attributes, kThreadStack);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  auto body = [](void* process) -> void* {
    static_cast<Process*>(process)->background();
    return nullptr;
  };
  int error = ::pthread_create(&thread, &attributes, body, this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (error != 0)
    return fail(error, std::string("cannot start the background thread: ") + strerror(error));
  return {};
}

// Who has the lock is most likely at the work this thread was woken for: wait a moment out of its
// way rather than in its queue.
void Process::lock_behind_others() {
  for (int attempt = 0; attempt < kMaxPolite; ++attempt) {
    if (try_lock()) return;
    sleep_on(nullptr, 0, Instant{0}, Instant{0} + kPolite);
  }
  lock();
}

// Aside. Returns until when the thread sleeps.
Instant Process::glance(Instant& tick_ends) {
  Watch& watch = state_->watch;
  Instant now = this->now();
  if (tick_ends == Instant{0}) tick_ends = now + Watch::kTick;
  bool on_wire = state_->wire_seen > state_->local_seen;
  bool needed = watch.should_glance(now, on_wire ? Watch::kAbsentOnWire : Watch::kAbsent) &&
                state_->dozers == 0;
  watch.glanced(needed && drive(true, true).packets != 0);
  return std::min(tick_ends, now + watch.until_glance());
}

// Not locked. Returns when to come again, whatever the line does.
Instant Process::keep_lease(pollfd& line) {
  broker::Lease::Kept kept = links_->keep_lease();
  line = kept.line;
  if (!kept.explanation.empty()) explain(kept.explanation);
  if (kept.moved) {
    lock();
    if (state_->watch.drivers() != 0 || state_->dozers != 0) wake_drivers();
    unlock();
  }
  return kept.again_ms < 0 ? kNever : now() + milliseconds(kept.again_ms);
}

void Process::background() {
  State& state = *state_;
  ::pthread_setname_np(::pthread_self(), "verbena");
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
  Instant tick_ends{0};  // while aside; 0: plan first
  bool aside = false;
  uint32_t missed = 0;   // plans put off in a row
  uint32_t refused = 0;  // times in a row that somebody had the lock
  pollfd line{-1, 0, 0};
  Instant keep_again = keep_lease(line);
  for (;;) {
    Bed bed(state.wake_thread);
    Instant until = kNever;
    if (tick_ends == Instant{0}) {
      bool locked = aside && try_lock();
      if (!locked && aside && ++missed < kMaxMissedTicks) {
        if (sleep_on(bed.fds, 1, now(), now() + Watch::kTick) != 0) aside = false;
        continue;
      }
      if (!locked) lock_behind_others();
      missed = 0;
    } else if (!try_lock()) {  // somebody polls: nothing to glance at
      until = std::min(tick_ends, now() + Watch::until_next_try(++refused));
      if (sleep_on(bed.fds, 1, now(), until) != 0 || until == tick_ends) tick_ends = Instant{0};
      continue;
    }
    refused = 0;
    switch (tick_ends != Instant{0} ? state.watch.mode() : state.watch.plan()) {
      case Watch::Mode::kParked:
        break;
      case Watch::Mode::kAside:
        settle_bell();
        links_->flush();  // what a polling loop left for its next poll
        until = glance(tick_ends);
        break;
      case Watch::Mode::kWatching: {
        Progress progress = drive(true, true);
        until = prepare_sleep(progress, bed).value_or(Instant{0});
        break;
      }
    }
    aside = state.watch.mode() == Watch::Mode::kAside;
    int machine = state.machine_fd;
    auto look = state.look_at_machine;
    unlock();
    until = std::min(until, keep_again);
    int ready = until == Instant{0} ? 0 : bed.sleep(machine, now(), until, line);
    if (ready != 0 || until >= tick_ends) tick_ends = Instant{0};
    if (ready > 0 && (bed.own_events() & POLLIN)) look();
    if (bed.line_events() != 0 || now() >= keep_again) keep_again = keep_lease(line);
  }
}

// --- polling threads on a crowded machine

// Sleeps for the next packet, but not long: the caller believes it polls. Not a cancellation
// point, as poll() is none.
void Process::doze() {
  State& state = *state_;
  int cancel = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  lock();
  Progress nothing;
  nothing.now = now();
  Bed bed(state.wake_drivers);
  std::optional<Instant> sleep;
  if (links_) sleep = prepare_sleep(nothing, bed);
  if (sleep) ++state.dozers;
  unlock();
  if (sleep) {
    bed.sleep(-1, nothing.now, std::min(*sleep, nothing.now + RestPolicy::kMaxDoze));
    lock();
    --state.dozers;
    settle_bell();
    unlock();
  }
  ::pthread_setcancelstate(cancel, nullptr);
}

// --- blocked threads

// A thread that drives while it waits. Its end is kept even if the thread is cancelled in ppoll.
struct Process::Driver {
  explicit Driver(Process& p) : process(p) {}
  ~Driver() {
    process.lock();
    bool tell = process.state_->watch.wait_ends();
    if (process.links_) {
      process.settle_bell();
      if (tell) process.wake_thread();
      process.wake_late_sleeper();
    }
    process.unlock();
  }
  Process& process;
};

struct Process::Queued {
  ~Queued() {
    process.lock();
    process.state_->watch.queue_ends();
    process.unlock();
  }
  Process& process;
};

int Process::wait_readable(int fd) {
  State& state = *state_;
  lock();
  if (!links_) {
    unlock();
    return wait_alone(fd);
  }
  if (state.watch.may_drive()) {
    if (state.watch.wait_begins()) wake_thread();
    unlock();
    bool step_back = false;
    int error = drive_until_readable(fd, step_back);
    return step_back ? wait_alone(fd) : error;
  }
  if (!state.watch.must_queue()) {
    unlock();
    return wait_alone(fd);
  }
  state.watch.queue_begins();
  unlock();
  Queued queued{*this};
  return wait_alone(fd);
}

int Process::drive_until_readable(int fd, bool& step_back) {
  State& state = *state_;
  Driver driver(*this);
  uint32_t fruitless = 0;
  for (;;) {
    lock();
    step_back = state.watch.should_step_back(fruitless);
    if (step_back) {
      unlock();
      return 0;
    }
    Progress progress = drive(true, true);
    Bed bed(state.wake_drivers);
    std::optional<Instant> sleep = prepare_sleep(progress, bed);
    unlock();
    int ready = bed.sleep(fd, now(), sleep.value_or(Instant{0}));
    if (ready < 0) {
      if (errno != EINTR) return errno;
      if (handlers_want_interruption()) return EINTR;
      continue;
    }
    if (bed.own_events() != 0) return 0;
    if (sleep) ++fruitless;
  }
}

}  // namespace verbena::host
