// The guard turns a fault of its own copies into a refusal and hands on everybody else's.
#include "memory/fault_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "memory/payload.h"

namespace verbena::memory {
namespace {

constexpr size_t kPage = 4096;

struct Pages {
  explicit Pages(size_t count) : bytes(count * kPage) {
    at = static_cast<uint8_t*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(at, 7, bytes);
  }
  ~Pages() { munmap(at, bytes); }
  // Gone for whoever touches page `first` and those behind it, but not free: a runtime with memory
  // of its own (thread sanitizer's) would be given the hole, and nothing would fault any more.
  void take_away(size_t first) { mprotect(at + first * kPage, bytes - first * kPage, PROT_NONE); }
  uint8_t* at;
  size_t bytes;
};

class FaultGuard : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style,
                   "threadsafe");  // fresh processes: what was there before counts
  }
};

TEST_F(FaultGuard, PresentLooksAtEveryPageAndChangesNone) {
  install_fault_guard();
  Pages pages(3);
  EXPECT_TRUE(present(pages.at, pages.bytes, true));
  EXPECT_TRUE(present(pages.at + 1, 2 * kPage, false));
  for (size_t i = 0; i < pages.bytes; ++i) ASSERT_EQ(pages.at[i], 7);
  mprotect(pages.at + kPage, kPage, PROT_READ);
  EXPECT_TRUE(present(pages.at, pages.bytes, false));
  EXPECT_FALSE(present(pages.at, pages.bytes, true));
  EXPECT_FALSE(present(pages.at + kPage - 1, 2, true));
  EXPECT_TRUE(present(pages.at, kPage, true));
  EXPECT_TRUE(present(pages.at + 2 * kPage, kPage, true));
  pages.take_away(2);
  EXPECT_FALSE(present(pages.at, pages.bytes, false));
  EXPECT_TRUE(present(pages.at, 2 * kPage, false));
}

TEST_F(FaultGuard, ACopyEndsAtTheFault) {
  install_fault_guard();
  Pages source(1), target(2);
  target.take_away(1);
  Segment segment{source.at, kPage};
  Payload payload{{&segment, 1}, kPage, nullptr};
  EXPECT_TRUE(payload.copy_out(0, target.at, kPage));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(payload.copy_out(0, target.at + 1, kPage));
  source.take_away(0);
  EXPECT_FALSE(payload.copy_out(0, target.at, kPage));
}

// Whoever wraps sigaction may block signals while the guard's handler runs (thread sanitizer does).
TEST_F(FaultGuard, LeavesNoSignalBlocked) {
  EXPECT_EXIT(
      {
        install_fault_guard();
        struct sigaction guard{};
        sigaction(SIGSEGV, nullptr, &guard);
        guard.sa_flags &= ~SA_NODEFER;
        sigfillset(&guard.sa_mask);
        sigaction(SIGSEGV, &guard, nullptr);
        Pages gone(1);
        gone.take_away(0);
        int refused = 0;
        for (int i = 0; i < 3; ++i) refused += !present(gone.at, kPage, false);
        sigset_t blocked;
        sigprocmask(SIG_SETMASK, nullptr, &blocked);
        _exit(refused == 3 && sigismember(&blocked, SIGTERM) == 0 ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

sigjmp_buf own_landing;
int own_faults = 0;
void own_handler(int) {
  ++own_faults;
  siglongjmp(own_landing, 1);
}

// In a process of its own: the guard remembers what was there when it was installed.
TEST_F(FaultGuard, OtherFaultsGoToTheHandlerThatWasThere) {
  EXPECT_EXIT(
      {
        struct sigaction mine{};
        mine.sa_handler = own_handler;
        mine.sa_flags = SA_NODEFER;
        sigaction(SIGSEGV, &mine, nullptr);
        install_fault_guard();
        Pages gone(1);
        gone.take_away(0);
        bool refused = !guarded([&] { *static_cast<volatile uint8_t*>(gone.at) = 1; });
        if (sigsetjmp(own_landing, 1) == 0) *static_cast<volatile uint8_t*>(gone.at) = 1;
        _exit(refused && own_faults == 1 ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST_F(FaultGuard, WithoutAHandlerAFaultKillsAsBefore) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);  // a sanitizer has one of its own
        install_fault_guard();
        Pages gone(1);
        gone.take_away(0);
        *static_cast<volatile uint8_t*>(gone.at) = 1;
      },
      testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        install_fault_guard();
        raise(SIGSEGV);
        _exit(0);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

std::atomic<int> seen{0};

// SA_RESETHAND: the second fault meets the default, as without the guard.
TEST_F(FaultGuard, AOneShotHandlerStaysOne) {
  EXPECT_EXIT(
      {
        struct sigaction mine{};
        mine.sa_handler = [](int) {
          if (++seen > 1) _exit(0);
        };
        mine.sa_flags = static_cast<int>(SA_RESETHAND);
        sigaction(SIGSEGV, &mine, nullptr);
        install_fault_guard();
        Pages gone(1);
        gone.take_away(0);
        *static_cast<volatile uint8_t*>(gone.at) = 1;
      },
      testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(FaultGuard, AnIgnoredSignalStaysIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_IGN);
        install_fault_guard();
        raise(SIGSEGV);
        _exit(42);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace verbena::memory
