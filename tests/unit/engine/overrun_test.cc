// A completion queue that overruns: IBV_EVENT_CQ_ERR on it, IBV_EVENT_QP_FATAL on the queue pairs
// that report to it, which go to the error state (class G); nothing that waits is overwritten.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> async(Rig& rig) {
  std::vector<std::string> all;
  for (const Event& event : rig.take_events()) {
    if (event.kind == Event::kCq) all.push_back(event.cq == rig.send_cq.get() ? "send" : "receive");
    if (event.kind == Event::kQp && event.type == AsyncType::kQpFatal)
      all.push_back("QP " + std::to_string(event.qp->qpn()));
  }
  return all;
}

TEST(Overrun, OnTheReceiveSideTheNewestIsLostAndEveryQueuePairFails) {
  Rig rig({.cqe = 2});
  QueuePair* other = rig.make(rig.options);
  QueuePair* apart = nullptr;
  CompletionQueue own(4);
  {
    QpInit init{.type = QpType::kRc, .domain = &rig.domain, .send_cq = &own, .receive_cq = &own};
    apart = *rig.device.create_qp(init);
    ASSERT_TRUE(rig.modify(apart, QpState::kInit));
  }
  for (uint64_t i = 1; i <= 4; ++i) rig.post_recv(i, {rig.sge(100 * i, 16)});
  for (uint32_t psn = 200; psn < 203; ++psn)
    rig.receive(rig.packet(Opcode::kRcSendOnly, psn), bytes(16));
  EXPECT_THAT(async(rig), ElementsAre("receive", "QP " + std::to_string(rig.qp->qpn()),
                                      "QP " + std::to_string(other->qpn())));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_EQ(other->state(), QpState::kErr);
  EXPECT_EQ(apart->state(), QpState::kInit) << "another completion queue";
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
  EXPECT_THAT(async(rig), IsEmpty()) << "told once";
  rig.device.destroy_qp(apart);
}

TEST(Overrun, QueuePairThatComesLaterFailsAtItsFirstLostCompletion) {
  Rig rig({.cqe = 1, .state = QpState::kReset});
  QueuePair* late = rig.qp;
  RigOptions ready = rig.options;
  ready.state = QpState::kRts;
  rig.qp = rig.make(ready);
  rig.send(4);
  rig.send(4);
  rig.transmit();
  rig.ack(101);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_EQ(late->state(), QpState::kReset);
  rig.take_events();
  rig.qp = late;
  for (QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts})
    ASSERT_TRUE(rig.modify(late, to));
  rig.send(4);
  rig.transmit();
  rig.ack(100);
  EXPECT_EQ(late->state(), QpState::kErr);
  EXPECT_THAT(async(rig), ElementsAre("QP " + std::to_string(late->qpn())));
}

TEST(Overrun, OfAnXrcSharedReceiveQueueFailsTheTargetThatLostACompletion) {
  Rig rig({.type = QpType::kXrcRecv, .cqe = 2});
  QueuePair* other = rig.make(rig.options);
  for (uint64_t i = 1; i <= 6; ++i) rig.srq->queue.push(i, std::vector<Sge>{rig.sge(100 * i, 16)});
  for (uint32_t psn = 200; psn < 203; ++psn)
    rig.receive(rig.packet(Opcode::kXrcSendOnly, psn, true), bytes(16));
  EXPECT_THAT(async(rig), ElementsAre("receive", "QP " + std::to_string(rig.qp->qpn())));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_THAT(rig.transmit(), IsEmpty()) << "what was not told is not acknowledged";
  EXPECT_EQ(other->state(), QpState::kRts);
  rig.qp = other;
  rig.receive(rig.packet(Opcode::kXrcSendOnly, 200, true), bytes(16));
  EXPECT_EQ(other->state(), QpState::kErr);
  EXPECT_THAT(async(rig), ElementsAre("QP " + std::to_string(other->qpn())));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
  EXPECT_EQ(rig.srq->queue.size(), 2u) << "what was not taken stays";
}

TEST(Overrun, BySomebodysFlushFailsTheNeighbours) {
  Rig rig({.cqe = 2});
  QueuePair* other = rig.make(rig.options);
  for (int i = 0; i < 3; ++i) rig.send(4);
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  rig.transmit();
  EXPECT_EQ(other->state(), QpState::kErr);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:WR_FLUSH_ERR", "2:WR_FLUSH_ERR"));
}

TEST(Overrun, DestroyedQueuePairIsForgotten) {
  Rig rig({.type = QpType::kXrcRecv, .cqe = 1});
  for (uint64_t i = 1; i <= 3; ++i)
    rig.srq->queue.push(i, std::vector<Sge>{rig.sge(100 * i, 1000)});
  rig.receive(rig.packet(Opcode::kXrcSendOnly, 200), bytes(16));
  rig.receive(rig.packet(Opcode::kXrcSendFirst, 201), bytes(256));
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));  // the flush of the taken receive is lost
  rig.device.destroy_qp(rig.qp);
  rig.transmit();
  EXPECT_THAT(async(rig), ElementsAre("receive"));
}

}  // namespace
}  // namespace verbena::engine::test
