// What a broker and its clients do when the other side is slow, stopped, rude or short of
// descriptors: nobody gets another's answer or loses a slot for it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <deque>

#include "broker/client.h"
#include "broker/connect.h"
#include "broker/server.h"
#include "broker_fixture.h"
#include "lab.h"

namespace verbena::broker {
namespace {

using lab::Child;
using lab::eventually;

using BrokerFaults = BrokerFixture;

struct Brokers {
  explicit Brokers(const Lease& lease) : page(lease.host_page()) {
    eventually([this] { return standby() != 0 && standby() != broker(); });
  }
  pid_t broker() const { return page.broker_pid.load(); }
  pid_t standby() const { return page.standby_pid.load(); }
  const link::HostPage& page;
};

// Slot 2 belongs to somebody who closed his connection, and a new client asks for a slot, and the
// old owner dies, before the broker looks: the news of the death is not about the new owner.
TEST_F(BrokerFaults, DeathOfAFormerOwnerDoesNotFreeTheSlotOfTheNext) {
  auto keeper = attach(lab_options());
  ASSERT_TRUE(keeper);
  Brokers brokers(**keeper);
  Child former([](int socket) {
    auto lease = attach(lab_options());
    lab::say(socket, std::to_string((*lease)->slot()));
    lab::hear(socket);
    (*lease)->close_in_child();  // the connection ends, the process lives
    lab::say(socket, "closed");
    lab::hear(socket);
    ::_exit(0);
  });
  ASSERT_EQ(former.receive(), "2");
  auto connection = connect_now(kDefaultName);
  ASSERT_TRUE(connection);
  Request observe;
  observe.type = RequestType::kObserve;
  ASSERT_TRUE(ask(connection->get(), observe, {}, 2000));  // the broker has accepted us

  ::usleep(200'000);  // and sleeps again: what it has just seen would stay ahead of the next events
  ASSERT_EQ(::kill(brokers.broker(), SIGSTOP), 0);
  former.send("close");
  ASSERT_EQ(former.receive(), "closed");
  link::Fd segment(::memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(segment.get(), kSegmentBytes), 0);
  ASSERT_EQ(::fcntl(segment.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  link::Fd wakeup(::eventfd(0, EFD_CLOEXEC));
  int fds[2] = {segment.get(), wakeup.get()};
  Request take;
  take.type = RequestType::kAttach;
  take.token = 4711;
  take.pid = ::getpid();
  ASSERT_TRUE(put_request(connection->get(), take, fds));
  former.send("die");
  former.wait();
  ASSERT_EQ(::kill(brokers.broker(), SIGCONT), 0);
  auto taken = hear_answer(connection->get(), take, 2000);
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->reply.slot, 2u);
  EXPECT_EQ(taken->reply.generation, 2u);
  ::usleep(100'000);
  EXPECT_EQ(brokers.page.rows[2].flags.load() & link::kSlotAlive, link::kSlotAlive);
}

TEST_F(BrokerFaults, TagsTellTheGenerationsOfASlotApart) {
  EXPECT_NE(process_tag(2, 1), process_tag(2, 2));
  EXPECT_NE(process_tag(2, 1), process_tag(3, 1));
  EXPECT_NE(process_tag(2, 1), tag(Tag::kConnection, 1));
}

// An answer that was given up must not be taken for that of the next request.
TEST_F(BrokerFaults, LateAnswersGoToNobodyElse) {
  auto b = attach(lab_options());  // starting a broker takes its time; only `a` is impatient
  ASSERT_TRUE(b) << b.error().message;
  auto a = attach(lab_options(400));
  ASSERT_TRUE(a) << a.error().message;
  Brokers brokers(**a);
  ASSERT_EQ(::kill(brokers.broker(), SIGSTOP), 0);
  for (int i = 0; i < 3; ++i) {
    auto late = (*a)->open_peer(1);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ETIMEDOUT);
  }
  ASSERT_EQ(::kill(brokers.broker(), SIGCONT), 0);
  auto second = (*a)->open_peer(2);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->segment->header.slot, 2u);
  auto first = (*a)->open_peer(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->segment->header.slot, 1u);
  ::usleep(50'000);
  EXPECT_EQ(brokers.page.rows[1].flags.load() & link::kSlotAlive, link::kSlotAlive)
      << "being late is not the end of the lease";
}

TEST_F(BrokerFaults, AskingAStoppedBrokerForASlotIsATimeout) {
  auto keeper = attach(lab_options());
  ASSERT_TRUE(keeper);
  Brokers brokers(**keeper);
  pid_t broker = brokers.broker(), standby = brokers.standby();
  ASSERT_EQ(::kill(broker, SIGSTOP), 0);
  ASSERT_EQ(::kill(standby, SIGSTOP), 0);
  auto refused = attach(lab_options(300));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ETIMEDOUT);
  EXPECT_NE(refused.error().message.find("verbena-broker stopped"), std::string::npos)
      << refused.error().message;
  ::kill(broker, SIGCONT);
  ::kill(standby, SIGCONT);
  auto again = attach(lab_options());
  ASSERT_TRUE(again) << again.error().message;
}

// A standby that missed an update would hand the next broker a wrong picture.
TEST_F(BrokerFaults, AStandbyOutOfDescriptorsIsReplaced) {
  auto keeper = attach(lab_options());
  ASSERT_TRUE(keeper);
  Brokers brokers(**keeper);
  pid_t poor = brokers.standby();
  rlimit none{4, 4};
  ASSERT_EQ(::prlimit(poor, RLIMIT_NOFILE, &none, nullptr), 0);
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease) << lease.error().message;
  ASSERT_TRUE(eventually([&] { return brokers.standby() != poor; }));
  pid_t next = brokers.standby();
  ASSERT_EQ(::kill(brokers.broker(), SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return brokers.broker() == next; }));
  auto peer = (*keeper)->open_peer((*lease)->slot());
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->segment->header.slot, (*lease)->slot());
}

