// Unreliable services by packet scripts: datagrams with their GRH area, multicast, and UC.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

RxPacket datagram(const Rig& rig, Opcode opcode = Opcode::kUdSendOnly) {
  RxPacket rx;
  rx.header = rig.packet(opcode, 5);
  rx.header.deth = {0x1111, 0x99};
  rx.source = gid(2);
  rx.destination = gid(1);
  return rx;
}

TEST(Datagram, SendsOnePacketPerRequest) {
  Rig rig({.type = QpType::kUd});
  rig.send(100);
  auto request = rig.request(WrOpcode::kSendWithImm, {rig.sge(0, 3)}, kSignaled | kSolicited);
  request.imm_or_rkey = 9;
  request.remote_qkey = 0x80000001;
  rig.post(request);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("UD_SEND_ONLY 100", "UD_SEND_ONLY_IMM 101"));
  EXPECT_EQ(sent[0].header.deth.qkey, 0x1111u);
  EXPECT_EQ(sent[0].header.deth.source_qpn, rig.qp->qpn());
  EXPECT_EQ(sent[0].header.dest_qpn, kPeerQpn);
  EXPECT_EQ(sent[0].route.destination, gid(2));
  EXPECT_EQ(sent[1].header.pad_count, 1);
  EXPECT_TRUE(sent[1].header.solicited);
  EXPECT_EQ(sent[1].header.deth.qkey, 0x1111u) << "bit 31: the queue pair's own Q_Key";
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
}

TEST(Datagram, TooLongCompletesAndIsNotSent) {
  Rig rig({.type = QpType::kUd});
  rig.send(4097);
  rig.send(4096);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("UD_SEND_ONLY 100"));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
}

TEST(Datagram, TooLongForTheMtuOfItsOwnDevice) {
  Rig rig({.type = QpType::kUd, .port_mtu = 1024});
  rig.send(1025);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  rig.send(1024);
  EXPECT_THAT(rig.transmit(), SizeIs(1));
}

TEST(Datagram, ArrivesBehindAnIpv4GrhArea) {
  Rig rig({.type = QpType::kUd});
  rig.post_recv(3, {rig.sge(0, 30), rig.sge(100, 30)});
  RxPacket rx = datagram(rig, Opcode::kUdSendOnlyImm);
  rx.header.immediate_be = 0x0a0b0c0d;
  rx.traffic_class = 0x68;
  rx.hop_limit = 33;
  rig.receive(rx, bytes(20));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("3:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 60u);
  EXPECT_EQ(done[0].flags, kWcGrh | kWcWithImm);
  EXPECT_EQ(done[0].imm_or_rkey, 0x0a0b0c0du);
  EXPECT_EQ(done[0].source_qp, 0x99u);
  EXPECT_EQ(done[0].service_level, 0xa);
  std::vector<uint8_t> area(rig.memory, rig.memory + 30);
  area.insert(area.end(), rig.memory + 100, rig.memory + 130);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(area[i], 0) << i;
  EXPECT_EQ(area[20], 0x45);
  EXPECT_EQ(area[21], 0x68);
  EXPECT_EQ(area[28], 33);
  EXPECT_EQ(area[29], 17);
  EXPECT_THAT(std::vector<uint8_t>(area.begin() + 32, area.begin() + 40),
              ElementsAre(10, 0, 0, 2, 10, 0, 0, 1));
  EXPECT_EQ(std::vector<uint8_t>(area.begin() + 40, area.end()), bytes(20));
}

TEST(Datagram, ArrivesBehindAnIpv6GrhArea) {
  Rig rig({.type = QpType::kUd});
  rig.post_recv(3, {rig.sge(0, 100)});
  RxPacket rx = datagram(rig);
  rx.source = rx.destination = Gid{};
  rx.source.bytes[0] = rx.destination.bytes[0] = 0xfd;
  rx.source.bytes[15] = 7;
  rig.receive(rx, bytes(4));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("3:SUCCESS"));
  EXPECT_EQ(done[0].service_level, 0x9);
  EXPECT_EQ(rig.memory[0] >> 4, 6);
  EXPECT_EQ(rig.memory[8], 0xfd);
  EXPECT_EQ(rig.memory[23], 7);
}

TEST(Datagram, DropsAreCounted) {
  Rig rig({.type = QpType::kUd});
  rig.receive(datagram(rig), bytes(4));
  EXPECT_EQ(rig.counters().rx_no_receive, 1u);
  rig.post_recv(1, {rig.sge(0, 50)});
  RxPacket rx = datagram(rig);
  rx.header.deth.qkey = 0x2222;
  rig.receive(rx, bytes(4));
  EXPECT_EQ(rig.counters().qkey_viol_cntr, 1u);
  rig.receive(datagram(rig), bytes(11));  // 51 with the GRH area
  EXPECT_EQ(rig.counters().resp_local_length_error, 1u);
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  rig.receive(datagram(rig), bytes(10));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS")) << "the receive stayed";
}

