// Turns: queue pairs of one lane share it packet by packet, lanes are the caller's to order, and
// acknowledgements may have a way of their own.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Lanes : public testing::Test {
 protected:
  // A queue pair of `lane` with `packets` packets of 256 bytes to send.
  static QueuePair* busy(Rig& rig, uint8_t lane, uint32_t packets) {
    RigOptions options = rig.options;
    options.lane = lane;
    QueuePair* qp = rig.make(options);
    post(rig, qp, packets);
    return qp;
  }
  static void post(Rig& rig, QueuePair* qp, uint32_t packets) {
    EXPECT_EQ(qp->post_send(rig.now, rig.remote(WrOpcode::kRdmaWrite, {rig.sge(0, packets * 256)},
                                                0x10000, 0x77)),
              0);
  }
  // What one call with a budget of one sends: the sender's number, or 0.
  static uint32_t one(Rig& rig, uint8_t mask = kAllLanes) {
    struct Sender : PacketSink {
      bool send(const TxPacket& packet) override {
        qpn = packet.source_qpn;
        ++packets;
        return true;
      }
      uint32_t qpn = 0, packets = 0;
    } sink;
    rig.device.transmit(rig.now, sink, 1, mask);
    EXPECT_LE(sink.packets, 1u);
    return sink.qpn;
  }
};

TEST_F(Lanes, TakeTurnsPacketByPacket) {
  Rig rig;
  uint32_t a = busy(rig, 0, 3)->qpn();
  uint32_t b = busy(rig, 0, 2)->qpn();
  std::vector<uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(one(rig));
  EXPECT_THAT(order, ElementsAre(a, b, a, b, a, 0));
  EXPECT_EQ(rig.device.lanes_ready(), 0);
}

TEST_F(Lanes, OnlyThoseOfTheMaskSend) {
  Rig rig;
  one(rig);  // the rig's own queue pair has nothing to send
  uint32_t low = busy(rig, 1, 2)->qpn();
  uint32_t high = busy(rig, 6, 1)->qpn();
  EXPECT_EQ(rig.device.lanes_ready(), 0x42);
  EXPECT_EQ(one(rig, 0x40), high);
  EXPECT_EQ(one(rig, 0x40), 0u);
  EXPECT_EQ(rig.device.lanes_ready(), 0x02);
  EXPECT_EQ(one(rig, 0xfd), 0u);
  EXPECT_EQ(one(rig), low);
  EXPECT_EQ(one(rig), low);
  EXPECT_EQ(one(rig), 0u);
  EXPECT_FALSE(rig.device.wants_to_transmit());
}

TEST_F(Lanes, ThereAreEight) {
  Rig rig;
  QpInit init{.domain = &rig.domain};
  init.lane = 8;
  auto made = rig.device.create_qp(init);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, EINVAL);
  EXPECT_EQ(made.error().message, "create_qp: lane 8 of 8");
}

TEST_F(Lanes, OneThatIsDestroyedLeavesItsPlace) {
  Rig rig;
  QueuePair* first = busy(rig, 2, 1);
  QueuePair* middle = busy(rig, 2, 1);
  QueuePair* last = busy(rig, 2, 1);
  rig.device.destroy_qp(middle);
  EXPECT_EQ(one(rig, 4), first->qpn());
  rig.device.destroy_qp(first);
  EXPECT_EQ(one(rig, 4), last->qpn());
  rig.device.destroy_qp(last);
  EXPECT_EQ(rig.device.lanes_ready() & 4, 0);
}

TEST_F(Lanes, ARefusedPacketComesAgain) {
  Rig rig;
  busy(rig, 3, 2);
  rig.sink.room = 0;
  EXPECT_EQ(rig.device.transmit(rig.now, rig.sink, 1, 8), TransmitResult::kBlocked);
  rig.sink.room = 5;
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_WRITE_FIRST 100", "RC_WRITE_LAST 101"));
}

class Answers : public Lanes {
 protected:
  static RigOptions apart() {
    RigOptions options;
    options.device.acknowledgements_apart = true;
    return options;
  }
  static std::vector<Sent> answers(Rig& rig) {
    rig.sink.sent.clear();
    EXPECT_EQ(rig.device.transmit_answers(rig.now, rig.sink), TransmitResult::kIdle);
    return std::move(rig.sink.sent);
  }
};

TEST_F(Answers, LeaveByTheirOwnCall) {
  Rig rig(apart());
  rig.transmit();
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  EXPECT_EQ(rig.device.lanes_ready(), 0);
  EXPECT_TRUE(rig.device.answers_ready());
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(answers(rig)), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_FALSE(rig.device.answers_ready());
  EXPECT_THAT(answers(rig), IsEmpty());
}

TEST_F(Answers, KeepTheOrderOfResponses) {
  Rig rig(apart());
  rig.transmit();
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  rig.receive(rig.read_request(201, 0, 8));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 202, 0, 8), bytes(8));
  EXPECT_THAT(rig.transmit(), IsEmpty()) << "the first acknowledgement comes first";
  EXPECT_THAT(summary(answers(rig)), ElementsAre("RC_ACKNOWLEDGE 200"));
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_READ_RESPONSE_ONLY 201"));
  EXPECT_THAT(summary(answers(rig)), ElementsAre("RC_ACKNOWLEDGE 202"));
}

TEST_F(Answers, AreOfferedAgainWhenRefused) {
  Rig rig(apart());
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  rig.sink.room = 0;
  EXPECT_EQ(rig.device.transmit_answers(rig.now, rig.sink), TransmitResult::kBlocked);
  rig.sink.room = 5;
  EXPECT_THAT(answers(rig), SizeIs(1));
}

TEST_F(Answers, DataDoesNotWaitForThem) {
  Rig rig(apart());
  post(rig, rig.qp, 1);
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8));
  EXPECT_EQ(one(rig), rig.qp->qpn());
  EXPECT_THAT(summary(answers(rig)), ElementsAre("RC_ACKNOWLEDGE 200"));
}

}  // namespace
}  // namespace verbena::engine::test
