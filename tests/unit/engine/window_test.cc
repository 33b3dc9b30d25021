// Memory windows, invalidation, and extended reliable connections.
#include <functional>

#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Window : public testing::Test {
 protected:
  memory::MemoryWindow make(Rig& rig, uint8_t type = 2) {
    memory::MemoryWindow window;
    window.domain = &rig.domain;
    window.type = type;
    return window;
  }
  std::string bind(Rig& rig, memory::MemoryWindow& window, size_t offset, size_t length,
                   uint32_t access = memory::kRemoteWrite) {
    SendRequest request = rig.request(WrOpcode::kBindMw, {});
    request.bind = {&window, &rig.region, window.key + 1, rig.address(offset), length, access};
    EXPECT_EQ(rig.post(request), 0);
    rig.transmit();
    auto done = rig.poll_send();
    return done.empty() ? "nothing" : name(done.back().status);
  }
  static uint8_t write(Rig& rig, uint32_t psn, uint32_t rkey, size_t offset, uint32_t length) {
    auto p = rig.write_request(Opcode::kRcWriteOnly, psn, offset, length);
    p.reth.rkey = rkey;
    rig.receive(p, bytes(length));
    auto sent = rig.transmit();
    return sent.empty() ? 0xff : sent[0].syndrome() & 0xe3;
  }
};

TEST_F(Window, BindGivesAKeyForItsRangeOnly) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  uint32_t unbound = rig.device.keys().insert(&window);
  EXPECT_EQ(bind(rig, window, 1000, 100), "SUCCESS");
  EXPECT_NE(window.key, unbound);
  EXPECT_EQ(window.key >> 8, unbound >> 8);
  EXPECT_EQ(rig.region.bound_windows, 1u);
  EXPECT_EQ(write(rig, 200, window.key, 1000, 100), 0);
  EXPECT_EQ(rig.memory[1000], 1);
  EXPECT_EQ(write(rig, 201, window.key, 1001, 100), 0x62);
}

// The memory of a region or window may be another's when a queued bind gets its turn.
TEST_F(Window, ABindOfWhatIsGoneFails) {
  for (bool region : {true, false}) {
    Rig rig;
    memory::MemoryWindow window{.domain = &rig.domain, .type = 2};
    rig.device.keys().insert(&window);
    SendRequest request = rig.request(WrOpcode::kBindMw, {});
    request.bind = {&window, &rig.region,         window.key + 1, rig.address(0),
                    100,     memory::kRemoteRead, window.serial,  rig.region.serial};
    rig.send(10);
    rig.transmit();
    ASSERT_EQ(rig.post(request), 0);
    // As often as it takes until the key is the one of before: 12 bits of it are random.
    uint32_t before = region ? rig.region.key : window.key, again = 0;
    for (int i = 0; i < 1'000'000 && again != before; ++i) {
      rig.device.keys().remove(region ? rig.region.key : window.key);
      again = region ? rig.device.keys().insert(&rig.region) : rig.device.keys().insert(&window);
    }
    ASSERT_EQ(again, before);
    uint32_t key = window.key;
    rig.ack(100);
    rig.transmit();
    EXPECT_THAT(summary(rig.poll_send()), ElementsAre("2:SUCCESS", "1:MW_BIND_ERR"));
    EXPECT_EQ(window.key, key);
    EXPECT_EQ(window.region, nullptr);
    EXPECT_EQ(rig.region.bound_windows, 0u);
  }
}

TEST_F(Window, AWindowWithoutAKeyIsNotRekeyed) {
  Rig rig;
  memory::MemoryWindow gone{.domain = &rig.domain, .type = 2};
  rig.device.keys().insert(&gone);
  rig.device.keys().remove(gone.key);
  EXPECT_EQ(rig.device.keys().rekey(&gone, 5), 0u);
}

TEST_F(Window, OldKeyIsRefused) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  uint32_t unbound = rig.device.keys().insert(&window);
  bind(rig, window, 1000, 100);
  EXPECT_EQ(write(rig, 200, unbound, 1000, 8), 0x62);
}

TEST_F(Window, TypeTwoBelongsToItsQueuePair) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  rig.device.keys().insert(&window);
  bind(rig, window, 1000, 100);
  QueuePair* first = rig.qp;
  rig.qp = rig.make(rig.options);
  EXPECT_EQ(write(rig, 200, window.key, 1000, 8), 0x62);
  rig.qp = first;
  EXPECT_EQ(write(rig, 200, window.key, 1000, 8), 0);
}

