// The broker's promises, each tried with real processes: one broker whoever starts first, exact
// routing through every death, errors that name their cause, and nothing left behind.
#include "broker/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <set>

#include "broker_fixture.h"
#include "crowd.h"
#include "lab.h"

namespace verbena::broker {
namespace {

using lab::Child;
using lab::eventually;

using BrokerTest = BrokerFixture;

TEST_F(BrokerTest, LeasesLowestSlotFirstAndLeavesWithItsLastClient) {
  auto first = attach(lab_options());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ((*first)->slot(), 1);
  EXPECT_GE((*first)->udp4(), 0);
  EXPECT_EQ(lab::count_processes("verbena-broker"), 2);  // and its standby
  auto second = attach(lab_options());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ((*second)->slot(), 2);
  const link::SlotRow& row = (*second)->host_page().rows[1];
  EXPECT_EQ(row.pid.load(), ::getpid());
  EXPECT_EQ(row.uid.load(), ::geteuid());
  EXPECT_EQ(row.flags.load(), link::kSlotAlive | link::kSlotLocalOk);
  EXPECT_TRUE(link::local_eligible((*second)->host_page(), 1, 2));
  EXPECT_FALSE(link::local_eligible((*second)->host_page(), 1, 3));
  first->reset();
  auto third = attach(lab_options());
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_EQ((*third)->slot(), 1);
  EXPECT_EQ((*third)->generation(), 2u);
}

TEST_F(BrokerTest, LocalOffIsPublished) {
  AttachOptions off = lab_options();
  off.local = false;
  auto a = attach(off), b = attach(lab_options());
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(link::local_eligible((*b)->host_page(), (*a)->slot(), (*b)->slot()));
}

TEST_F(BrokerTest, StartsWithoutAChildForTheProgramToReap) {
  Child program([](int socket) {
    static volatile sig_atomic_t deaths = 0;
    ::signal(SIGCHLD, [](int) { deaths = deaths + 1; });
    auto lease = attach(lab_options());
    int status;
    pid_t reaped = ::waitpid(-1, &status, WNOHANG);
    lab::say(socket, !lease         ? lease.error().message
                     : reaped != -1 ? "a child to reap"
                     : deaths != 0  ? "SIGCHLD"
                                    : "clean");
  });
  EXPECT_EQ(program.receive(), "clean");
}

TEST_F(BrokerTest, DoesNotHoldTheStartersDescriptors) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);  // inheritable, as a shell's stdout pipe is
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  ::close(pipe_ends[1]);
  pollfd wait{pipe_ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 2000), 1);
  EXPECT_TRUE(wait.revents & POLLHUP) << "somebody still holds the write end";
  ::close(pipe_ends[0]);
}

TEST_F(BrokerTest, SixteenProcessesAtOnceGetOneBroker) {
  std::deque<Child> children;
  for (int i = 0; i < 16; ++i) {
    children.emplace_back([](int socket) {
      lab::hear(socket);
      slot_owner(socket);
    });
  }
  for (Child& child : children) child.send("go");
  std::set<int> slots;
  for (Child& child : children) {
    std::string answer = child.receive();
    ASSERT_EQ(answer.find_first_not_of("0123456789"), std::string::npos) << answer;
    ASSERT_FALSE(answer.empty());
    slots.insert(std::stoi(answer));
  }
  EXPECT_EQ(slots.size(), 16u);
  EXPECT_EQ(*slots.rbegin(), 16);
  EXPECT_TRUE(eventually([] { return lab::count_processes("verbena-broker") == 2; }));
}

