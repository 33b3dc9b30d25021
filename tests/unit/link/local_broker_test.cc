// The local link and a broker that does not answer: the caller holds the lock of a whole process.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "broker/message.h"
#include "lab.h"
#include "local_endpoint.h"

namespace verbena::link {
namespace {

using engine::RxPacket;
using lab::eventually;

class LocalLinkTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_PRIVATE_NETWORK(); }
};

TEST_F(LocalLinkTest, PreparedPeersNeedNoBrokerForTheirFirstPacket) {
  Endpoint a, b;
  EXPECT_TRUE(a.link->prepare(b.slot()));
  EXPECT_FALSE(a.link->prepare(200));
  EXPECT_FALSE(a.link->prepare(kBrokerSlot));
  pid_t broker = a.lease->host_page().broker_pid.load();
  pid_t standby = a.lease->host_page().standby_pid.load();
  ASSERT_EQ(::kill(broker, SIGSTOP), 0);
  ASSERT_EQ(::kill(standby, SIGSTOP), 0);
  Message message(b.slot(), 4, 100, false);
  EXPECT_TRUE(a.link->send(message.get()));
  a.link->flush();
  EXPECT_EQ(b.link->receive([](const RxPacket& p) { EXPECT_EQ(judge(p, 100), "ok"); }), 1u);
  ASSERT_EQ(::kill(broker, SIGCONT), 0);
  ASSERT_EQ(::kill(standby, SIGCONT), 0);
}

// A stopped broker costs the caller, who holds the lock of his process, some milliseconds once, not
// its time-out for each packet and neighbour.
TEST_F(LocalLinkTest, AStoppedBrokerDoesNotStopTheCaller) {
  Endpoint a, b, c;
  pid_t broker = a.lease->host_page().broker_pid.load();
  ASSERT_EQ(::kill(broker, SIGSTOP), 0);
  int64_t start = broker::now_ms();
  EXPECT_FALSE(a.link->prepare(b.slot()));
  EXPECT_FALSE(a.link->prepare(c.slot()));
  Message lost(b.slot(), 4, 100, false), also_lost(c.slot(), 4, 100, false);
  EXPECT_FALSE(a.link->send(lost.get())) << "the broker may answer yet: the engine keeps it";
  EXPECT_TRUE(
      eventually([&] { return a.link->send(lost.get()) && a.link->send(also_lost.get()); }));
  for (int i = 1; i < 100; ++i) {
    EXPECT_TRUE(a.link->send(lost.get()));
    EXPECT_TRUE(a.link->send(also_lost.get()));
  }
  EXPECT_LT(broker::now_ms() - start, 500);
  EXPECT_EQ(a.link->counters().tx_no_peer, 200u);
  ASSERT_EQ(::kill(broker, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return a.link->prepare(b.slot()) && a.link->prepare(c.slot()); }));
  for (Endpoint* to : {&b, &c}) {
    Message message(to->slot(), 4, 100, false);
    EXPECT_TRUE(a.link->send(message.get()));
    a.link->flush();
    EXPECT_EQ(to->link->receive([](const RxPacket& p) { EXPECT_EQ(judge(p, 100), "ok"); }), 1u);
  }
}

// The broker is dead and its standby stopped: the same, and the claim to our slot comes through.
TEST_F(LocalLinkTest, AStoppedTakeoverDoesNotStopTheCaller) {
  Endpoint a, b;
  const HostPage& page = a.lease->host_page();
  ASSERT_TRUE(eventually([&] { return page.standby_pid.load() != 0; }));
  pid_t standby = page.standby_pid.load();
  ASSERT_EQ(::kill(standby, SIGSTOP), 0);
  ASSERT_EQ(::kill(page.broker_pid.load(), SIGKILL), 0);
  int64_t start = broker::now_ms();
  Message lost(b.slot(), 4, 100, false);
  EXPECT_TRUE(eventually([&] { return a.link->send(lost.get()); }));
  for (int i = 1; i < 100; ++i) EXPECT_TRUE(a.link->send(lost.get()));
  EXPECT_LT(broker::now_ms() - start, 500);
  ASSERT_EQ(::kill(standby, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return a.link->prepare(b.slot()); }));
  EXPECT_EQ(page.broker_pid.load(), standby);
  ::usleep(100'000);
  EXPECT_EQ(page.rows[a.slot()].flags.load() & kSlotAlive, kSlotAlive);
}

}  // namespace
}  // namespace verbena::link
