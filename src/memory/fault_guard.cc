// sigsetjmp around the copy, siglongjmp from the handler, everything else handed on.
#include "memory/fault_guard.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <mutex>

namespace verbena::memory {
namespace {

constexpr size_t kProbeStep = 4096;  // no page is smaller

std::atomic<bool> installed{false};
struct sigaction before_segv, before_bus;

// Where the thread's guarded call resumes; null outside of one. In the static block of thread-local
// storage: a handler may not allocate.
__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf* landing = nullptr;

void hand_on(int number, siginfo_t* info, void* context) {
  struct sigaction& kept = number == SIGBUS ? before_bus : before_segv;
  const struct sigaction before = kept;
  if (before.sa_flags & SA_RESETHAND) kept = {};
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
  if (before.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(number);
  // The faulting instruction runs again and meets the default: the core shows where it is. A signal
  // that somebody sent does not come back by itself.
  struct sigaction none{};
  none.sa_handler = SIG_DFL;
  ::sigaction(number, &none, nullptr);
  if (info->si_code <= 0) ::raise(number);
}

// Our own action blocks nothing, but whoever wraps sigaction may add to it (thread sanitizer blocks
// everything), and a jump past the kernel's return would leave that blocked: the next fault kills.
void restore_mask(const ucontext_t& interrupted) {
  sigset_t mask;
  ::sigemptyset(&mask);
  std::memcpy(&mask, &interrupted.uc_sigmask, _NSIG / 8);  // as much as the kernel fills in
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

void on_fault(int number, siginfo_t* info, void* context) {
  sigjmp_buf* to = landing;
  if (!to || info->si_code <= 0) return hand_on(number, info, context);
  landing = nullptr;
  restore_mask(*static_cast<ucontext_t*>(context));
  siglongjmp(*to, 1);
}

bool take(int number, struct sigaction& before) {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  // NODEFER: leaving by siglongjmp must not leave the signal blocked, and saving the mask at every
  // copy would cost a system call.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(number, nullptr, &before) == 0 && ::sigaction(number, &action, nullptr) == 0;
}

}  // namespace

void install_fault_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (take(SIGSEGV, before_segv) && take(SIGBUS, before_bus)) installed.store(true);
  });
}

__attribute__((noinline)) bool run_guarded(void (*body)(void*), void* argument) {
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) return false;
  landing = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  body(argument);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  landing = nullptr;
  return true;
}

bool present(const uint8_t* address, size_t length, bool write) {
  if (length == 0 || !installed.load(std::memory_order_relaxed)) return true;
  auto probe = [](const uint8_t* at, bool writing) {
    std::atomic_ref<uint8_t> byte(*const_cast<uint8_t*>(at));
    uint8_t value = byte.load(std::memory_order_relaxed);
    // Not fetch_or(0), which compilers may turn into a load.
    if (writing) byte.compare_exchange_strong(value, value, std::memory_order_relaxed);
  };
  return guarded([&] {
    const uint8_t* last = address + length - 1;
    for (const uint8_t* at = address;;
         at += kProbeStep - reinterpret_cast<uintptr_t>(at) % kProbeStep) {
      probe(at, write);
      if (static_cast<size_t>(last - at) <
          kProbeStep - reinterpret_cast<uintptr_t>(at) % kProbeStep)
        return;
    }
  });
}

}  // namespace verbena::memory
