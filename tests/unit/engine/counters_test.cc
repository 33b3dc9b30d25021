// Each verbs device of a process has its own counters: what a queue pair sends, receives and
// completes moves those of its port and no others.
#include "rig.h"

namespace verbena::engine::test {
namespace {

TEST(Ports, CountApart) {
  RigOptions options{.type = QpType::kUd};
  Rig rig(options);
  options.port = 3;
  QueuePair* other = rig.make(options);
  rig.send(100);
  ASSERT_EQ(other->post_send(rig.now, rig.request(WrOpcode::kSend, {rig.sge(0, 30)})), 0);
  ASSERT_EQ(other->post_send(rig.now, rig.request(WrOpcode::kSend, {rig.sge(0, 40)})), 0);
  rig.transmit();
  const Counters& first = rig.device.port_counters(0);
  const Counters& third = rig.device.port_counters(3);
  EXPECT_EQ(first.port_xmit_packets, 1u);
  EXPECT_EQ(first.port_xmit_data, 100u);
  EXPECT_EQ(first.rdma_sends, 1u);
  EXPECT_EQ(third.port_xmit_packets, 2u);
  EXPECT_EQ(third.port_xmit_data, 70u);
  EXPECT_EQ(third.rdma_sends, 2u);
  EXPECT_EQ(rig.device.total_counters().port_xmit_data, 170u);
  EXPECT_EQ(rig.device.port_counters(1).port_xmit_packets, 0u);
}

TEST(Ports, CountWhatIsPostedInTheErrorState) {
  RigOptions options;
  Rig rig(options);
  options.port = 3;
  QueuePair* other = rig.make(options);
  ASSERT_TRUE(rig.modify(other, QpState::kErr));
  rig.send(10);  // the first port's work in between
  rig.transmit();
  ASSERT_EQ(other->post_send(rig.now, rig.request(WrOpcode::kSend, {rig.sge(0, 30)})), 0);
  ASSERT_EQ(other->post_receive(7, {}), 0);
  other->flush_posted(rig.now);
  EXPECT_EQ(rig.device.port_counters(3).req_cqe_flush_error, 1u);
  EXPECT_EQ(rig.device.port_counters(3).resp_cqe_flush_error, 1u);
  EXPECT_EQ(rig.device.port_counters(0).req_cqe_flush_error, 0u);
  EXPECT_EQ(rig.device.port_counters(0).resp_cqe_flush_error, 0u);
}

TEST(Ports, CountWhatTheirQueuePairsReceive) {
  RigOptions options{.type = QpType::kUd};
  Rig rig(options);
  options.port = kMaxPorts - 1;
  QueuePair* other = rig.make(options);
  RxPacket rx;
  rx.header = rig.packet(Opcode::kUdSendOnly, 5);
  rx.header.deth = {0x1111, 0x99};
  rx.header.dest_qpn = other->qpn();
  rx.source = gid(2);
  rx.destination = gid(1);
  rig.receive(rx, bytes(20));
  const Counters& last = rig.device.port_counters(kMaxPorts - 1);
  EXPECT_EQ(last.port_rcv_packets, 1u);
  EXPECT_EQ(last.port_rcv_data, 20u);
  EXPECT_EQ(last.rx_no_receive, 1u);
  rx.header.dest_qpn = 0x777777;
  rig.receive(rx, bytes(20));
  EXPECT_EQ(last.port_rcv_packets, 1u);
  EXPECT_EQ(rig.device.port_counters(0).rx_unknown_qp, 1u) << "nobody's packet counts at port 0";
}

TEST(Ports, AreBounded) {
  Rig rig;
  QpInit init = rig.qp->init();
  init.port = kMaxPorts;
  auto made = rig.device.create_qp(init);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, EINVAL);
}

}  // namespace
}  // namespace verbena::engine::test