TEST_F(Window, PermissionsAreTheWindowsOwn) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  rig.device.keys().insert(&window);
  bind(rig, window, 1000, 100, memory::kRemoteRead);
  EXPECT_EQ(write(rig, 200, window.key, 1000, 8), 0x62);
}

wire::Packet flush_request(Rig& rig, uint32_t psn, uint32_t rkey, uint64_t address, uint32_t length,
                           uint8_t selectivity) {
  wire::Packet p = rig.packet(Opcode::kRcFlush, psn, true);
  p.reth = {address, rkey, length};
  p.feth = {1, selectivity};
  return p;
}

TEST_F(Window, FlushOfAWholeWindowAsksForItsKeyOnly) {
  for (uint32_t zero_based : {uint32_t{0}, uint32_t{memory::kZeroBased}}) {
    Rig rig;
    memory::MemoryWindow window = make(rig);
    rig.device.keys().insert(&window);
    ASSERT_EQ(bind(rig, window, 1000, 100, memory::kFlushGlobal | zero_based), "SUCCESS");
    rig.receive(flush_request(rig, 200, window.key, 0, 0, 1));
    auto sent = rig.transmit();
    ASSERT_THAT(summary(sent), ElementsAre("RC_READ_RESPONSE_ONLY 200"));
    EXPECT_EQ(sent[0].header.aeth.msn, 1u) << "the flush counts as a message";
    rig.receive(flush_request(rig, 201, window.key ^ 1, 0, 0, 1));
    EXPECT_EQ(rig.transmit().back().syndrome(), 0x62);
  }
}

int populated = 0;

TEST_F(Window, FlushMakesNoPagePresent) {
  populated = 0;
  Rig rig;
  rig.device.keys().remove(rig.region.key);
  memory::KeyTable counting(3, [](uint8_t*, size_t, bool) {
    ++populated;
    return true;
  });
  std::swap(rig.device.keys(), counting);
  rig.region.backing = memory::Backing::kOnDemand;
  rig.region.iova = 0;
  rig.region.length = UINT64_MAX;  // the implicit region
  rig.device.keys().insert(&rig.region);
  rig.receive(flush_request(rig, 200, rig.region.key, 0, 0, 1));
  rig.receive(flush_request(rig, 201, rig.region.key, 4096, 1 << 30, 0));
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("RC_READ_RESPONSE_ONLY 200", "RC_READ_RESPONSE_ONLY 201"));
  EXPECT_EQ(populated, 0);
  rig.region.length = 8192;
  rig.receive(flush_request(rig, 202, rig.region.key, 4096, 4097, 0));
  EXPECT_EQ(rig.transmit().back().syndrome(), 0x62) << "one byte behind the end";
}

TEST_F(Window, ZeroBasedCountsFromItsStart) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  rig.device.keys().insert(&window);
  EXPECT_EQ(bind(rig, window, 1000, 100, memory::kRemoteWrite | memory::kZeroBased), "SUCCESS");
  auto p = rig.write_request(Opcode::kRcWriteOnly, 200, 0, 4);
  p.reth.rkey = window.key;
  p.reth.address = 96;
  rig.receive(p, bytes(4));
  EXPECT_EQ(rig.memory[1096], 1);
}

TEST_F(Window, BindsThatMustFail) {
  struct Case {
    const char* name;
    std::function<void(Rig&, memory::MemoryWindow&)> spoil;
    size_t offset = 0, length = 100;
    uint32_t access = memory::kRemoteWrite;
  };
  const Case kCases[] = {
      {"beyond the region", [](Rig&, auto&) {}, Rig::kMemory - 99, 100},
      {"before the region", [](Rig&, auto&) {}, static_cast<size_t>(-8), 8},
      {"length that wraps", [](Rig&, auto&) {}, 8, static_cast<size_t>(-4)},
      {"no length", [](Rig&, auto&) {}, 0, 0},
      {"region without MW_BIND", [](Rig& r, auto&) { r.region.access &= ~memory::kMwBind; }},
      {"region of another domain", [](Rig& r, auto&) { r.region.domain = &r.other_domain; }},
      {"window of another domain", [](Rig& r, auto& w) { w.domain = &r.other_domain; }},
      {"zero-based region", [](Rig& r, auto&) { r.region.access |= memory::kZeroBased; }},
      {"write without local write", [](Rig& r, auto&) { r.region.access &= ~memory::kLocalWrite; }},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Rig rig;
    memory::MemoryWindow window = make(rig);
    rig.device.keys().insert(&window);
    c.spoil(rig, window);
    EXPECT_EQ(bind(rig, window, c.offset, c.length, c.access), "MW_BIND_ERR");
    EXPECT_EQ(window.region, nullptr);
    EXPECT_EQ(rig.region.bound_windows, 0u);
    EXPECT_EQ(rig.qp->state(), QpState::kErr);
  }
}

