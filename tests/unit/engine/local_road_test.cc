// The local road carries more per packet than the wire; what programs can tell apart (status,
// counters) must not depend on the road.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint8_t kMtu256 = 1, kMtu1024 = 3;

RxPacket local_packet(const Rig& rig, Opcode opcode, uint32_t psn, uint8_t path_mtu) {
  RxPacket packet;
  packet.header = rig.packet(opcode, psn, true);
  packet.source = rig.route.destination;
  packet.destination = rig.route.source;
  packet.path = Path::kLocal;
  packet.path_mtu = path_mtu;
  return packet;
}

TEST(LocalRoad, APacketLongerThanTheSmallerPathMtuIsRefused) {
  Rig rig({.mtu = kMtu256, .path = Path::kLocal});
  rig.post_recv(1, {rig.sge(0, 2000)});
  rig.post_recv(2, {rig.sge(0, 2000)});
  rig.receive(local_packet(rig, Opcode::kRcSendOnly, 200, kMtu1024), bytes(256));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS"));
  rig.receive(local_packet(rig, Opcode::kRcSendOnly, 201, kMtu1024), bytes(257));
  std::vector<Sent> answers = rig.transmit();
  ASSERT_EQ(answers.back().header.opcode, Opcode::kRcAcknowledge);
  EXPECT_EQ(answers.back().syndrome(), 0x61) << "NAK invalid request";
  EXPECT_EQ(answers.back().psn(), 201u);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

TEST(LocalRoad, EqualPathMtusCarryLongPackets) {
  Rig rig({.mtu = kMtu256, .path = Path::kLocal});
  rig.post_recv(1, {rig.sge(0, 2000)});
  rig.receive(local_packet(rig, Opcode::kRcSendOnly, 200, kMtu256), bytes(2000));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS"));
}

TEST(LocalRoad, AReadAnsweredAtAnotherPathMtuIsABadResponse) {
  for (uint32_t length : {256u, 257u}) {
    Rig rig({.mtu = kMtu256, .path = Path::kLocal});
    rig.read(length);
    rig.transmit();
    rig.receive(local_packet(rig, Opcode::kRcReadResponseOnly, 100, kMtu1024), bytes(length));
    EXPECT_THAT(summary(rig.poll_send()),
                ElementsAre(length == 256 ? "1:SUCCESS" : "1:BAD_RESP_ERR"));
  }
}

TEST(LocalRoad, CountsPacketsAsTheWireWould) {
  for (Path path : {Path::kWire, Path::kLocal}) {
    Rig rig({.mtu = kMtu256, .path = path});
    rig.write(1000);
    rig.write(0);
    rig.transmit();
    EXPECT_EQ(rig.counters().port_xmit_packets, 5u);
    EXPECT_EQ(rig.counters().port_xmit_data, 1000u);
    EXPECT_EQ(rig.qp->counters().packets_sent, 5u);
  }
  Rig rig({.mtu = kMtu256, .path = Path::kLocal});
  rig.post_recv(1, {rig.sge(0, 2000)});
  rig.receive(local_packet(rig, Opcode::kRcSendOnly, 200, kMtu256), bytes(1025));
  EXPECT_EQ(rig.counters().port_rcv_packets, 5u);
  EXPECT_EQ(rig.qp->counters().packets_received, 5u);
}

// A null region is zeros of any length: as many pieces as a record of the local road holds.
TEST(LocalRoad, LongZerosAreFewPieces) {
  Rig rig({.path = Path::kLocal});
  memory::MemoryRegion null;
  null.domain = &rig.domain;
  null.length = UINT64_MAX;
  null.backing = memory::Backing::kNull;
  null.access = kAllAccess;
  rig.device.keys().insert(&null);
  size_t pieces = 0;
  struct Counter : PacketSink {
    size_t* most;
    bool send(const TxPacket& packet) override {
      *most = std::max(*most, packet.payload.segments.size());
      return true;
    }
  } counter;
  counter.most = &pieces;
  rig.post(rig.remote(WrOpcode::kRdmaWrite,
                      {rig.sge(0, 1), {0, 1 << 20, null.key}, rig.sge(0, 1), {0, 300000, null.key}},
                      0x10000, 0x77));
  rig.device.transmit(rig.now, counter);
  EXPECT_GE(pieces, 5u);
  EXPECT_LE(pieces, 8u);
}

// A program that changes a buffer under its own request spoils the ICRC of what points at it: the
// repair must be a copy.
TEST(LocalRoad, TheWirePointsAtFirstTransmissionsOnly) {
  Rig rig;
  rig.write(600);
  for (const Sent& sent : rig.transmit()) EXPECT_TRUE(sent.by_reference);
  rig.ack(100, 0x60);  // NAK: sequence error
  std::vector<Sent> again = rig.transmit();
  ASSERT_EQ(again.size(), 3u);
  for (const Sent& sent : again) EXPECT_FALSE(sent.by_reference);
}

}  // namespace
}  // namespace verbena::engine::test