TEST_F(BrokerTest, RoutesExactlyThroughEveryDeath) {
  Crowd crowd(4);
  ASSERT_EQ(crowd.slots, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_TRUE(crowd.routes_exactly());

  crowd.children[1].kill(SIGKILL);
  crowd.children[1].wait();
  EXPECT_TRUE(crowd.routes_exactly({1})) << "after SIGKILL of a client";

  auto observer = Observer::open();
  ASSERT_TRUE(observer);
  const link::HostPage& page = observer->host_page();
  EXPECT_TRUE(eventually([&] { return page.rows[2].flags.load() == 0; }));
  pid_t first = page.broker_pid.load(), standby = page.standby_pid.load();
  ASSERT_GT(first, 0);
  ASSERT_GT(standby, 0);

  ASSERT_EQ(::kill(standby, SIGKILL), 0);
  EXPECT_TRUE(crowd.routes_exactly({1})) << "after SIGKILL of the standby";
  EXPECT_TRUE(eventually([&] { return page.standby_pid.load() != standby; }));
  standby = page.standby_pid.load();

  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(crowd.routes_exactly({1})) << "after SIGKILL of the broker";
  EXPECT_TRUE(eventually([&] { return page.broker_pid.load() == standby; }));
  EXPECT_EQ(page.takeovers.load(), 1u);
  EXPECT_TRUE(eventually([&] { return page.standby_pid.load() != standby; }));

  // Old clients find the new broker, new ones get the freed slot, and it is empty.
  crowd.children[0].send("open 3");
  EXPECT_EQ(crowd.children[0].receive(), "open");
  int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  send_to_slot(socket, 2 << 16 | 5, 1);
  ::close(socket);
  Child late(slot_owner);
  EXPECT_EQ(late.receive(), "2");
  late.send("count 1");
  EXPECT_EQ(late.receive(), "0") << "a stale datagram reached the new owner";

  // A second takeover, by the standby that the standby started.
  pid_t second = page.broker_pid.load();
  ASSERT_EQ(::kill(second, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return page.takeovers.load() == 2; }));
  EXPECT_TRUE(crowd.routes_exactly({1})) << "after SIGKILL of the second broker";
}

TEST_F(BrokerTest, ClientsDuringATakeoverJustWait) {
  auto keeper = attach(lab_options());
  ASSERT_TRUE(keeper);
  for (int round = 0; round < 10; ++round) {
    pid_t broker = (*keeper)->host_page().broker_pid.load();
    ASSERT_EQ(::kill(broker, SIGKILL), 0);
    auto lease = attach(lab_options());
    ASSERT_TRUE(lease) << lease.error().message;
    EXPECT_EQ((*lease)->slot(), 2);
    ASSERT_TRUE(eventually([&] {
      return (*keeper)->host_page().broker_pid.load() != broker &&
             (*keeper)->host_page().standby_pid.load() != (*keeper)->host_page().broker_pid.load();
    }));
  }
}

TEST_F(BrokerTest, SlotGivenBackWhileNoBrokerAnswersIsFreed) {
  auto keeper = attach(lab_options());
  auto lease = attach(lab_options());
  ASSERT_TRUE(keeper && lease);
  pid_t broker = (*keeper)->host_page().broker_pid.load();
  ASSERT_EQ(::kill(broker, SIGKILL), 0);
  lease->reset();  // its connection is gone: only the segment tells
  EXPECT_TRUE(eventually([&] { return (*keeper)->host_page().rows[2].flags.load() == 0; }));
}

TEST_F(BrokerTest, BothBrokersDeadIsAnErrorThatSaysSo) {
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  const link::HostPage& page = (*lease)->host_page();
  pid_t broker = page.broker_pid.load(), standby = page.standby_pid.load();
  ::kill(broker, SIGSTOP);
  ::kill(standby, SIGKILL);
  ::kill(broker, SIGKILL);
  ASSERT_TRUE(eventually([] { return lab::count_processes("verbena-broker") == 0; }));
  auto peer = (*lease)->open_peer(1);
  ASSERT_FALSE(peer);
  auto other = attach(lab_options());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, EADDRINUSE);
  EXPECT_NE(other.error().message.find("(pid " + std::to_string(::getpid()) + ")"),
            std::string::npos)
      << other.error().message;
}