TEST_F(Window, TypeTwoMustBeInvalidatedBeforeItIsBoundAgain) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  rig.device.keys().insert(&window);
  bind(rig, window, 0, 100);
  SendRequest invalidate = rig.request(WrOpcode::kLocalInv, {});
  invalidate.imm_or_rkey = window.key;
  rig.post(invalidate);
  rig.transmit();
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("2:SUCCESS"));
  EXPECT_EQ(rig.region.bound_windows, 0u);
  EXPECT_EQ(bind(rig, window, 200, 100), "SUCCESS");
  EXPECT_EQ(bind(rig, window, 300, 100), "MW_BIND_ERR");
}

TEST_F(Window, TypeOneIsBoundAnewAndUnboundByLengthZero) {
  Rig rig;
  memory::MemoryWindow window = make(rig, 1);
  rig.device.keys().insert(&window);
  EXPECT_EQ(bind(rig, window, 0, 100), "SUCCESS");
  EXPECT_EQ(bind(rig, window, 200, 100), "SUCCESS");
  EXPECT_EQ(rig.region.bound_windows, 1u);
  EXPECT_EQ(bind(rig, window, 0, 0), "SUCCESS");
  EXPECT_EQ(rig.region.bound_windows, 0u);
  EXPECT_EQ(write(rig, 200, window.key, 200, 8), 0x62);
}

TEST_F(Window, LocalInvalidateWaitsForEverythingBefore) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  rig.device.keys().insert(&window);
  bind(rig, window, 0, 100);
  rig.send(10);
  SendRequest invalidate = rig.request(WrOpcode::kLocalInv, {});
  invalidate.imm_or_rkey = window.key;
  rig.post(invalidate);
  rig.send(10);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 100"));
  EXPECT_NE(window.region, nullptr);
  rig.ack(100);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 101"));
  EXPECT_EQ(window.region, nullptr);
  auto done = rig.poll_send();
  EXPECT_THAT(summary(done), ElementsAre("2:SUCCESS", "3:SUCCESS"));
  EXPECT_EQ(done[1].opcode, WcOpcode::kLocalInv);
}

TEST_F(Window, InvalidatingWhatIsNoBoundWindowFails) {
  Rig rig;
  SendRequest invalidate = rig.request(WrOpcode::kLocalInv, {});
  invalidate.imm_or_rkey = rig.region.key;
  rig.post(invalidate);
  rig.transmit();
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:LOC_QP_OP_ERR"));
}

TEST_F(Window, SendWithInvalidateUnbindsAndTells) {
  Rig rig;
  memory::MemoryWindow window = make(rig);
  rig.device.keys().insert(&window);
  bind(rig, window, 0, 100);
  rig.post_recv(4, {rig.sge(5000, 100)});
  wire::Packet p = rig.packet(Opcode::kRcSendOnlyInv, 200, true);
  p.invalidate_rkey = window.key;
  rig.receive(p, bytes(8));
  auto done = rig.poll_receive();
  ASSERT_THAT(summary(done), ElementsAre("4:SUCCESS"));
  EXPECT_EQ(done[0].flags, kWcWithInv);
  EXPECT_EQ(done[0].imm_or_rkey, window.key);
  EXPECT_EQ(window.region, nullptr);
  EXPECT_EQ(rig.region.bound_windows, 0u);
}

TEST_F(Window, SendWithABadInvalidateIsDeliveredThenFails) {
  Rig rig;
  rig.post_recv(4, {rig.sge(5000, 100)});
  wire::Packet p = rig.packet(Opcode::kRcSendOnlyInv, 200, true);
  p.invalidate_rkey = rig.region.key;  // a region, not a window
  rig.receive(p, bytes(8));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x62);
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("4:REM_INV_REQ_ERR"));
  EXPECT_EQ(rig.memory[5000], 1);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

