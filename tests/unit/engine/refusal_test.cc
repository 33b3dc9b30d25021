// Requests that must be refused: the NAK, the state of the queue pair, what the receive work
// request or the async event says, and that no byte was written.
#include <functional>

#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// One bad packet (after `before` good ones) and what it must bring.
struct Refusal {
  const char* name;
  uint8_t syndrome;
  std::function<void(Rig&)> offend;
  RigOptions options{};
};

void expect_refused(const Refusal& refusal) {
  SCOPED_TRACE(refusal.name);
  Rig rig(refusal.options);
  std::vector<uint8_t> before(rig.memory, rig.memory + Rig::kMemory);
  refusal.offend(rig);
  auto sent = rig.transmit();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().opcode(), Opcode::kRcAcknowledge);
  EXPECT_EQ(sent.back().syndrome(), refusal.syndrome);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  AsyncType event = refusal.syndrome == 0x62 ? AsyncType::kQpAccessErr : AsyncType::kQpReqErr;
  EXPECT_THAT(rig.take_async(), ElementsAre(event));
  EXPECT_EQ(rig.counters().resp_remote_access_errors, refusal.syndrome == 0x62 ? 1u : 0u);
  EXPECT_EQ(rig.counters().resp_remote_invalid_request, refusal.syndrome == 0x61 ? 1u : 0u);
  rig.receive(rig.packet(Opcode::kRcSendOnly, 201, true), bytes(4));
  EXPECT_THAT(rig.transmit(), IsEmpty()) << "in ERR nothing is answered";
}

wire::Packet with_rkey(wire::Packet p, uint32_t rkey) {
  p.reth.rkey = rkey;
  return p;
}

TEST(Refusal, RemoteAccess) {
  auto write = [](Rig& r, uint64_t address, uint32_t length) {
    auto p = r.write_request(Opcode::kRcWriteOnly, 200, 0, length);
    p.reth.address = address;
    r.receive(p, bytes(length));
  };
  const Refusal kCases[] = {
      {"unknown rkey", 0x62,
       [](Rig& r) {
         r.receive(with_rkey(r.write_request(Opcode::kRcWriteOnly, 200, 0, 8), 0x12345), bytes(8));
       }},
      {"stale rkey: another consumer part", 0x62,
       [](Rig& r) {
         r.receive(with_rkey(r.write_request(Opcode::kRcWriteOnly, 200, 0, 8), r.region.key ^ 1),
                   bytes(8));
       }},
      {"one byte before the region", 0x62, [=](Rig& r) { write(r, r.address(0) - 1, 8); }},
      {"one byte behind the region", 0x62,
       [=](Rig& r) { write(r, r.address(0) + Rig::kMemory - 7, 8); }},
      {"address plus length wraps 64 bits", 0x62, [=](Rig& r) { write(r, ~0ull - 3, 8); }},
      {"other protection domain", 0x62,
       [=](Rig& r) {
         r.region.domain = &r.other_domain;
         write(r, r.address(0), 8);
       }},
      {"WRITE without permission", 0x62,
       [=](Rig& r) {
         r.region.access &= ~memory::kRemoteWrite;
         write(r, r.address(0), 8);
       }},
      {"READ without permission", 0x62,
       [](Rig& r) {
         r.region.access &= ~memory::kRemoteRead;
         r.receive(r.read_request(200, 0, 8));
       }},
      {"atomic without permission", 0x62,
       [](Rig& r) {
         r.region.access &= ~memory::kRemoteAtomic;
         r.receive(r.atomic(Opcode::kRcFetchAdd, 200, 64, 1));
       }},
      {"READ out of range", 0x62,
       [](Rig& r) { r.receive(r.read_request(200, Rig::kMemory - 8, 9)); }},
      {"first packet of a WRITE that would run out of range", 0x62,
       [](Rig& r) {
         r.receive(r.write_request(Opcode::kRcWriteFirst, 200, Rig::kMemory - 256, 257),
                   bytes(256));
       }},
      {"atomic out of range", 0x62,
       [](Rig& r) { r.receive(r.atomic(Opcode::kRcFetchAdd, 200, Rig::kMemory, 1)); }},
      {"FLUSH without permission", 0x62,
       [](Rig& r) {
         r.region.access &= ~memory::kFlushGlobal;
         auto p = r.write_request(Opcode::kRcFlush, 200, 0, 8);
         p.feth.placement = 1;
         r.receive(p);
       }},
  };
  for (const Refusal& refusal : kCases) expect_refused(refusal);
}