TEST_F(BrokerTest, AForkedChildLeavesTheParentsSlotAlone) {
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  Child child([&](int socket) {
    bool clean = (*lease)->abandoned() && (*lease)->udp4() == -1 && !(*lease)->open_peer(1);
    lease->reset();
    auto own = attach(lab_options());
    lab::say(socket, clean && own ? std::to_string((*own)->slot()) : "wrong");
    lab::hear(socket);
  });
  EXPECT_EQ(child.receive(), "2");
  child.send("end");
  child.wait();
  EXPECT_EQ((*lease)->host_page().rows[1].flags.load() & link::kSlotAlive, link::kSlotAlive);
  EXPECT_TRUE((*lease)->open_peer(1));
}

TEST_F(BrokerTest, AParentsDeathFreesItsSlotWhileItsChildLives) {
  auto keeper = attach(lab_options());
  ASSERT_TRUE(keeper);
  Child parent([](int socket) {
    auto lease = attach(lab_options());
    pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    lab::say(socket, std::to_string(child));
    lab::hear(socket);
  });
  pid_t grandchild = std::atoi(parent.receive().c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_EQ((*keeper)->host_page().rows[2].flags.load() & link::kSlotAlive, link::kSlotAlive);
  parent.kill(SIGKILL);
  parent.wait();
  EXPECT_TRUE(eventually([&] { return (*keeper)->host_page().rows[2].flags.load() == 0; }));
  ::kill(grandchild, SIGKILL);
}

TEST_F(BrokerTest, AnotherUidIsRefusedWithAdvice) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another uid";
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  Child stranger([](int socket) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) {
      return lab::say(socket, "no setuid");
    }
    auto refused = attach(lab_options());
    lab::say(socket, refused ? "attached" : refused.error().message);
  });
  std::string answer = stranger.receive();
  EXPECT_NE(answer.find("uid 0 (pid "), std::string::npos) << answer;
  EXPECT_NE(answer.find("uid 65534"), std::string::npos) << answer;
  EXPECT_NE(answer.find("unshare -rn"), std::string::npos) << answer;
}

TEST_F(BrokerTest, AForeignHolderOfThePortIsNamed) {
  int foreign = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  ASSERT_EQ(::bind(foreign, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  auto lease = attach(lab_options());
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, EADDRINUSE);
  EXPECT_NE(lease.error().message.find("(pid " + std::to_string(::getpid()) + ")"),
            std::string::npos)
      << lease.error().message;
  ::close(foreign);
}

// The broker inherits the hard limit of whoever starts it.
std::string attach_under(rlim_t files) {
  Child child([files](int socket) {
    rlimit limit{files, files};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    Result<std::unique_ptr<Lease>> lease = attach(lab_options());
    lab::say(socket, lease ? "attached" : lease.error().message);
    lab::hear(socket, 60000);
  });
  return child.receive();
}

TEST_F(BrokerTest, AStarterWithATinyFileLimitHarmsNobodyElse) {
  EXPECT_NE(attach_under(20).find("ulimit -Hn"), std::string::npos);
  ASSERT_TRUE(eventually([] { return lab::count_processes("verbena-broker") == 0; }));
  EXPECT_EQ(attach_under(1024), "attached");
}

TEST_F(BrokerTest, OutOfDescriptorsTheBrokerSaysSoAndServesAgainAfterwards) {
  Child first([](int socket) {
    rlimit limit{40, 40};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    slot_owner(socket);
  });
  ASSERT_EQ(first.receive(), "1");
  std::deque<Child> others;
  std::string answer;
  while (others.size() < 20) {
    answer = others.emplace_back(slot_owner).receive();
    if (answer.rfind("error", 0) == 0) break;
  }
  EXPECT_TRUE(answer.find("Too many open files") != std::string::npos ||
              answer.find("no file descriptor left") != std::string::npos)
      << answer;
  EXPECT_GT(others.size(), 2u);
  others.clear();
  EXPECT_TRUE(eventually([] {
    Child again(slot_owner);
    return again.receive().rfind("error", 0) != 0;
  }));
}

TEST_F(BrokerTest, AMissingBrokerBinaryIsNamed) {
  AttachOptions wrong = lab_options();
  wrong.broker_path = "/nonexistent/verbena-broker";
  auto lease = attach(wrong);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, ENOENT);
  EXPECT_NE(lease.error().message.find("/nonexistent/verbena-broker"), std::string::npos);
}