// --- XRC

TEST(Xrc, DeliversToTheQueueTheSenderNames) {
  Rig rig({.type = QpType::kXrcRecv});
  SharedReceiveQueue second(&rig.domain, 4, 2);
  second.xrc_domain = &rig.xrc_domain;
  CompletionQueue second_cq(4);
  second.completions = &second_cq;
  rig.device.register_srq(&second);
  rig.srq->queue.push(1, std::vector<Sge>{rig.sge(0, 100)});
  second.queue.push(2, std::vector<Sge>{rig.sge(1000, 100)});
  wire::Packet p = rig.packet(Opcode::kXrcSendOnly, 200, true);
  p.xrc_srqn = second.number;
  rig.receive(p, bytes(8));
  auto done = rig.poll(second_cq);
  ASSERT_THAT(summary(done), ElementsAre("2:SUCCESS"));
  EXPECT_EQ(done[0].qp_num, rig.qp->qpn());
  EXPECT_EQ(rig.memory[1000], 1);
  EXPECT_EQ(rig.memory[0], 0);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("XRC_ACKNOWLEDGE 200"));
  EXPECT_EQ(sent[0].syndrome(), 0x1f);
  rig.receive(rig.packet(Opcode::kXrcSendOnly, 201, true), bytes(8));
  EXPECT_THAT(summary(rig.poll_receive()), ElementsAre("1:SUCCESS"));
  rig.device.unregister_srq(&second);
}

TEST(Xrc, UnknownQueueOrForeignDomainIsRefused) {
  for (bool foreign : {false, true}) {
    Rig rig({.type = QpType::kXrcRecv});
    XrcDomain other;
    if (foreign) rig.srq->xrc_domain = &other;
    wire::Packet p = rig.packet(Opcode::kXrcSendOnly, 200, true);
    if (!foreign) p.xrc_srqn += 1;
    rig.receive(p, bytes(8));
    EXPECT_EQ(rig.transmit()[0].syndrome(), 0x61);
    EXPECT_EQ(rig.qp->state(), QpState::kErr);
  }
}

TEST(Xrc, KeysAreJudgedByTheDomainOfTheQueue) {
  Rig rig({.type = QpType::kXrcRecv});
  rig.receive(rig.write_request(Opcode::kXrcWriteOnly, 200, 0, 8), bytes(8));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x1f);
  rig.receive(rig.write_request(Opcode::kXrcReadRequest, 201, 0, 300));
  EXPECT_THAT(summary(rig.transmit()),
              ElementsAre("XRC_READ_RESPONSE_FIRST 201", "XRC_READ_RESPONSE_LAST 202"));
  rig.region.domain = &rig.other_domain;
  rig.receive(rig.write_request(Opcode::kXrcWriteOnly, 203, 0, 8), bytes(8));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x62);
}

TEST(Xrc, AQueueThatGoesAwayTakesTheMessageAlong) {
  Rig rig({.type = QpType::kXrcRecv});
  rig.srq->queue.push(1, std::vector<Sge>{rig.sge(0, 1000)});
  rig.receive(rig.packet(Opcode::kXrcSendFirst, 200), bytes(256));
  auto rest = rig.packet(Opcode::kXrcSendLast, 201, true);
  rig.device.unregister_srq(rig.srq.get());
  rig.srq.reset();
  rig.receive_cq = std::make_unique<CompletionQueue>(4);
  rig.receive(rest, bytes(4));
  EXPECT_EQ(rig.transmit()[0].syndrome(), 0x61);
  EXPECT_EQ(rig.receive_cq->size(), 0u);
}

TEST(Xrc, SenderNamesTheQueueInEveryRequest) {
  Rig rig({.type = QpType::kXrcSend});
  auto request = rig.request(WrOpcode::kSend, {rig.sge(0, 300)});
  request.xrc_srqn = 0x765;
  rig.post(request);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("XRC_SEND_FIRST 100", "XRC_SEND_LAST 101"));
  EXPECT_EQ(sent[0].header.xrc_srqn, 0x765u);
  EXPECT_EQ(sent[1].header.xrc_srqn, 0x765u);
  rig.ack(101);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(rig.post_recv(1, {}), EINVAL);
}

}  // namespace
}  // namespace verbena::engine::test
