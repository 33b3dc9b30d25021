// Defects known from other stacks, families length and overflow: short and long packets in the
// wrong places, and sums of address and length that wrap. The table of all families is in
// known_defects_test.cc.
#include <functional>

#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

void expect_nak(Rig& rig, uint32_t psn, uint8_t syndrome, uint32_t msn) {
  auto sent = rig.transmit();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].opcode(), Opcode::kRcAcknowledge);
  EXPECT_EQ(sent[0].psn(), psn);
  EXPECT_EQ(sent[0].syndrome(), syndrome);
  EXPECT_EQ(sent[0].header.aeth.msn, msn);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

// --- length

TEST(KnownLength, WrongLengthInsideASendIsDelivered) {
  struct Case {
    const char* name;
    bool begun;  // a first packet came before
    Opcode opcode;
    size_t length;
  };
  for (const Case& c : {Case{"short first", false, Opcode::kRcSendFirst, 255},
                        Case{"empty first", false, Opcode::kRcSendFirst, 0},
                        Case{"long first", false, Opcode::kRcSendFirst, 257},
                        Case{"long only", false, Opcode::kRcSendOnly, 257},
                        Case{"short middle", true, Opcode::kRcSendMiddle, 252},
                        Case{"long middle", true, Opcode::kRcSendMiddle, 260},
                        Case{"empty last", true, Opcode::kRcSendLast, 0},
                        Case{"long last", true, Opcode::kRcSendLast, 257}}) {
    SCOPED_TRACE(c.name);
    Rig rig;
    rig.post_recv(5, {rig.sge(0, 2000)});
    rig.post_recv(6, {rig.sge(4000, 2000)});
    if (c.begun) rig.receive(rig.packet(Opcode::kRcSendFirst, 200), bytes(256));
    uint32_t psn = c.begun ? 201 : 200;
    rig.receive(rig.packet(c.opcode, psn, true), bytes(c.length));
    expect_nak(rig, psn, 0x61, 0);
    EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:REM_INV_REQ_ERR", "6:WR_FLUSH_ERR"));
    size_t placed = c.begun ? 256 : 0;
    EXPECT_THAT(std::vector<uint8_t>(rig.memory + placed, rig.memory + 2000), Each(0));
  }
}

TEST(KnownLength, WholeLastPacketIsTakenForAMiddleOne) {
  Rig rig;
  rig.post_recv(5, {rig.sge(0, 512)});
  auto data = bytes(512);
  rig.receive(rig.packet(Opcode::kRcSendFirst, 200), {data.begin(), data.begin() + 256});
  rig.receive(rig.packet(Opcode::kRcSendLast, 201, true), {data.begin() + 256, data.end()});
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].syndrome() & 0xe0, 0);
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("5:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 512u);
  EXPECT_EQ(std::memcmp(rig.memory, data.data(), 512), 0);
  rig.send(512);
  rig.send(256);
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("RC_SEND_FIRST 100", "RC_SEND_LAST 101", "RC_SEND_ONLY 102"));
}

TEST(KnownLength, EmptyMessageTakesNoReceive) {
  Rig rig;
  rig.post_recv(5, {});
  rig.post_recv(6, {});
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true));
  wire::Packet p = rig.write_request(Opcode::kRcWriteOnlyImm, 201, 0, 0);
  p.reth.rkey = 0xdead;
  rig.receive(p);
  EXPECT_EQ(rig.transmit()[0].header.aeth.msn, 2u);
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("5:SUCCESS", "6:SUCCESS"));
  EXPECT_EQ(done[0].byte_len, 0u);
  EXPECT_EQ(done[1].byte_len, 0u);
}

TEST(KnownLength, EmptyReadTakesNoPsn) {
  Rig rig;
  rig.receive(rig.read_request(200, 0, 0));
  rig.receive(rig.write_request(Opcode::kRcWriteOnly, 201, 0, 4), bytes(4));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_RESPONSE_ONLY 200", "RC_ACKNOWLEDGE 201"));
  EXPECT_EQ(sent[0].header.aeth.msn, 1u);
  EXPECT_EQ(sent[1].header.aeth.msn, 2u);
}

