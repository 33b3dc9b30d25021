// Two vfork-like clones: the first asks for no death signal, so the program's own wait() and
// SIGCHLD handler never meet it; the second execs and is orphaned at once. exec gives its caller
// SIGCHLD as death signal again, which is why the first one must not exec. Neither runs any code
// of the program (atfork handlers, signal handlers), and allocations happen before the first.
#include "broker/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

extern char** environ;

// The children run in our memory on stacks of their own, which no sanitizer understands. And
// ThreadSanitizer's wrappers of clone and sigaction take such a child for a fork, and what it does
// for the parent's doings; glibc's second names of the two have no wrappers.
#ifdef __clang__
#define VERBENA_UNWATCHED __attribute__((disable_sanitizer_instrumentation))
#else
#define VERBENA_UNWATCHED
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VERBENA_PLAIN_NAMES
extern "C" int plain_clone(int (*)(void*), void*, int, void*, ...) __asm__("__clone");
extern "C" int plain_sigaction(int, const struct sigaction*,
                               struct sigaction*) __asm__("__sigaction");
#endif
#endif
#ifndef VERBENA_PLAIN_NAMES
constexpr auto plain_clone = &::clone;
constexpr auto plain_sigaction = &::sigaction;
#endif

namespace verbena::broker {
namespace {

constexpr size_t kStackBytes = 64 * 1024;

struct Job {
  const char* path;
  char* const* argv;
  char* const* envp;
  uint8_t* inner_stack_top;
  volatile int error;
};

[[noreturn]] VERBENA_UNWATCHED void leave(int code) {
  for (;;) ::syscall(SYS_exit_group, code);
}

VERBENA_UNWATCHED int exec_broker(void* argument) {
  Job* job = static_cast<Job*>(argument);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    plain_sigaction(number, &standard, nullptr);
  }
  // Our copy of the table; the broker does it again where this fails.
  ::syscall(SYS_close_range, 0, ~0u, 0);
  for (int fd = 0; fd < 3; ++fd) {
    if (::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR) < 0) break;
  }
  ::execve(job->path, job->argv, job->envp);
  job->error = errno;
  leave(127);
}

VERBENA_UNWATCHED int start_orphan(void* argument) {
  Job* job = static_cast<Job*>(argument);
  int child = plain_clone(exec_broker, job->inner_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, job);
  if (child < 0) job->error = errno;
  leave(0);
}

// The broker must not load the program's preloads; sanitizer options are for our own tests.
std::vector<char*> broker_environment() {
  std::vector<char*> out;
  for (char** entry = environ; entry && *entry; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (!equals) continue;
    std::string name(*entry, static_cast<size_t>(equals - *entry));
    bool sanitizer = name.size() > 12 && name.find("SAN_OPTIONS") != std::string::npos;
    if (name == "PATH" || sanitizer) out.push_back(*entry);
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<void> spawn_broker(const std::string& path, const std::string& name, uint16_t port) {
  std::string number = std::to_string(port);
  char* argv[] = {const_cast<char*>("verbena-broker"), const_cast<char*>("--name"),
                  const_cast<char*>(name.c_str()),     const_cast<char*>("--port"),
                  const_cast<char*>(number.c_str()),   nullptr};
  std::vector<char*> envp = broker_environment();
  void* stacks = ::mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) return fail(errno, "no memory to start the broker");
  uint8_t* base = static_cast<uint8_t*>(stacks);
  Job job{path.c_str(), argv, envp.data(), base + kStackBytes, 0};

  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int child = plain_clone(start_orphan, base + 2 * kStackBytes, CLONE_VM | CLONE_VFORK, &job);
  int clone_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child > 0) {
    while (::waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  ::munmap(stacks, 2 * kStackBytes);
  int error = child < 0 ? clone_error : job.error;
  if (error != 0) {
    return fail(error, "cannot start the broker " + path + ": " + std::strerror(error));
  }
  return {};
}

}  // namespace verbena::broker
