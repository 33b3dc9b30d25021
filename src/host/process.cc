// Birth, lock, attach and fork of the process's one engine.
#include "host/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fmt/format.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "broker/client.h"
#include "host/clock.h"
#include "host/fork_mutex.h"
#include "host/links.h"
#include "host/populate.h"
#include "host/process_state.h"
#include "host/settings.h"
#include "memory/fault_guard.h"

namespace verbena::host {
namespace {

Process* g_process = nullptr;  // for the fork handlers; set once, never freed

int64_t monotonic_ns() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// A forked child keeps the origin, as it keeps the completions of before.
const Clock& process_clock() {
  static const Clock clock(monotonic_ns());
  return clock;
}

// Another process may have had the slot a moment ago, and its peers refuse a connection from a
// queue pair number that they keep in timewait (IBA 12.9.8.4.1).
uint32_t first_qp() {
  constexpr uint32_t kChoices = 16384;  // of 65535: the engine's table is as long as the number
  return 1 + static_cast<uint32_t>(random_number() % kChoices);
}

// The folder of the file that holds this code: the library, or a program linked with it.
std::string own_folder() {
  Dl_info info{};
  char path[PATH_MAX];
  bool found = ::dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0 && info.dli_fname &&
               strchr(info.dli_fname, '/') && ::realpath(info.dli_fname, path);
  if (!found && !::realpath("/proc/self/exe", path)) return ".";
  std::string file(path);
  return file.substr(0, file.rfind('/'));
}

std::string broker_path() {
  if (const char* path = ::getenv("VERBENA_BROKER"); path && *path) return path;
  std::string folder = own_folder();
  std::string beside = folder + "/verbena-broker";
  for (const std::string& path :
       {beside, folder + "/../bin/verbena-broker", folder + "/../libexec/verbena/verbena-broker",
        folder + "/../../bin/verbena-broker"})
    if (::access(path.c_str(), X_OK) == 0) return path;
  return beside;
}

}  // namespace

uint64_t random_number() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<uint64_t>(monotonic_ns()) ^ static_cast<uint64_t>(::getpid()) << 32;
  return number;
}

Process& Process::get() {
  static Process* process = new Process;
  return *process;
}

Process::Process() : state_(std::make_unique<State>(::getenv("VERBENA_LOG"))) {
  explaining_ = state_->log.enabled();
  engine::DeviceOptions options;
  options.seed = random_number();
  options.populate = populate;
  options.explain = explaining_;
  engine_ = std::make_unique<engine::Device>(options);
  g_process = this;
  broker::watch_forks();  // before ours: see before_fork()
  ::pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  ::atexit(leave);
}

Result<std::vector<DeviceModel>> Process::devices() {
  return load_devices();
}

Instant Process::now() const {
  const Clock& clock = process_clock();  // before the reading, which must not be earlier
  return clock.at(monotonic_ns());
}

void Process::explain(const std::string& text) {
  state_->log.write(text);
}

// --- lock. Cancellation is off while it is held: links use system calls that are cancellation
// points, and a thread must not vanish in the middle of a packet.

void Process::lock() {
  int before = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  state_->mutex.lock();
  state_->cancel_state = before;
}

bool Process::try_lock() {
  int before = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  if (state_->mutex.try_lock()) {
    state_->cancel_state = before;
    return true;
  }
  ::pthread_setcancelstate(before, nullptr);
  return false;
}

void Process::unlock() {
  int before = state_->cancel_state;
  state_->mutex.unlock();
  ::pthread_setcancelstate(before, nullptr);
}

Process::Guard::Guard(Process& process) : process_(process) {
  process_.lock();
}

Process::Guard::~Guard() {
  process_.finish();
  process_.unlock();
}

// --- life