TEST_F(BrokerTest, MulticastReachesEveryMemberAndOutlivesNobody) {
  uint8_t group[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  auto a = attach(lab_options()), b = attach(lab_options()), c = attach(lab_options());
  ASSERT_TRUE(a && b && c);
  constexpr uint32_t kLoopback = 1;
  ASSERT_TRUE((*a)->join(group, kLoopback));
  ASSERT_TRUE((*b)->join(group, kLoopback));
  int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  ip_mreqn via{};
  via.imr_ifindex = kLoopback;
  ASSERT_EQ(::setsockopt(socket, IPPROTO_IP, IP_MULTICAST_IF, &via, sizeof(via)), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = inet_addr("239.1.2.3");
  uint8_t bth[16] = {0x64, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff};
  auto send = [&] {
    return ::sendto(socket, bth, sizeof(bth), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  };
  ASSERT_EQ(send(), 16);
  EXPECT_EQ(count_arrivals((*a)->udp4(), 0xff, 2, 300), 1);
  EXPECT_EQ(count_arrivals((*b)->udp4(), 0xff, 2, 300), 1);
  EXPECT_EQ(count_arrivals((*c)->udp4(), 0xff, 1, 100), 0);

  // A member that dies: the broker leaves the group before the slot's next owner comes.
  uint8_t slot = (*b)->slot();
  b->reset();
  auto next = attach(lab_options());
  ASSERT_TRUE(next);
  ASSERT_EQ((*next)->slot(), slot);
  ASSERT_EQ(send(), 16);
  EXPECT_EQ(count_arrivals((*a)->udp4(), 0xff, 2, 300), 1);
  EXPECT_EQ(count_arrivals((*next)->udp4(), 0xff, 1, 100), 0);
  ASSERT_TRUE((*a)->leave(group, kLoopback));
  EXPECT_EQ((*a)->leave(group, kLoopback).error().code, ENOENT);
  ::close(socket);
}

TEST_F(BrokerTest, CountersOfAnotherProcessAreReadable) {
  Child writer([](int socket) {
    auto lease = attach(lab_options());
    CountersPage& page = (*lease)->segment().counters;
    name_counter(page.device_names[0], "port_xmit_packets");
    page.device[0].store(7);
    page.device_count.store(1);
    begin_row_change(page.rows[0]);
    page.rows[0].qpn.store(0x010011);
    page.rows[0].state.store(3);
    end_row_change(page.rows[0]);
    page.rows[0].counters[2].store(99);
    lab::say(socket, std::to_string((*lease)->slot()));
    lab::hear(socket);
  });
  int slot = std::atoi(writer.receive().c_str());
  auto observer = Observer::open();
  ASSERT_TRUE(observer);
  auto peer = observer->open_peer(static_cast<uint8_t>(slot));
  ASSERT_TRUE(peer);
  const CountersPage& page = peer->segment->counters;
  EXPECT_EQ(counter_name(page.device_names[0]), "port_xmit_packets");
  EXPECT_EQ(page.device[0].load(), 7u);
  QpSample sample;
  ASSERT_TRUE(read_row(page.rows[0], sample));
  EXPECT_EQ(sample.qpn, 0x010011u);
  EXPECT_EQ(sample.counters[2], 99u);
  EXPECT_FALSE(read_row(page.rows[1], sample));
}

}  // namespace
}  // namespace verbena::broker