TEST(Datagram, BadReceiveBufferEndsTheQueuePair) {
  Rig rig({.type = QpType::kUd});
  Sge bad = rig.sge(0, 100);
  bad.lkey ^= 1;
  rig.post_recv(1, {bad});
  rig.receive(datagram(rig), bytes(4));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:LOC_PROT_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

TEST(Datagram, MulticastReachesEveryAttachedQueuePair) {
  Rig rig({.type = QpType::kUd});
  QueuePair* other = rig.make(rig.options);
  QueuePair* stranger = rig.make(rig.options);
  Gid group = gid(0);
  group.bytes[12] = 224;
  EXPECT_EQ(rig.device.attach_multicast(rig.qp, group), 0);
  EXPECT_EQ(rig.device.attach_multicast(rig.qp, group), 0) << "twice is once";
  EXPECT_EQ(rig.device.attach_multicast(other, group), 0);
  EXPECT_EQ(rig.device.attach_multicast(other, gid(1)), EINVAL) << "no group";
  for (QueuePair* qp : {rig.qp, other, stranger})
    qp->post_receive(qp->qpn(), std::vector<Sge>{rig.sge(1024u * qp->qpn(), 100)});
  RxPacket rx = datagram(rig);
  rx.header.dest_qpn = kMulticastQpn;
  rx.destination = group;
  rx.multicast = true;
  rig.receive(rx, bytes(8));
  auto done = rig.poll_receive();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].qp_num, rig.qp->qpn());
  EXPECT_EQ(done[1].qp_num, other->qpn());
  EXPECT_EQ(rig.device.detach_multicast(other, group), 0);
  EXPECT_EQ(rig.device.detach_multicast(other, group), EINVAL);
  rig.receive(rx, bytes(8));
  EXPECT_THAT(rig.poll_receive(), IsEmpty()) << "no receive left on the first, none attached else";
  EXPECT_EQ(rig.counters().rx_no_receive, 1u);
}

TEST(Datagram, OnlySends) {
  Rig rig({.type = QpType::kUd});
  EXPECT_EQ(rig.write(10), EINVAL);
  EXPECT_EQ(rig.read(10), EINVAL);
  auto request = rig.request(WrOpcode::kSend, {rig.sge(0, 4)});
  request.route = nullptr;
  EXPECT_EQ(rig.post(request), EINVAL);
}

// --- UC

TEST(Unreliable, CompletesWhenItHasLeft) {
  Rig rig({.type = QpType::kUc});
  rig.send(300);
  rig.write(10);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent),
              ElementsAre("UC_SEND_FIRST 100", "UC_SEND_LAST 101", "UC_WRITE_ONLY 102"));
  EXPECT_FALSE(sent[1].header.ack_request);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS", "2:SUCCESS"));
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_EQ(rig.read(10), EINVAL);
}

TEST(Unreliable, ALostPacketLosesTheMessageOnly) {
  Rig rig({.type = QpType::kUc});
  for (uint64_t i = 1; i <= 3; ++i) rig.post_recv(i, {rig.sge(1000 * i, 600)});
  rig.receive(rig.packet(Opcode::kUcSendFirst, 200), bytes(256));
  rig.receive(rig.packet(Opcode::kUcSendLast, 202), bytes(10));  // 201 is lost
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  rig.receive(rig.packet(Opcode::kUcSendFirst, 203), bytes(256, 9));
  rig.receive(rig.packet(Opcode::kUcSendLast, 204), bytes(10));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS")) << "the same receive, from its start";
  EXPECT_EQ(done[0].byte_len, 266u);
  EXPECT_EQ(rig.memory[1000], 9);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.counters().out_of_sequence, 1u);
}

TEST(Unreliable, ANewMessageEndsTheOld) {
  Rig rig({.type = QpType::kUc});
  rig.post_recv(1, {rig.sge(0, 600)});
  rig.receive(rig.packet(Opcode::kUcSendFirst, 200), bytes(256));
  rig.receive(rig.packet(Opcode::kUcSendOnly, 201), bytes(7));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 7u);
}

TEST(Unreliable, WithoutAReceiveTheMessageIsLost) {
  Rig rig({.type = QpType::kUc});
  rig.receive(rig.packet(Opcode::kUcSendFirst, 200), bytes(256));
  rig.post_recv(1, {rig.sge(0, 600)});
  rig.receive(rig.packet(Opcode::kUcSendLast, 201), bytes(10));
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  EXPECT_EQ(rig.counters().rx_no_receive, 1u);
  rig.receive(rig.packet(Opcode::kUcSendOnly, 202), bytes(10));
  EXPECT_THAT(rig.poll_receive(), SizeIs(1));
}

TEST(Unreliable, ABadKeyLosesTheMessageOnly) {
  Rig rig({.type = QpType::kUc});
  wire::Packet p = rig.write_request(Opcode::kUcWriteOnly, 200, 0, 4);
  p.reth.rkey ^= 1;
  rig.receive(p, bytes(4));
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  EXPECT_EQ(rig.memory[0], 0);
  rig.receive(rig.write_request(Opcode::kUcWriteOnly, 201, 0, 4), bytes(4));
  EXPECT_EQ(rig.memory[0], 1);
}

}  // namespace
}  // namespace verbena::engine::test