Result<void> Process::attach() {
  {
    Guard guard(*this);
    if (links_) return {};
  }
  std::lock_guard attaching(g_attach_mutex);
  std::unique_ptr<Links> abandoned;  // freed without the lock, as the failed one below
  std::unique_ptr<Connections> abandoned_connections;
  {
    Guard guard(*this);
    if (links_) return {};
    abandoned = std::move(state_->abandoned);
    abandoned_connections = std::move(state_->abandoned_connections);
  }
  abandoned_connections.reset();
  abandoned.reset();
  broker::AttachOptions options;
  options.broker_path = broker_path();
  auto refuse = [this](const Error& error) {
    explain("cannot attach: " + error.message);
    return tl::unexpected<Error>(error);
  };
  if (const Result<void>& log = state_->log.opened(); !log) return refuse(log.error());
  const Result<bool> local = switched_on("VERBENA_LOCAL", ::getenv("VERBENA_LOCAL"));
  if (!local) return refuse(local.error());
  const Result<bool> fault_guard =
      switched_on("VERBENA_FAULT_GUARD", ::getenv("VERBENA_FAULT_GUARD"));
  if (!fault_guard) return refuse(fault_guard.error());
  options.local = *local;
  Result<std::unique_ptr<Links>> links = Links::open(options, state_->addresses);
  if (!links) return refuse(links.error());
  std::unique_ptr<Links> failed;  // its end waits for the broker
  Guard guard(*this);
  links_ = std::move(*links);
  engine_->qpn_base(uint32_t{links_->slot()} << 16, first_qp());
  engine_->wire_window_bytes(links_->wire_window_bytes());
  for (uint32_t key : state_->keys)
    if (key != 0) links_->publish_key(key);
  state_->publisher.open(links_->counters_page(), *engine_, ::getenv("VERBENA_TREE"));
  if (*fault_guard) memory::install_fault_guard();
  Result<void> started = start_thread();
  if (!started) {
    state_->publisher.close();
    failed = std::move(links_);
  }
  return started;
}

uint8_t Process::port(std::string_view device_name) {
  return state_->publisher.port(device_name);
}

// exit() and the return of main() come here. Other threads may still be at work, one of them with
// the lock for ever: then the last milliseconds stay uncounted.
void Process::leave() {
  if (g_process == nullptr) return;
  Mutex& mutex = g_process->state_->mutex;
  for (int attempt = 0; !mutex.try_lock(); ++attempt) {
    if (attempt == 50) return;
    ::usleep(1000);
  }
  if (g_process->links_) g_process->state_->publisher.flush(*g_process->engine_);
  mutex.unlock();
}

// --- fork. The child has a copy of the memory and nothing else: its links and thread are gone,
// the queue pairs go on in the parent. Its next attach() takes a slot of its own.
//
// Locks are taken in the order in which calls nest them: attach, process, channels, those of the
// Door. The broker client's own handler comes after ours, because it was registered first.

void Process::before_fork() {
  g_attach_mutex.lock();
  g_process->state_->mutex.lock();
  EventChannel::before_fork();
  ForkMutex::before_fork();
}

void Process::after_fork_parent() {
  ForkMutex::after_fork_parent();
  EventChannel::after_fork_parent();
  g_process->state_->mutex.unlock();
  g_attach_mutex.unlock();
}

void Process::after_fork_child() {
  Process& process = *g_process;
  State& state = *process.state_;
  ForkMutex::after_fork_child();
  EventChannel::after_fork_child();
  new (&g_attach_mutex) std::mutex;
  state.mutex.reset();
  state.watch.reset();
  state.dozers = 0;
  state.wake_thread.reset();
  state.wake_drivers.reset();
  state.publisher.close();
  if (process.connections_) {
    process.connections_->line().close();  // without a word: the parent goes on
    state.next_generation = process.connections_->manager().next_generation();
    state.abandoned_connections = std::move(process.connections_);
    if (process.cm_forked_ != nullptr) process.cm_forked_();
  }
  // Its lease has closed the descriptors, in the broker client's own handler.
  if (process.links_) state.abandoned = std::move(process.links_);
  process.engine_->abandon_queue_pairs();
  process.engine_->explanations().clear();
}

}  // namespace verbena::host
