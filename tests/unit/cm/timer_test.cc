// Retries to the picosecond, and what repeated MADs meet.
#include <cerrno>

#include "rig.h"

namespace verbena::cm::test {
namespace {

constexpr Duration kWait = nanoseconds(4096 * (int64_t{1} << 20));
using Attributes = std::vector<uint16_t>;

TEST(Timer, Codes) {
  EXPECT_EQ(response_time(20), kWait);
  EXPECT_EQ(response_time(0), nanoseconds(4096 << 8));
  EXPECT_EQ(response_time(31), nanoseconds(4096 * (int64_t{1} << 26)));
  EXPECT_EQ(timewait(19), nanoseconds(4096 * (int64_t{1} << 19)));
  EXPECT_EQ(timewait(31), nanoseconds(4096 * (int64_t{1} << 22)));
}

TEST(Timer, ReqIsSentSixteenTimes) {
  Rig rig;
  const Handle active = *rig.a->connect(rig.now, rig.request());
  EXPECT_EQ(rig.a->next_deadline(), rig.now + kWait);
  const Mad first = Rig::taken(*rig.a)[0].bytes;
  for (int i = 0; i < 15; ++i) {
    rig.pass(kWait - picoseconds(1));
    EXPECT_TRUE(rig.a->outgoing().empty());
    rig.pass(picoseconds(1));
    const auto again = Rig::taken(*rig.a);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].bytes, first);
  }
  rig.pass(kWait);
  EXPECT_EQ(Rig::next(*rig.a, EventType::kUnreachable).status, -ETIMEDOUT);
  const auto last = Rig::taken(*rig.a);
  ASSERT_EQ(Rig::attributes(last), Attributes{0x12});
  EXPECT_EQ(body_of<wire::CmRej>(last[0].bytes).reason, kRejTimeout);
  EXPECT_EQ(rig.a->state(active), State::kIdle);
  EXPECT_EQ(rig.a->next_deadline(), kNever);
  EXPECT_EQ(rig.a->counters().retried, 15u);
}

TEST(Timer, RepIsSentUntilTheRtu) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  EXPECT_EQ(rig.b->next_deadline(), rig.now + kWait);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(Rig::attributes(Rig::taken(*rig.b)), Attributes{0x13});
    rig.pass(kWait);
  }
  EXPECT_EQ(Rig::attributes(Rig::taken(*rig.b)), Attributes{0x13});
  rig.pass(kWait);
  EXPECT_EQ(Rig::next(*rig.b, EventType::kUnreachable).status, -ETIMEDOUT);
  EXPECT_EQ(Rig::attributes(Rig::taken(*rig.b)), Attributes{0x12});
}

TEST(Timer, LostRtuComesAgain) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  rig.exchange();
  EXPECT_TRUE(rig.a->establish(rig.now, rig.active));
  Rig::taken(*rig.a);
  rig.pass(kWait);
  rig.exchange();
  EXPECT_EQ(rig.b->state(rig.passive), State::kEstablished);
  Rig::next(*rig.b, EventType::kEstablished);
  EXPECT_EQ(rig.b->next_deadline(), kNever);
}

TEST(Timer, RepeatedReqMeetsMraThenRep) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  const OutgoingMad req = Rig::taken(*rig.a)[0];
  rig.deliver(*rig.b, req);
  EXPECT_TRUE(rig.b->outgoing().empty());
  rig.deliver(*rig.b, req);
  const auto mra = Rig::taken(*rig.b);
  ASSERT_EQ(Rig::attributes(mra), Attributes{0x11});
  rig.passive = Rig::next(*rig.b, EventType::kRequest).connection;
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_EQ(rig.b->state(rig.passive), State::kMraSent);
  rig.deliver(*rig.a, mra[0]);
  EXPECT_EQ(rig.a->state(rig.active), State::kRepWait);
  EXPECT_EQ(rig.a->next_deadline(), rig.now + kWait + response_time(24));
  rig.deliver(*rig.a, mra[0]);  // a second one gives no more time
  EXPECT_EQ(rig.a->next_deadline(), rig.now + kWait + response_time(24));
  EXPECT_TRUE(rig.b->accept(rig.now, rig.passive, rig.answer(), {}));
  const Mad rep = Rig::taken(*rig.b)[0].bytes;
  rig.deliver(*rig.b, req);
  EXPECT_EQ(Rig::taken(*rig.b)[0].bytes, rep);
  EXPECT_EQ(rig.b->counters().duplicates, 2u);
}

TEST(Timer, RepeatedRepMeetsMraThenRtu) {
  Rig rig;
  rig.listen();
  rig.to_rep_sent();
  const OutgoingMad rep = Rig::taken(*rig.b)[0];
  rig.deliver(*rig.a, rep);
  rig.deliver(*rig.a, rep);
  const auto mra = Rig::taken(*rig.a);
  ASSERT_EQ(Rig::attributes(mra), Attributes{0x11});
  rig.deliver(*rig.b, mra[0]);
  EXPECT_EQ(rig.b->next_deadline(), rig.now + kWait + response_time(24));
  EXPECT_TRUE(rig.a->establish(rig.now, rig.active));
  rig.deliver(*rig.a, rep);
  EXPECT_EQ(Rig::attributes(Rig::taken(*rig.a)), (Attributes{0x14, 0x14}));
}

TEST(Timer, DreqIsRepeatedAndGivenUp) {
  Rig rig;
  rig.to_established();
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(Rig::attributes(Rig::taken(*rig.a)), Attributes{0x15});
    rig.pass(kWait);
  }
  EXPECT_EQ(Rig::next(*rig.a, EventType::kDisconnected).status, -ETIMEDOUT);
  EXPECT_EQ(rig.a->state(rig.active), State::kTimewait);
}

TEST(Timer, DreqInTimewaitMeetsDrep) {
  Rig rig;
  rig.to_established();
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  const OutgoingMad dreq = Rig::taken(*rig.a)[0];
  rig.deliver(*rig.b, dreq);
  EXPECT_TRUE(rig.b->disconnect(rig.now, rig.passive));
  const Mad drep = Rig::taken(*rig.b)[0].bytes;
  rig.deliver(*rig.b, dreq);
  EXPECT_EQ(Rig::taken(*rig.b)[0].bytes, drep);
  rig.pass(timewait(19));
  rig.b->destroy(rig.now, rig.passive);
  rig.deliver(*rig.b, dreq);  // nobody knows it any more: the same answer
  EXPECT_EQ(Rig::taken(*rig.b)[0].bytes, drep);
}

TEST(Timer, HeldUntilListen) {
  Rig rig;
  const Handle listener = *rig.b->bind(PortSpace::kTcp, 7174, {}, false);
  rig.a->connect(rig.now, rig.request());
  rig.exchange();
  EXPECT_TRUE(rig.b->events().empty());
  EXPECT_EQ(rig.b->next_deadline(), rig.now + milliseconds(500));
  EXPECT_TRUE(rig.b->listen(listener, 1));
  Rig::next(*rig.b, EventType::kRequest);
  EXPECT_EQ(rig.b->next_deadline(), kNever);
}

TEST(Timer, HeldInVain) {
  Rig rig;
  EXPECT_TRUE(rig.b->bind(PortSpace::kTcp, 7174, {}, false));
  rig.a->connect(rig.now, rig.request());
  rig.exchange();
  rig.pass(milliseconds(500));
  rig.exchange();
  EXPECT_EQ(Rig::next(*rig.a, EventType::kRejected).status, kRejInvalidService);
}

}  // namespace
}  // namespace verbena::cm::test