TEST(Refusal, InvalidRequest) {
  const Refusal kCases[] = {
      {"misaligned atomic", 0x61,
       [](Rig& r) { r.receive(r.atomic(Opcode::kRcFetchAdd, 200, 65, 1)); }},
      {"misaligned ATOMIC WRITE", 0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcAtomicWrite, 200, 4, 8), bytes(8)); }},
      {"ATOMIC WRITE of 4 bytes", 0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcAtomicWrite, 200, 0, 4), bytes(4)); }},
      {"middle without first", 0x61,
       [](Rig& r) { r.receive(r.packet(Opcode::kRcWriteMiddle, 200), bytes(256)); }},
      {"last without first", 0x61,
       [](Rig& r) { r.receive(r.packet(Opcode::kRcSendLast, 200), bytes(25)); }},
      {"short first", 0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcWriteFirst, 200, 0, 300), bytes(255)); }},
      {"long only", 0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcWriteOnly, 200, 0, 257), bytes(257)); }},
      {"WRITE only shorter than its RETH", 0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcWriteOnly, 200, 0, 200), bytes(100)); }},
      {"WRITE first that is the whole message", 0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcWriteFirst, 200, 0, 256), bytes(256)); }},
      {"READ request above 2 GiB", 0x61,
       [](Rig& r) { r.receive(r.read_request(200, 0, 0x80000001u)); }},
      {"READ request with payload", 0x61,
       [](Rig& r) { r.receive(r.read_request(200, 0, 8), bytes(8)); }},
      {"READ without responder depth",
       0x61,
       [](Rig& r) { r.receive(r.read_request(200, 0, 8)); },
       {.max_dest_rd_atomic = 0}},
      {"more READs than the responder depth",
       0x61,
       [](Rig& r) {
         for (uint32_t psn = 200; psn < 203; ++psn) r.receive(r.read_request(psn, 0, 8));
       },
       {.max_dest_rd_atomic = 2}},
      {"READ on a queue pair without remote read",
       0x61,
       [](Rig& r) { r.receive(r.read_request(200, 0, 8)); },
       {.access = memory::kRemoteWrite}},
      {"WRITE on a queue pair without remote write",
       0x61,
       [](Rig& r) { r.receive(r.write_request(Opcode::kRcWriteOnly, 200, 0, 8), bytes(8)); },
       {.access = memory::kRemoteRead}},
      {"atomic on a queue pair without remote atomic",
       0x61,
       [](Rig& r) { r.receive(r.atomic(Opcode::kRcCompareSwap, 200, 64, 1)); },
       {.access = memory::kRemoteRead | memory::kRemoteWrite}},
  };
  for (const Refusal& refusal : kCases) expect_refused(refusal);
}

TEST(Refusal, WithinAWrite) {
  struct Case {
    const char* name;
    Opcode opcode;
    size_t length;
  };
  for (const Case& c :
       {Case{"short middle", Opcode::kRcWriteMiddle, 255},
        Case{"long last", Opcode::kRcWriteLast, 257}, Case{"empty last", Opcode::kRcWriteLast, 0},
        Case{"last too early", Opcode::kRcWriteLast, 200},
        Case{"another message begins", Opcode::kRcSendOnly, 8},
        Case{"a SEND continues it", Opcode::kRcSendMiddle, 256},
        Case{"a READ in between", Opcode::kRcReadRequest, 0}}) {
    SCOPED_TRACE(c.name);
    Rig rig;
    rig.receive(rig.write_request(Opcode::kRcWriteFirst, 200, 0, 1000), bytes(256));
    rig.receive(rig.packet(c.opcode, 201, true), bytes(c.length));
    auto sent = rig.transmit();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_EQ(sent[0].psn(), 201u);
    EXPECT_EQ(sent[0].syndrome(), 0x61);
    EXPECT_EQ(rig.memory[256], 0);
  }
}

TEST(Refusal, ReceiveTooShortOnBothSides) {
  Rig responder;
  responder.post_recv(5, {responder.sge(0, 300)});
  responder.post_recv(6, {responder.sge(0, 300)});
  responder.receive(responder.packet(Opcode::kRcSendFirst, 200), bytes(256));
  responder.receive(responder.packet(Opcode::kRcSendLast, 201, true), bytes(45));
  auto sent = responder.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].syndrome(), 0x61);
  EXPECT_THAT(summary(responder.poll_receive()), ElementsAre("5:LOC_LEN_ERR", "6:WR_FLUSH_ERR"));
  EXPECT_EQ(responder.memory[256], 0);
  EXPECT_EQ(responder.counters().resp_local_length_error, 1u);
  EXPECT_THAT(responder.take_async(), IsEmpty()) << "the completion says it";
  Rig requester;
  requester.send(301);
  requester.transmit();
  requester.ack(101, 0x61);
  EXPECT_THAT(summary(requester.poll_send()), ElementsAre("1:REM_INV_REQ_ERR"));
}

TEST(Refusal, BadReceiveLkeyIsARemoteOperationalError) {
  Rig rig;
  Sge bad = rig.sge(0, 100);
  bad.lkey ^= 1;
  rig.post_recv(5, {bad});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(10));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x63);
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:LOC_PROT_ERR"));
  EXPECT_EQ(rig.counters().resp_remote_op_errors, 1u);
}

TEST(Refusal, WriteWithImmediateToABadKeyIsTheReceiversAccessError) {
  Rig rig;
  rig.post_recv(5, {rig.sge(0, 100)});
  rig.receive(with_rkey(rig.write_request(Opcode::kRcWriteOnlyImm, 200, 0, 8), 1), bytes(8));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x62);
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:LOC_ACCESS_ERR"));
}

TEST(Refusal, AnswersBeforeTheNakAreStillGiven) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 300));
  rig.receive(with_rkey(rig.write_request(Opcode::kRcWriteOnly, 202, 0, 8), 1), bytes(8));
  EXPECT_THAT(
      summary(rig.transmit()),
      ElementsAre("RC_READ_RESPONSE_FIRST 200", "RC_READ_RESPONSE_LAST 201", "RC_ACKNOWLEDGE 202"));
}

TEST(Refusal, NothingIsAnsweredAfterAnErrorOfOurOwn) {
  Rig rig;
  rig.sink.room = 0;
  rig.receive(rig.read_request(200, 0, 300));
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  rig.sink.room = UINT32_MAX;
  EXPECT_THAT(rig.transmit(), IsEmpty());
}

}  // namespace
}  // namespace verbena::engine::test
