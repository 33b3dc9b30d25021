// The ports of a process and its line to the broker: many of them, many threads, a broker that is
// stopped, killed or has forgotten, and peers without a global address.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "cm/mads.h"
#include "connecting.h"
#include "host/connections.h"

namespace verbena::host {
namespace {

using Ports = ConnectionTest;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

int code(const Result<CmBinding>& result) {
  return result ? 0 : result.error().code;
}

// How many of the ports another process can have; each is given back at once.
int free_ports(uint16_t first, int count) {
  Child other([&](int socket) {
    int free = 0;
    for (int i = 0; i < count; ++i) {
      Result<CmBinding> bound = bind_port(static_cast<uint16_t>(first + i));
      if (bound) port().release(*bound);
      free += bound.has_value();
    }
    say(socket, std::to_string(free));
  });
  const std::string free = other.receive(30'000);
  return free.empty() ? -1 : std::stoi(free);
}

TEST_F(Ports, TwoOfOneProcess) {
  Child owner([](int socket) {
    CmBinding a = *bind_port(7001), b = *bind_port(7002);
    DEMAND(!(a.listener == b.listener));
    DEMAND(port().listen(a, 8).has_value());
    port().release(a);
    DEMAND(port().listen(a, 8).error().code == EINVAL);
    say(socket, "released 7001");
    hear(socket);
    DEMAND(port().listen(b, 8).has_value());
    say(socket, "listens at 7002");
    hear(socket);
  });
  ASSERT_EQ(owner.receive(), "released 7001");
  EXPECT_EQ(free_ports(7001, 2), 1);
  Child other([](int socket) { say(socket, std::to_string(code(bind_port(7002)))); });
  EXPECT_EQ(other.receive(), std::to_string(EADDRINUSE));
  owner.send("listen");
  EXPECT_EQ(owner.receive(), "listens at 7002");
}

// All of them open the connection manager at once, and its one line hears.
TEST_F(Ports, ThreadsThatComeTogether) {
  for (int i = 0; i < 20; ++i) {
    Child child([](int socket) {
      port();
      std::atomic<bool> go = false;
      std::vector<std::thread> threads;
      for (int n = 0; n < 4; ++n) {
        threads.emplace_back([&go] {
          while (!go) continue;
          DEMAND(port().open().has_value());
        });
      }
      go = true;
      for (std::thread& thread : threads) thread.join();
      DEMAND(bind_port(7001).has_value());
      DEMAND(port().connect(request()).has_value());
      say(socket, std::to_string(expect(cm::EventType::kRejected, 2000).status));
    });
    ASSERT_EQ(child.receive(), "8") << "run " << i;
  }
}

// More than any socket's buffer holds, in requests or in answers.
TEST_F(Ports, ThousandsOutliveTheirBroker) {
  constexpr int kCount = 3000;
  constexpr int kPatience = 60'000;  // ms: a sanitizer's build on a busy machine is slow
  constexpr uint16_t kFirst = 10'000;
  Child owner([](int socket) {
    std::vector<CmBinding> bound;
    for (int i = 0; i < kCount; ++i) bound.push_back(*bind_port(static_cast<uint16_t>(kFirst + i)));
    say(socket, "bound");
    hear(socket, kPatience);
    say(socket, std::to_string(code(bind_port(9000))));
    hear(socket, kPatience);
    for (const CmBinding& binding : bound) port().release(binding);  // in one burst
    say(socket, std::to_string(code(bind_port(9001))));
    hear(socket, kPatience);
  });
  ASSERT_EQ(owner.receive(kPatience), "bound");
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(kill(broker_pid(), SIGKILL), 0);
    usleep(500'000);
    EXPECT_EQ(free_ports(kFirst, kCount), 0);
  }
  owner.send("bind");
  EXPECT_EQ(owner.receive(kPatience), "0");
  owner.send("release");
  EXPECT_EQ(owner.receive(kPatience), "0");
  EXPECT_EQ(free_ports(kFirst, kCount), kCount);
  EXPECT_EQ(free_ports(9000, 2), 0);
}

// The engine goes on, and the port whose answer comes too late is nobody's.
TEST_F(Ports, AStoppedBrokerStopsNobody) {
  Child child([](int socket) {
    DEMAND(port().open().has_value());
    CmBinding before = *bind_port(7000);
    const pid_t broker = broker_pid();
    DEMAND(kill(broker, SIGSTOP) == 0);
    std::atomic<int> ended = 0;
    std::thread binds([&] {
      DEMAND(code(bind_port(7001)) == ETIMEDOUT);
      ++ended;
    });
    std::thread listens([&] {
      DEMAND(port().listen(before, 8).error().code == ETIMEDOUT);
      ++ended;
    });
    steady_clock::duration longest{};
    while (ended < 2) {
      const auto start = steady_clock::now();
      Process::get().step_if_attached();
      longest = std::max(longest, steady_clock::now() - start);
      usleep(1000);
    }
    binds.join();
    listens.join();
    DEMAND(kill(broker, SIGCONT) == 0);
    DEMAND(lab::eventually([] { return bind_port(7002).has_value(); }));
    DEMAND(port().listen(before, 8).has_value());
    say(socket, longest < milliseconds(500) ? "goes on" : "waits");
    hear(socket);
  });
  EXPECT_EQ(child.receive(), "goes on");
  EXPECT_EQ(free_ports(7000, 3), 1) << "7001 alone";
}

TEST_F(Ports, EveryProcessHasItsOwnGuid) {
  std::set<std::string> guids;
  for (int i = 0; i < 3; ++i) {
    Child child([](int socket) {
      DEMAND(port().open().has_value());
      const uint64_t guid = [] {
        Process::Guard guard(Process::get());
        return Process::get().connections()->manager().options().ca_guid;
      }();
      DEMAND(guid != 0);
      say(socket, std::to_string(guid));
    });
    guids.insert(child.receive());
    child.wait();
  }
  EXPECT_EQ(guids.size(), 3u);
}

// Sends a DREQ for a connection of slot 1's former owner, and says whether it was answered.
bool dreq_is_answered(int wait_ms) {
  Process& process = Process::get();
  DEMAND(port().open().has_value());
  uint64_t before = 0;
  {
    Process::Guard guard(process);
    cm::Manager& manager = process.connections()->manager();
    before = manager.counters().unknown;
    const uint32_t own = uint32_t{manager.options().slot} << 24 | 0xabcdef;
    manager.outgoing().push_back(
        {{loopback(), loopback(), 0, 64, 0}, cm::make_dreq(7, own, 1 << 24 | 5, 0x10001)});
    process.say();
  }
  return lab::eventually(
      [&] {
        Process::Guard guard(process);
        return process.connections()->manager().counters().unknown > before;
      },
      wait_ms);
}

// Slot 1 lives, and has no connection manager: not even a takeover makes it one that comes back.
TEST_F(Ports, APredecessorsPeersAreAnsweredSoonAfterATakeover) {
  Child owner([](int socket) {
    DEMAND(Process::get().attach().has_value());
    say(socket, "attached");
    hear(socket);
  });
  ASSERT_EQ(owner.receive(), "attached");
  Child peer([](int socket) {
    const bool before = dreq_is_answered(1000);
    DEMAND(kill(broker_pid(), SIGKILL) == 0);
    const bool at_once = dreq_is_answered(500);
    usleep(2'000'000);
    const bool later = dreq_is_answered(1000);
    say(socket, std::to_string(before) + std::to_string(at_once) + std::to_string(later));
  });
  EXPECT_EQ(peer.receive(), "101");
  owner.send("end");
}

TEST_F(Ports, NobodyAtALinkLocalAddress) {
  if (std::system("ip -6 addr add fe80::77/64 dev lo nodad 2>/dev/null") != 0)
    GTEST_SKIP() << "no link-local address permitted here";
  Child client([](int socket) {
    cm::ConnectRequest asked = request();
    engine::Gid gid{};
    gid.bytes[0] = 0xfe, gid.bytes[1] = 0x80, gid.bytes[15] = 0x77;
    asked.route.source = asked.route.destination = gid;
    DEMAND(port().connect(asked).has_value());
    say(socket, std::to_string(expect(cm::EventType::kRejected, 2000).status));
  });
  EXPECT_EQ(client.receive(), "8");
}

// What the child's explain log says.
std::string read_log(const char* path) {
  std::string text(65536, 0);
  const int fd = open(path, O_RDONLY);
  const ssize_t n = read(fd, text.data(), text.size());
  close(fd);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

size_t count(const std::string& text, const std::string& what) {
  size_t times = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++times;
  return times;
}

class LoggedPorts : public Ports {
 protected:
  void SetUp() override {
    Ports::SetUp();
    path_ = testing::TempDir() + "verbena_ports_test." + std::to_string(getpid());
    setenv("VERBENA_LOG", ("explain:" + path_).c_str(), 1);
  }
  void TearDown() override {
    unsetenv("VERBENA_LOG");
    unlink(path_.c_str());
  }
  std::string path_;
};

// Its owner was stopped when a new broker was told who has what.
TEST_F(LoggedPorts, APortThatAnotherTookIsSaidSo) {
  Child owner([](int socket) {
    DEMAND(bind_port(7001).has_value());
    say(socket, "bound");
    hear(socket);
  });
  ASSERT_EQ(owner.receive(), "bound");
  owner.kill(SIGSTOP);
  ASSERT_EQ(kill(broker_pid(), SIGKILL), 0);
  Child other([](int socket) {
    say(socket, std::to_string(code(bind_port(7001))));
    hear(socket);
  });
  EXPECT_EQ(other.receive(), "0");
  owner.kill(SIGCONT);
  EXPECT_TRUE(lab::eventually(
      [&] { return count(read_log(path_.c_str()), "a port of this process is lost") == 1; }));
}

}  // namespace
}  // namespace verbena::host
