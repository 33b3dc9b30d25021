// fork beside busy threads: whatever they held at that moment, the child can use everything, and
// the parent loses nothing to it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "host/fork_mutex.h"
#include "roads.h"

namespace verbena::host {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Roads, testing::Bool(),
                         [](const auto& info) { return info.param ? "local" : "wire"; });

// Runs `body` in a forked child of this process, which a deadlock ends with SIGALRM.
bool fork_and_run(const std::function<void()>& body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    body();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

bool readable(const EventChannel& channel) {
  pollfd ready{channel.fd(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

TEST(Fork, WaitsUntilAForkMutexIsFree) {
  static ForkMutex outer, inner;
  Process::get();  // registers the handlers
  std::atomic<bool> held{false};
  std::thread holder([&] {
    std::lock_guard a(outer);
    std::lock_guard b(inner);
    held = true;
    usleep(50'000);
    held = false;
  });
  while (!held) usleep(1000);
  uint32_t generation = fork_generation();
  EXPECT_TRUE(fork_and_run([&] {
    DEMAND(!held);
    DEMAND(outer.try_lock() && inner.try_lock());
    DEMAND(fork_generation() == generation + 1);
  }));
  holder.join();
  EXPECT_TRUE(outer.try_lock());
  EXPECT_TRUE(inner.try_lock());
  outer.unlock();
  inner.unlock();
  EXPECT_EQ(fork_generation(), generation);
}

// A count that a child takes must not be one that a waiter of the parent misses, and the reverse.
TEST(Fork, ChannelsOfParentAndChildAreApart) {
  EventChannel channel;
  fcntl(channel.fd(), F_SETFL, O_NONBLOCK);
  int object = 0;
  channel.push({engine::Event::kQp, engine::AsyncType::kCommEst, &object});
  EXPECT_TRUE(fork_and_run([&] {
    Delivery delivery;
    DEMAND(!readable(channel));
    DEMAND(channel.pop(delivery) == EAGAIN);  // still not blocking
    DEMAND(channel.forget(&object) == 1);     // nobody will ever acknowledge it here
    DEMAND(channel.forget(&object) == 0);
    channel.push({engine::Event::kQp, engine::AsyncType::kSqDrained, &object});
    DEMAND(readable(channel));
    DEMAND(channel.pop(delivery) == 0 && delivery.type == engine::AsyncType::kSqDrained);
    DEMAND(fcntl(channel.fd(), F_GETFD) == FD_CLOEXEC);
  }));
  Delivery delivery;
  EXPECT_TRUE(readable(channel));
  EXPECT_EQ(channel.pop(delivery), 0);
  EXPECT_EQ(delivery.type, engine::AsyncType::kCommEst);
  EXPECT_FALSE(readable(channel));
}

// The program's threads wait for events, get them, drop them, make and destroy queue pairs.
TEST_P(Roads, fork_beside_threads_in_every_call) {
  Child a([](int) {
    PeerOptions options;
    options.bytes = 4096;
    Peer peer(options);
    EventChannel waited, filled;
    int object = 0;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
      Delivery delivery;
      while (!stop) DEMAND(waited.pop(delivery) == 0);
    });
    threads.emplace_back([&] {
      while (!stop) {
        waited.push({engine::Event::kQp, engine::AsyncType::kCommEst, nullptr});
        filled.push({engine::Event::kQp, engine::AsyncType::kCommEst, &object});
        filled.forget(&object);
        EventChannel passing;
      }
      waited.push({});
    });
    threads.emplace_back([&] {
      while (!stop) Peer passing(options);
    });
    threads.emplace_back([&] {
      engine::WorkCompletion completion;
      while (!stop) {
        peer.arm();
        DEMAND(peer.poll(completion) == 0);
      }
    });
    for (int i = 0; i < 60; ++i)
      DEMAND(fork_and_run([&] {
        Delivery delivery;
        for (EventChannel* channel : {&waited, &filled}) {
          fcntl(channel->fd(), F_SETFL, O_NONBLOCK);
          DEMAND(channel->pop(delivery) == EAGAIN);
          channel->push({});
          DEMAND(channel->pop(delivery) == 0);
        }
        filled.forget(&object);
        EventChannel fresh;
        if (i % 8 == 0) Peer own(options);
      }));
    stop = true;
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(a.wait(), 0);
}

// The links of the parent end in the child's attach(), which another thread's fork may meet.
TEST_P(Roads, fork_while_a_forked_child_attaches) {
  Child a([](int) {
    PeerOptions options;
    options.bytes = 4096;
    Peer peer(options);
    for (int i = 0; i < 20; ++i)
      DEMAND(fork_and_run([&] {
        std::thread attaching([&] { Peer own(options); });
        for (int j = 0; j < 10; ++j)
          DEMAND(fork_and_run([] { Process::Guard guard(Process::get()); }));
        attaching.join();
      }));
  });
  EXPECT_EQ(a.wait(), 0);
}

}  // namespace
}  // namespace verbena::host
