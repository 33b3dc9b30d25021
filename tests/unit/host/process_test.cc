// Whole processes against each other: data, death, silence, progress without polls, fork.
#include "host/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "roads.h"

namespace verbena::host {
namespace {

void fill(Peer& peer, uint8_t seed) {
  for (size_t i = 0; i < (1 << 20); ++i)
    peer.bytes()[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
}

TEST_P(Roads, send_write_and_read_carry_the_bytes) {
  constexpr size_t kHalf = 1 << 19;
  Child b([](int socket) {
    Peer peer;
    fill(peer, 9);
    memset(peer.bytes(), 0, kHalf);
    DEMAND(peer.post_receive(0, 5000) == 0);
    meet(socket, peer);
    DEMAND(peer.path() == expected());
    engine::WorkCompletion received = peer.wait();
    DEMAND(received.status == WcStatus::kSuccess && received.byte_len == 4321);
    for (size_t i = 0; i < 4321; ++i)
      DEMAND(peer.bytes()[i] == static_cast<uint8_t>(i * 7 + i / 251 + 1));
    say(socket, "received");
    hear(socket);
    for (size_t i = 0; i < 300'001; ++i)
      DEMAND(peer.bytes()[100 + i] == static_cast<uint8_t>(i * 7 + i / 251 + 1));
    say(socket, "checked");
    hear(socket);
  });
  Child a([](int socket) {
    Peer peer;
    fill(peer, 1);
    meet(socket, peer);
    hear(socket);
    DEMAND(peer.post_send(WrOpcode::kSend, 0, 4321, 0) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    say(socket, "sent");
    hear(socket);
    DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 300'001, 100) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    say(socket, "written");
    hear(socket);
    DEMAND(peer.post_send(WrOpcode::kRdmaRead, 77, 400'003, kHalf + 3) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    for (size_t i = 0; i < 400'003; ++i) {
      size_t at = kHalf + 3 + i;
      DEMAND(peer.bytes()[77 + i] == static_cast<uint8_t>(at * 7 + at / 251 + 9));
    }
    say(socket, "read");
  });
  introduce(a, b);
  a.send("go");
  EXPECT_EQ(b.receive(), "received");
  EXPECT_EQ(a.receive(), "sent");
  a.send("go");
  EXPECT_EQ(a.receive(), "written");
  b.send("check");
  EXPECT_EQ(b.receive(), "checked");
  a.send("go");
  EXPECT_EQ(a.receive(), "read");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

// A sends, B answers, `rounds` times; both poll. Says the microseconds of a one-way trip: mean and
// median.
void ping_pong(int socket, bool first, int rounds, int cpu) {
  if (cpu >= 0) pin(cpu);
  PeerOptions options;
  options.bytes = 4096;
  options.timeout = 18;
  Peer peer(options);
  for (int i = 0; i < 32; ++i) DEMAND(peer.post_receive(64, 64) == 0);
  meet(socket, peer);
  DEMAND(peer.path() == Roads::expected());
  hear(socket);
  double start = seconds_now();
  int sent = 0, received = 0;
  if (first) {
    DEMAND(peer.post_send(WrOpcode::kSend, 0, 2, 0) == 0);
    ++sent;
  }
  double give_up = start + 100;
  int finished = 0;
  std::vector<double> marks;
  marks.reserve(static_cast<size_t>(rounds));
  while (finished < rounds || received < rounds) {
    engine::WorkCompletion completion;
    int n = peer.poll(completion);
    if (n == 0) {
      if (seconds_now() > give_up) break;
      continue;
    }
    DEMAND(n == 1 && completion.status == WcStatus::kSuccess);
    if (completion.opcode == engine::WcOpcode::kSend) {
      ++finished;
      continue;
    }
    DEMAND(peer.post_receive(64, 64) == 0);
    ++received;
    marks.push_back(seconds_now());
    if (sent < rounds) {
      DEMAND(peer.post_send(WrOpcode::kSend, 0, 2, 0) == 0);
      ++sent;
    }
  }
  DEMAND(finished == rounds && received == rounds);
  double us = (seconds_now() - start) * 1e6 / rounds / 2;
  for (size_t i = marks.size() - 1; i > 0; --i) marks[i] -= marks[i - 1];
  std::nth_element(marks.begin() + 1, marks.begin() + rounds / 2, marks.end());
  double median = marks[static_cast<size_t>(rounds) / 2] * 1e6 / 2;
  say(socket, std::to_string(us) + " mean, " + std::to_string(median) + " median");
  hear(socket);
}

TEST_P(Roads, ping_pong_on_two_processors) {
  constexpr int kRounds = 20000;
  Child b([](int socket) { ping_pong(socket, false, kRounds, 1); });
  Child a([](int socket) { ping_pong(socket, true, kRounds, 0); });
  introduce(a, b);
  b.send("go");
  a.send("go");
  std::string us = a.receive(60000);
  printf("2-byte SEND, one way: %s us\n", us.c_str());
  ASSERT_FALSE(us.empty());
  EXPECT_LT(std::stod(us), 500.0);
  b.receive();
  a.send("end");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

// The user's lenses lie over both roads: losses are repaired, and the capture shows the packets.
TEST_P(Roads, lenses_of_the_environment) {
  char capture[] = "/tmp/verbena-lens-XXXXXX";
  close(mkstemp(capture));
  unlink(capture);
  setenv("VERBENA_FAULT", "drop=5%,duplicate=5%,reorder=5%,delay=20us,seed=3", 1);
  setenv("VERBENA_PCAP", capture, 1);
  Child b([](int socket) {
    Peer peer;
    meet(socket, peer);
    hear(socket);
    for (size_t i = 0; i < 100'000; ++i)
      DEMAND(peer.bytes()[i] == static_cast<uint8_t>(i * 7 + i / 251 + 1));
  });
  Child a([](int socket) {
    PeerOptions options;
    options.timeout = 12;  // survives a loaded machine
    Peer peer(options);
    fill(peer, 1);
    meet(socket, peer);
    for (int i = 0; i < 100; ++i) {
      DEMAND(peer.post_send(WrOpcode::kRdmaWrite, i * 1000, 1000, i * 1000) == 0);
      DEMAND(peer.wait().status == WcStatus::kSuccess);
    }
    DEMAND(peer.qp().counters().retransmissions > 0);
    say(socket, "written");
  });
  unsetenv("VERBENA_FAULT");
  unsetenv("VERBENA_PCAP");
  introduce(a, b);
  EXPECT_EQ(a.receive(), "written");
  b.send("check");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  struct stat info{};
  EXPECT_EQ(stat(capture, &info), 0);
  EXPECT_GT(info.st_size, 100 * 1000);
  unlink(capture);
}

// B dies without a word. A learns it from its own timer, (1 + retry_cnt) timeouts later.
TEST_P(Roads, sudden_death_is_retry_exceeded_at_the_computed_time) {
  constexpr uint8_t kTimeout = 13;  // 4.096 us * 2^13 = 33.554 ms
  constexpr double kExpected = 4 * 33.554e-3;
  Child b([](int socket) {
    Peer peer;
    meet(socket, peer);
    pause();
  });
  Child a([](int socket) {
    PeerOptions options;
    options.timeout = kTimeout;
    options.retry_cnt = 3;
    Peer peer(options);
    meet(socket, peer);
    DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 100, 0) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    say(socket, "alive");
    hear(socket);
    double start = seconds_now();
    DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 100, 0) == 0);
    engine::WorkCompletion completion = peer.wait();
    double took = seconds_now() - start;
    DEMAND(completion.status == WcStatus::kRetryExcErr);
    DEMAND(peer.qp().state() == engine::QpState::kErr);
    say(socket, std::to_string(took));
  });
  introduce(a, b);
  EXPECT_EQ(a.receive(), "alive");
  b.kill(SIGKILL);
  b.wait();
  a.send("go");
  std::string took = a.receive();
  ASSERT_FALSE(took.empty());
  EXPECT_GE(std::stod(took), kExpected);
  EXPECT_LT(std::stod(took), kExpected + 0.1);
  EXPECT_EQ(a.wait(), 0);
}

// B stops with A's payload unread in its ring. A gives up, sees its completions and reuses the
// buffer; when B comes back, the request must not run with bytes that A never sent.
void payload_must_not_land(WrOpcode opcode) {
  constexpr size_t kBytes = 65536;
  Child b([](int socket) {
    Peer peer;
    DEMAND(peer.post_receive(0, kBytes) == 0);
    meet(socket, peer);
    say(socket, "stop me");
    hear(socket);
    usleep(100'000);
    hear(socket);  // takes the lock: what the background thread wrote is visible
    for (size_t i = 0; i < kBytes; ++i) DEMAND(peer.bytes()[i] != 0x22);
  });
  Child a([opcode](int socket) {
    PeerOptions options;
    options.timeout = 12;  // 17 ms
    options.retry_cnt = 1;
    Peer peer(options);
    memset(peer.bytes(), 0x11, kBytes);
    meet(socket, peer);
    hear(socket);
    DEMAND(peer.post_send(opcode, 0, kBytes, 0) == 0);
    DEMAND(peer.post_send(opcode, 0, kBytes, 0) == 0);
    DEMAND(peer.wait(2).status == WcStatus::kWrFlushErr);  // after RETRY_EXC of the first
    DEMAND(peer.qp().state() == engine::QpState::kErr);
    memset(peer.bytes(), 0x22, kBytes);
    say(socket, "reused");
    hear(socket);
  });
  introduce(a, b);
  EXPECT_EQ(b.receive(), "stop me");
  b.kill(SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(b.pid(), &status, WUNTRACED), b.pid());
  a.send("go");
  EXPECT_EQ(a.receive(), "reused");
  b.kill(SIGCONT);
  b.send("look");
  b.send("now");
  EXPECT_EQ(b.wait(), 0);
  a.send("end");
  EXPECT_EQ(a.wait(), 0);
}

TEST_P(Roads, payload_of_a_failed_write_does_not_land_later) {
  payload_must_not_land(WrOpcode::kRdmaWrite);
}
TEST_P(Roads, payload_of_a_failed_send_does_not_land_later) {
  payload_must_not_land(WrOpcode::kSend);
}

// A stops right after posting and sleeps through many of its own timeouts. The answer came
// meanwhile; it must be read before the timers are.
TEST_P(Roads, stopped_process_sees_no_false_timeout) {
  Child b([](int socket) {
    Peer peer;
    meet(socket, peer);
    hear(socket);
  });
  Child a([](int socket) {
    PeerOptions options;
    options.timeout = 13;
    options.retry_cnt = 0;
    Peer peer(options);
    meet(socket, peer);
    for (int i = 0; i < 5; ++i) {
      say(socket, "stopping");
      DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 100, 0) == 0);
      raise(SIGSTOP);
      DEMAND(peer.wait().status == WcStatus::kSuccess);
    }
    DEMAND(peer.qp().counters().timeouts == 0);
    say(socket, "done");
  });
  introduce(a, b);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(a.receive(), "stopping");
    int status = 0;
    ASSERT_EQ(waitpid(a.pid(), &status, WUNTRACED), a.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
    usleep(200'000);
    a.kill(SIGCONT);
  }
  EXPECT_EQ(a.receive(), "done");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

// Looks at a byte that a peer writes, without calling us; a race on purpose.
__attribute__((no_sanitize("thread"))) bool compute_until(volatile uint8_t* flag, uint8_t value) {
  for (double end = seconds_now() + 10; seconds_now() < end;)
    if (*flag == value) return true;
  return false;
}

// B computes and never calls us: WRITE and READ must get through all the same.
TEST_P(Roads, one_sided_operations_land_while_the_application_computes) {
  Child b([](int socket) {
    Peer peer;
    fill(peer, 5);
    meet(socket, peer);
    peer.bytes()[1000] = 0;
    say(socket, "computing");
    DEMAND(compute_until(peer.bytes() + 1000, 0xAB));
    say(socket, "seen");
    hear(socket);
  });
  Child a([](int socket) {
    Peer peer;
    meet(socket, peer);
    hear(socket);
    double start = seconds_now();
    for (int i = 0; i < 20; ++i) {
      DEMAND(peer.post_send(WrOpcode::kRdmaRead, 0, 65536, 4096) == 0);
      DEMAND(peer.wait().status == WcStatus::kSuccess);
    }
    DEMAND(peer.bytes()[10] == static_cast<uint8_t>(4106 * 7 + 4106 / 251 + 5));
    peer.bytes()[0] = 0xAB;
    DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 1, 1000) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    say(socket, std::to_string(seconds_now() - start));
  });
  introduce(a, b);
  EXPECT_EQ(b.receive(), "computing");
  a.send("go");
  std::string took = a.receive();
  ASSERT_FALSE(took.empty());
  EXPECT_LT(std::stod(took), 2.0);
  EXPECT_EQ(b.receive(), "seen");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

TEST_P(Roads, idle_processes_do_not_wake) {
  auto body = [](int socket) {
    Peer peer;
    meet(socket, peer);
    DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 100, 0) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    usleep(300'000);  // the last counters are published after 50 ms
    long before = background_switches();
    DEMAND(before > 0);
    usleep(1'000'000);
    say(socket, std::to_string(background_switches() - before));
    hear(socket);
  };
  Child a(body), b(body);
  introduce(a, b);
  EXPECT_EQ(a.receive(), "0");
  EXPECT_EQ(b.receive(), "0");
  a.send("end");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

// Four threads of each process, each with a queue pair of its own, share one engine.
TEST_P(Roads, threads_share_the_engine) {
  constexpr int kThreads = 4, kOperations = 500;
  auto body = [](int socket) {
    std::vector<std::unique_ptr<Peer>> peers;
    std::string all;
    PeerOptions options;
    options.bytes = 65536;
    options.timeout = 18;
    for (int i = 0; i < kThreads; ++i) {
      peers.push_back(std::make_unique<Peer>(options));
      all += peers.back()->info() + "\n";
    }
    say(socket, all);
    std::istringstream lines(hear(socket));
    for (int i = 0; i < kThreads; ++i) {
      std::string line;
      std::getline(lines, line);
      peers[static_cast<size_t>(i)]->connect(line);
    }
    say(socket, "connected");
    hear(socket);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&peers, t] {
        Peer& peer = *peers[static_cast<size_t>(t)];
        for (int i = 0; i < kOperations; ++i) {
          WrOpcode opcode = i % 2 ? WrOpcode::kRdmaRead : WrOpcode::kRdmaWrite;
          DEMAND(peer.post_send(opcode, 0, 1000, 1000) == 0);
          DEMAND(peer.wait(1, 30000).status == WcStatus::kSuccess);
        }
      });
    for (std::thread& thread : threads) thread.join();
    say(socket, "done");
    hear(socket);
  };
  Child a(body), b(body);
  introduce(a, b);
  EXPECT_EQ(a.receive(60000), "done");
  EXPECT_EQ(b.receive(60000), "done");
  a.send("end");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

// Sixteen spinners on the machine's processors: they must hand over, not burn their time slices.
TEST_P(Roads, crowd_of_pollers_makes_progress) {
  constexpr int kPairs = 8, kRounds = 500;
  std::vector<std::unique_ptr<Child>> first, second;
  for (int i = 0; i < kPairs; ++i) {
    second.push_back(
        std::make_unique<Child>([](int socket) { ping_pong(socket, false, kRounds, -1); }));
    first.push_back(
        std::make_unique<Child>([](int socket) { ping_pong(socket, true, kRounds, -1); }));
    introduce(*first.back(), *second.back());
  }
  double start = seconds_now();
  for (int i = 0; i < kPairs; ++i) second[i]->send("go");
  for (int i = 0; i < kPairs; ++i) first[i]->send("go");
  for (int i = 0; i < kPairs; ++i) EXPECT_NE(first[i]->receive(60000), "");
  double took = seconds_now() - start;
  printf("%d pairs, %d rounds: %.2f s\n", kPairs, kRounds, took);
  EXPECT_LT(took, 20.0);
  for (int i = 0; i < kPairs; ++i) {
    first[i]->send("end");
    second[i]->send("end");
    EXPECT_EQ(first[i]->wait(), 0);
    EXPECT_EQ(second[i]->wait(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Roads, testing::Bool(),
                         [](const auto& info) { return info.param ? "local" : "wire"; });

}  // namespace
}  // namespace verbena::host