// Connections that say nothing: of a foreign user they do not count, of our own they are bounded.
void connect_and_keep_silent(int socket, int count) {
  rlimit files{4096, 4096};
  ::setrlimit(RLIMIT_NOFILE, &files);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path + 1, kDefaultName);
  socklen_t length = offsetof(sockaddr_un, sun_path) + sizeof(kDefaultName);
  std::deque<link::Fd> all;
  for (int i = 0; i < count; ++i) {
    link::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) break;
    all.push_back(std::move(fd));
  }
  lab::say(socket, std::to_string(all.size()));
  lab::hear(socket, 60000);
}

TEST_F(BrokerFaults, ForeignConnectionsLockNobodyOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another uid";
  auto keeper = attach(lab_options());
  ASSERT_TRUE(keeper);
  Child stranger([](int socket) {
    rlimit files{4096, 4096};
    ::setrlimit(RLIMIT_NOFILE, &files);
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) {
      return lab::say(socket, "no setuid");
    }
    connect_and_keep_silent(socket, 1100);
  });
  ASSERT_EQ(stranger.receive(), "1100");
  auto lease = attach(lab_options());
  EXPECT_TRUE(lease) << lease.error().message;
}

// `count` idle connections of a process that has the slot "attached".
void attach_and_crowd(int socket, int count) {
  rlimit files{4096, 4096};
  ::setrlimit(RLIMIT_NOFILE, &files);  // the broker inherits it
  auto keeper = attach(lab_options());
  lab::say(socket, keeper ? "attached" : keeper.error().message);
  connect_and_keep_silent(socket, count);
}

TEST_F(BrokerFaults, AProcessLocksOnlyItselfOut) {
  Child program([](int socket) { attach_and_crowd(socket, 1100); });
  ASSERT_EQ(program.receive(), "attached");
  ASSERT_EQ(program.receive(), "1100");
  auto lease = attach(lab_options());
  EXPECT_TRUE(lease) << lease.error().message;
  program.send("end");
  program.wait();
}

TEST_F(BrokerFaults, TheClientAboveTheBoundIsTold) {
  Child first([](int socket) { attach_and_crowd(socket, 60); });
  ASSERT_EQ(first.receive(), "attached");
  ASSERT_EQ(first.receive(), "60");
  std::deque<Child> crowd;
  for (int i = 0; i < 17; ++i) {
    Child& more = crowd.emplace_back([](int socket) { connect_and_keep_silent(socket, 60); });
    ASSERT_EQ(more.receive(), "60");
  }
  auto refused = attach(lab_options());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EAGAIN);
  EXPECT_NE(refused.error().message.find("1024 connections"), std::string::npos)
      << refused.error().message;
  crowd.clear();
  first.send("end");
  first.wait();
}

}  // namespace
}  // namespace verbena::broker