TEST(KnownLength, MessageAboveTwoGiBIsAnAccessError) {
  for (uint32_t length : {0x80000001u, 0xffffffffu}) {
    Rig rig;
    rig.receive(rig.write_request(Opcode::kRcWriteFirst, 200, 0, length), bytes(256));
    expect_nak(rig, 200, 0x61, 0);
  }
  Rig rig;  // exactly 2 GiB is a message, but not inside this region
  rig.receive(rig.write_request(Opcode::kRcWriteFirst, 200, 0, 0x80000000u), bytes(256));
  expect_nak(rig, 200, 0x62, 0);
}

TEST(KnownLength, UnreliableMessageOfAWrongLengthStopsTheQueuePair) {
  Rig rig({.type = QpType::kUc});
  rig.post_recv(5, {rig.sge(0, 300)});
  rig.receive(rig.packet(Opcode::kUcSendFirst, 200), bytes(255));
  rig.receive(rig.packet(Opcode::kUcSendLast, 201), bytes(4));
  rig.receive(rig.packet(Opcode::kUcSendFirst, 202), bytes(256));
  rig.receive(rig.packet(Opcode::kUcSendLast, 203), bytes(45));  // 301 bytes in all
  rig.receive(rig.write_request(Opcode::kUcWriteOnly, 204, 1000, 5), bytes(4));
  EXPECT_EQ(rig.memory[1000], 0);
  EXPECT_THAT(rig.poll_receive(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  rig.receive(rig.packet(Opcode::kUcSendOnly, 205), bytes(300 - 44));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:SUCCESS"));
  EXPECT_THAT(rig.transmit(), IsEmpty()) << "UC answers nothing";
}

TEST(KnownLength, UnreliableMessageTooLongForASharedReceiveIsSilent) {
  Rig rig({.type = QpType::kUc, .use_srq = true});
  rig.srq->queue.push(5, std::vector<Sge>{rig.sge(0, 100)});
  rig.srq->queue.push(6, std::vector<Sge>{rig.sge(1000, 100)});
  rig.receive(rig.packet(Opcode::kUcSendOnly, 200), bytes(101));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:LOC_LEN_ERR"))
      << "class E: the shared receive comes back";
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
  rig.receive(rig.packet(Opcode::kUcSendOnly, 201), bytes(100));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("6:SUCCESS"));
  EXPECT_EQ(rig.memory[0], 0);
}

TEST(KnownLength, UnreliableReceiveBufferWithABadKeyIsNeverTold) {
  Rig rig({.type = QpType::kUc});
  Sge bad = rig.sge(0, 100);
  bad.lkey ^= 1;
  rig.post_recv(5, {bad});
  rig.post_recv(6, {rig.sge(0, 100)});
  rig.receive(rig.packet(Opcode::kUcSendOnly, 200), bytes(10));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("5:LOC_PROT_ERR", "6:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_THAT(rig.transmit(), IsEmpty());
}

// --- overflow

TEST(KnownOverflow, RemoteRangeThatWrapsIsInside) {
  constexpr uint64_t kTop = ~0ull - 7;  // 8-byte aligned
  const std::pair<const char*, std::function<void(Rig&)>> kCases[] = {
      {"WRITE only",
       [](Rig& r) {
         auto p = r.write_request(Opcode::kRcWriteOnly, 200, 0, 16);
         p.reth.address = kTop;
         r.receive(p, bytes(16));
       }},
      {"WRITE first",
       [](Rig& r) {
         auto p = r.write_request(Opcode::kRcWriteFirst, 200, 0, 0x7fffffffu);
         p.reth.address = ~0ull - 300;
         r.receive(p, bytes(256));
       }},
      {"READ",
       [](Rig& r) {
         auto p = r.read_request(200, 0, 0x80000000u);
         p.reth.address = ~0ull - 0x7ffffffe;
         r.receive(p);
       }},
      {"FETCH_ADD",
       [](Rig& r) {
         auto p = r.atomic(Opcode::kRcFetchAdd, 200, 0, 1);
         p.atomic.address = kTop;
         r.receive(p);
       }},
      {"COMPARE_SWAP",
       [](Rig& r) {
         auto p = r.atomic(Opcode::kRcCompareSwap, 200, 0, 1);
         p.atomic.address = kTop;
         r.receive(p);
       }},
      {"ATOMIC_WRITE",
       [](Rig& r) {
         auto p = r.write_request(Opcode::kRcAtomicWrite, 200, 0, 8);
         p.reth.address = kTop;
         r.receive(p, bytes(8));
       }},
      {"FLUSH", [](Rig& r) {
         auto p = r.write_request(Opcode::kRcFlush, 200, 0, 0xffffffffu);
         p.reth.address = kTop;
         p.feth.placement = 1;
         r.receive(p);
       }}};
  for (const auto& [name, offend] : kCases) {
    SCOPED_TRACE(name);
    Rig rig;
    offend(rig);
    expect_nak(rig, 200, 0x62, 0);
    EXPECT_THAT(rig.take_async(), ElementsAre(AsyncType::kQpAccessErr));
    EXPECT_THAT(std::vector<uint8_t>(rig.memory, rig.memory + 4096), Each(0));
  }
}

TEST(KnownOverflow, LastByteOfTheAddressSpaceCannotBeReached) {
  for (uint32_t length : {8u, 9u}) {
    Rig rig;
    rig.region.iova = 0 - uint64_t{Rig::kMemory};  // ends at 2^64
    wire::Packet p = rig.write_request(Opcode::kRcWriteOnly, 200, 0, length);
    p.reth.address = ~0ull - 7;
    rig.receive(p, bytes(length));
    if (length == 8) {
      EXPECT_EQ(rig.transmit()[0].syndrome() & 0xe0, 0);
      EXPECT_EQ(std::memcmp(rig.memory + Rig::kMemory - 8, bytes(8).data(), 8), 0);
    } else {
      expect_nak(rig, 200, 0x62, 0);
      EXPECT_EQ(word(rig, Rig::kMemory - 8), 0u);
    }
  }
}

TEST(KnownOverflow, WindowRangeThatWrapsIsInside) {
  for (bool zero_based : {false, true}) {
    Rig rig;
    memory::MemoryWindow window;
    window.domain = &rig.domain;
    window.type = 2;
    rig.device.keys().insert(&window);
    SendRequest bind = rig.request(WrOpcode::kBindMw, {});
    bind.bind = {
        &window,        &rig.region,
        window.key + 1, rig.address(4096),
        4096,           memory::kRemoteWrite | (zero_based ? uint32_t{memory::kZeroBased} : 0u)};
    rig.post(bind);
    rig.transmit();
    ASSERT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
    wire::Packet p = rig.write_request(Opcode::kRcWriteOnly, 200, 0, 8);
    p.reth.rkey = window.key;
    p.reth.address = (zero_based ? 0 : rig.address(4096)) - 4;
    rig.receive(p, bytes(8));
    expect_nak(rig, 200, 0x62, 0);
    EXPECT_EQ(word(rig, 4092), 0u);
  }
}

TEST(KnownOverflow, LocalRangeThatWrapsIsInside) {
  Rig sender;
  Sge wraps = sender.sge(0, 16);
  wraps.address = ~0ull - 7;
  sender.post(sender.request(WrOpcode::kSend, {wraps}));
  EXPECT_THAT(sender.transmit(), IsEmpty());
  EXPECT_THAT(summary(sender.poll_send()), ElementsAre("1:LOC_PROT_ERR"));

  Rig receiver;
  wraps.lkey = receiver.region.key;
  receiver.post_recv(5, {wraps});
  receiver.receive(receiver.packet(Opcode::kRcSendOnly, 200, true), bytes(16));
  expect_nak(receiver, 200, 0x63, 0);
  EXPECT_THAT(summary(receiver.poll_receive()), ElementsAre("5:LOC_PROT_ERR"));

  Rig reader;
  wraps.lkey = reader.region.key;
  reader.post(reader.remote(WrOpcode::kRdmaRead, {wraps}, 0x10000, 0x77));
  ASSERT_THAT(summary(reader.transmit()), ElementsAre("RC_READ_REQUEST 100"));
  reader.read_response(Opcode::kRcReadResponseOnly, 100, bytes(16));
  EXPECT_THAT(summary(reader.poll_send()), ElementsAre("1:LOC_PROT_ERR"));
}

}  // namespace
}  // namespace verbena::engine::test
