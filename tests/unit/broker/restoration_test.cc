// Broker and standby killed together: their processes start another broker and hand over what they
// have, so that nobody loses a slot and every packet finds its process again.
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/client.h"
#include "broker_fixture.h"
#include "crowd.h"

namespace verbena::broker {
namespace {

using lab::Child;
using lab::eventually;

class Restored : public BrokerFixture {
 protected:
  // At one instant, as far as they can tell.
  void kill_both() {
    auto observer = Observer::open();
    ASSERT_TRUE(observer);
    const link::HostPage& page = observer->host_page();
    ASSERT_TRUE(eventually([&] {
      return page.standby_pid.load() != 0 && page.standby_pid.load() != page.broker_pid.load();
    }));
    dead_ = page.broker_pid.load();
    const pid_t standby = page.standby_pid.load();
    for (const int signal : {SIGSTOP, SIGKILL})
      for (const pid_t pid : {dead_, standby}) ASSERT_EQ(::kill(pid, signal), 0);
  }
  // Another broker serves.
  bool restored() {
    return eventually([this] {
      auto observer = Observer::open();
      return observer && observer->host_page().broker_pid.load() != dead_;
    });
  }
  // As the background thread of a program does.
  static bool keep_until_moved(Lease& lease) {
    return eventually([&lease] { return lease.keep().moved; });
  }

  pid_t dead_ = 0;
};

TEST_F(Restored, RoutesExactlyAndGoesOnWithOldAndNew) {
  Crowd crowd(4);
  ASSERT_EQ(crowd.slots, (std::vector<int>{1, 2, 3, 4}));
  crowd.children[1].kill(SIGKILL);
  crowd.children[1].wait();
  kill_both();
  ASSERT_TRUE(restored());
  EXPECT_TRUE(crowd.routes_exactly({1}));
  crowd.children[0].send("open 4");
  EXPECT_EQ(crowd.children[0].receive(), "open");

  auto late = attach(lab_options());
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_EQ((*late)->slot(), 2);
  EXPECT_GT((*late)->generation(), 1u) << "the dead owner's was 1";
  const link::HostPage& page = (*late)->host_page();
  EXPECT_EQ(page.takeovers.load(), 1u);
  for (const int slot : {1, 3, 4}) {
    EXPECT_EQ(page.rows[slot].generation.load(), 1u);
    EXPECT_EQ(page.rows[slot].flags.load(), link::kSlotAlive | link::kSlotLocalOk);
    EXPECT_EQ(page.rows[slot].pid.load(), crowd.children[static_cast<size_t>(slot) - 1].pid());
  }
  crowd.children[3].kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return page.rows[4].flags.load() == 0; })) << "deaths are noticed";

  kill_both();
  ASSERT_TRUE(keep_until_moved(**late));
  ASSERT_TRUE(restored());
  EXPECT_EQ(page.takeovers.load(), 1u) << "the new page, at the old place";
  EXPECT_EQ(page.rows[4].flags.load(), 0u);
  EXPECT_TRUE(crowd.routes_exactly({1, 3})) << "a second time";
}

TEST_F(Restored, TheNewBrokerHasAStandbyOfItsOwn) {
  Crowd crowd(2);
  kill_both();
  ASSERT_TRUE(restored());
  auto observer = Observer::open();
  ASSERT_TRUE(observer);
  const link::HostPage& page = observer->host_page();
  const pid_t broker = page.broker_pid.load();
  ASSERT_TRUE(eventually(
      [&] { return page.standby_pid.load() != 0 && page.standby_pid.load() != broker; }));
  ASSERT_EQ(::kill(broker, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return page.broker_pid.load() != broker; }));
  EXPECT_TRUE(crowd.routes_exactly());
  auto late = attach(lab_options());
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_EQ((*late)->slot(), 3);
}

TEST_F(Restored, WhoComesInTheMiddleOfItWaits) {
  Crowd crowd(3);
  crowd.children[2].kill(SIGSTOP);
  kill_both();
  Child newcomer([](int socket) {
    auto lease = attach(lab_options(5000));
    while (!lease && lease.error().code == EADDRINUSE) lease = attach(lab_options(5000));
    lab::say(socket, lease ? std::to_string((*lease)->slot()) : lease.error().message);
    lab::hear(socket, 60000);
  });
  EXPECT_EQ(newcomer.receive(200), "") << "one of three has not handed over";
  crowd.children[2].kill(SIGCONT);
  EXPECT_EQ(newcomer.receive(), "4");
  EXPECT_TRUE(crowd.routes_exactly());
}

TEST_F(Restored, AProcessThatHandsNothingOverIsNamed) {
  Crowd crowd(3);
  crowd.children[1].kill(SIGSTOP);
  kill_both();
  auto refused = attach(lab_options(8000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRINUSE);
  const std::string& why = refused.error().message;
  const auto names = [&](size_t child) {
    return why.find("(pid " + std::to_string(crowd.children[child].pid()) + ")") !=
           std::string::npos;
  };
  EXPECT_TRUE(names(1)) << why;
  EXPECT_FALSE(names(0) || names(2)) << why;

  crowd.children[1].kill(SIGCONT);
  Result<std::unique_ptr<Lease>> late = fail(EAGAIN, "not tried");
  EXPECT_TRUE(eventually([&] { return (late = attach(lab_options(8000))).has_value(); }, 20000))
      << late.error().message;
  EXPECT_TRUE(crowd.routes_exactly());
}

TEST_F(Restored, GroupsAreJoinedAgain) {
  const uint8_t group[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  auto member = attach(lab_options()), other = attach(lab_options());
  ASSERT_TRUE(member && other);
  constexpr uint32_t kLoopback = 1;
  ASSERT_TRUE((*member)->join(group, kLoopback));
  kill_both();
  bool moved[2] = {};
  ASSERT_TRUE(eventually([&] {
    moved[0] |= (*member)->keep().moved;
    moved[1] |= (*other)->keep().moved;
    return moved[0] && moved[1];
  }));
  const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  ip_mreqn via{};
  via.imr_ifindex = kLoopback;
  ASSERT_EQ(::setsockopt(socket, IPPROTO_IP, IP_MULTICAST_IF, &via, sizeof(via)), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = inet_addr("239.1.2.3");
  const uint8_t bth[16] = {0x64, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff};
  ASSERT_EQ(::sendto(socket, bth, sizeof(bth), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
            16);
  EXPECT_EQ(count_arrivals((*member)->udp4(), 0xff, 2, 300), 1);
  EXPECT_EQ(count_arrivals((*other)->udp4(), 0xff, 1, 100), 0);
  EXPECT_TRUE((*member)->leave(group, kLoopback));
  ::close(socket);
}

TEST_F(Restored, ASlotGivenBackMeanwhileIsFree) {
  auto lease = attach(lab_options()), other = attach(lab_options());
  ASSERT_TRUE(lease && other);
  kill_both();
  other->reset();
  ASSERT_TRUE(keep_until_moved(**lease));
  auto late = attach(lab_options());
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_EQ((*late)->slot(), 2);
}

}  // namespace
}  // namespace verbena::broker
