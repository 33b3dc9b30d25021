// Scenarios in simulated time whose outcome can be computed: losses in a fixed rhythm, a peer that
// is dead, and memory that its owner takes back while packets are on their way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <fmt/format.h>

#include "area.h"
#include "sim/world.h"

namespace verbena::sim::test {
namespace {

using engine::QpState;
using engine::WcStatus;
using engine::WorkCompletion;
using engine::WrOpcode;
using testing::ElementsAre;

constexpr uint32_t kMtu = 256;
constexpr uint32_t kMessage = 59 * kMtu - 100;  // 59 packets
constexpr uint32_t kAll = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead;

struct PairOptions {
  bool local = false;
  engine::ReorderSettings disorder{};
  uint8_t timeout = 8;
  uint8_t retry_cnt = 7;
};

// Two hosts with one RC queue pair each; host 0 asks, host 1 answers.
class Pair {
 public:
  explicit Pair(const PairOptions& options = {}) : options_(options), world(settings(options)) {
    for (size_t host = 0; host < 2; ++host) {
      world.add_host();
      memory_[host] = Area(world.device(host), &domains_[host], 1u << 20, 256 * 1024, kAll);
      Prng prng(host + 1);
      memory_[host].fill(prng);
      engine::QpInit init{
          .domain = &domains_[host], .send_cq = &send_cq[host], .receive_cq = &receive_cq[host]};
      init.send = {16, 1, 0};
      init.receive_work_requests = 16;
      init.receive_sges = 1;
      qp[host] = *world.device(host).create_qp(init);
    }
    for (size_t host = 0; host < 2; ++host) connect(host);
  }

  void post(WrOpcode opcode, size_t offset, uint32_t length, uint32_t flags = engine::kSignaled) {
    engine::Sge sge = memory_[0].sge(offset, length);
    engine::SendRequest request;
    request.wr_id = ++posted_;
    request.opcode = opcode;
    request.flags = flags;
    request.sges = {&sge, 1};
    request.remote_address = memory_[1].address(offset);
    request.rkey = memory_[1].key();
    ASSERT_EQ(qp[0]->post_send(world.now(), request), 0);
    world.service(0);
  }
  void post_receive(size_t host, uint64_t wr_id, size_t offset, uint32_t length) {
    engine::Sge sge = memory_[host].sge(offset, length);
    ASSERT_EQ(qp[host]->post_receive(wr_id, {&sge, 1}), 0);
  }
  void fail(size_t host) {
    engine::QpAttributes error;
    error.state = QpState::kErr;
    ASSERT_TRUE(qp[host]->modify(world.now(), error, engine::kAttrState));
    world.service(host);
  }

  static std::vector<WorkCompletion> poll(engine::CompletionQueue& cq) {
    std::vector<WorkCompletion> all(cq.size());
    cq.pop(all.data(), cq.size());
    return all;
  }
  static std::vector<std::string> summary(const std::vector<WorkCompletion>& completions) {
    std::vector<std::string> all;
    for (const WorkCompletion& c : completions)
      all.push_back(fmt::format("{}:{}", c.wr_id, name(c.status)));
    return all;
  }
  Area& memory(size_t host) { return memory_[host]; }

 private:
  static WorldOptions settings(const PairOptions& options) {
    WorldOptions world;
    world.local = options.local;
    return world;
  }

  void connect(size_t host) {
    using namespace engine;
    QpAttributes at;
    at.access = kAll;
    at.route.source = World::gid(host);
    at.route.destination = World::gid(1 - host);
    at.route_is_global = true;
    at.path = world.path();
    at.path_mtu = 1;
    at.dest_qpn = qp[1 - host]->qpn();
    at.rq_psn = at.sq_psn = 0xffffe0;  // wraps within a message
    at.max_dest_rd_atomic = at.max_rd_atomic = 4;
    at.min_rnr_timer = 1;
    at.timeout = options_.timeout;
    at.retry_cnt = options_.retry_cnt;
    at.rnr_retry = 7;
    at.state = QpState::kInit;
    qp[host]->tolerate_disorder(options_.disorder);
    ASSERT_TRUE(qp[host]->modify(world.now(), at,
                                 kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags));
    at.state = QpState::kRtr;
    ASSERT_TRUE(qp[host]->modify(world.now(), at,
                                 kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
                                     kAttrMaxDestRdAtomic | kAttrMinRnrTimer));
    at.state = QpState::kRts;
    ASSERT_TRUE(qp[host]->modify(world.now(), at,
                                 kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCnt |
                                     kAttrRnrRetry | kAttrMaxQpRdAtomic));
  }

  PairOptions options_;
  memory::ProtectionDomain domains_[2];
  Area memory_[2];
  uint64_t posted_ = 0;

 public:
  engine::CompletionQueue send_cq[2]{engine::CompletionQueue(64), engine::CompletionQueue(64)};
  engine::CompletionQueue receive_cq[2]{engine::CompletionQueue(64), engine::CompletionQueue(64)};
  World world;  // its devices go first
  engine::QueuePair* qp[2] = {};
};

// --- losses in a fixed rhythm

enum class Way { kRequests, kAnswers };

void run_periodic(WrOpcode opcode, Way way, uint32_t period) {
  SCOPED_TRACE(fmt::format("{} of 59 packets, every {}th {} lost", name(opcode), period,
                           way == Way::kRequests ? "request" : "answer"));
  Pair pair;
  size_t from = way == Way::kRequests ? 0 : 1;
  pair.world.road(from, 1 - from).faults().period = period;
  std::vector<uint8_t> expected[2];
  for (size_t host : {0, 1}) expected[host] = pair.memory(host).expected;
  bool read = opcode == WrOpcode::kRdmaRead;
  for (uint32_t i = 0; i < 3; ++i) {
    size_t offset = size_t{i} * 20'000;
    if (opcode == WrOpcode::kSend) pair.post_receive(1, i, offset, kMessage);
    pair.post(opcode, offset, kMessage);
    std::memcpy(&expected[read ? 0 : 1][offset], &expected[read ? 1 : 0][offset], kMessage);
  }
  ASSERT_TRUE(pair.world.run(Instant{} + seconds(2)));
  EXPECT_TRUE(pair.world.quiet());
  ASSERT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])),
              ElementsAre("1:SUCCESS", "2:SUCCESS", "3:SUCCESS"));
  if (opcode == WrOpcode::kSend) {
    EXPECT_THAT(Pair::summary(Pair::poll(pair.receive_cq[1])),
                ElementsAre("0:SUCCESS", "1:SUCCESS", "2:SUCCESS"));
  }
  for (size_t host : {0, 1}) {
    pair.memory(host).expected = expected[host];
    EXPECT_EQ(pair.memory(host).first_difference(), pair.memory(host).size()) << "host " << host;
  }
}

// rxe never gets a message of 59 packets through when every 10th packet is lost.
TEST(Scenario, PeriodicLossGetsThrough) {
  for (WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead})
    for (Way way : {Way::kRequests, Way::kAnswers})
      for (uint32_t period = 2; period <= 70; ++period) run_periodic(opcode, way, period);
}

// --- packets that overtake each other

struct Overtaking {
  uint64_t requests = 0;  // packets of requests and READ responses that were sent
  uint64_t naks = 0, gone_back = 0, early = 0;
};

// Three messages of 59 packets on a road where every other packet is late by up to 20 us; all
// bytes are checked.
Overtaking run_overtaking(WrOpcode opcode, uint32_t held, uint32_t drop_ppm) {
  Pair pair({.disorder = {held, microseconds(60)}});
  bool read = opcode == WrOpcode::kRdmaRead;
  Faults& road = pair.world.road(read ? 1 : 0, read ? 0 : 1).faults();
  road.reorder_ppm = 500'000;
  road.drop_ppm = drop_ppm;
  Overtaking out;
  pair.world.on_send = [&](size_t, const engine::TxPacket& packet) {
    out.requests += packet.payload.length > 0;
  };
  std::vector<uint8_t> expected = pair.memory(read ? 0 : 1).expected;
  for (uint32_t i = 0; i < 3; ++i) {
    size_t offset = size_t{i} * 20'000;
    if (opcode == WrOpcode::kSend) pair.post_receive(1, i, offset, kMessage);
    pair.post(opcode, offset, kMessage);
    std::memcpy(&expected[offset], &pair.memory(read ? 1 : 0).expected[offset], kMessage);
  }
  EXPECT_TRUE(pair.world.run(Instant{} + seconds(2)));
  EXPECT_TRUE(pair.world.quiet());
  EXPECT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])),
              ElementsAre("1:SUCCESS", "2:SUCCESS", "3:SUCCESS"));
  pair.memory(read ? 0 : 1).expected = expected;
  EXPECT_EQ(pair.memory(read ? 0 : 1).first_difference(), expected.size());
  out.naks = pair.qp[1]->counters().naks_sent;
  out.gone_back = pair.qp[0]->counters().retransmissions;
  out.early = pair.world.device(1).counters().out_of_sequence;
  return out;
}

TEST(Scenario, OvertakingCostsNothingWithSelectiveRepeat) {
  for (WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead}) {
    SCOPED_TRACE(name(opcode));
    Overtaking held = run_overtaking(opcode, 512, 0);
    EXPECT_EQ(held.requests, 3u * 59) << "each packet once";
    EXPECT_EQ(held.naks, 0u);
    EXPECT_EQ(held.gone_back, 0u);
    if (opcode != WrOpcode::kRdmaRead) {
      EXPECT_GT(held.early, 20u);
    }
    Overtaking back = run_overtaking(opcode, 0, 0);
    EXPECT_GT(back.requests, 3u * 59 + 100);
    EXPECT_GT(back.gone_back, 5u);
  }
}

// Losses among it: with a window that never fills, exactly the lost packets are sent again.
TEST(Scenario, OnlyLostPacketsAreSentAgain) {
  for (WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead}) {
    SCOPED_TRACE(name(opcode));
    bool read = opcode == WrOpcode::kRdmaRead;
    Pair pair({.disorder = {512, microseconds(60)}});
    Faults& road = pair.world.road(read ? 1 : 0, read ? 0 : 1).faults();
    road.period = 13;
    std::map<uint32_t, int> sent;
    pair.world.on_send = [&](size_t, const engine::TxPacket& packet) {
      if (packet.payload.length > 0) ++sent[packet.header.psn.value()];
    };
    if (opcode == WrOpcode::kSend) pair.post_receive(1, 1, 0, kMessage);
    pair.post(opcode, 0, kMessage);
    ASSERT_TRUE(pair.world.run(Instant{} + seconds(2)));
    ASSERT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])), ElementsAre("1:SUCCESS"));
    ASSERT_EQ(sent.size(), 59u);
    uint64_t again = 0;
    for (auto [psn, times] : sent) again += static_cast<uint64_t>(times) - 1;
    EXPECT_EQ(again, pair.world.road(read ? 1 : 0, read ? 0 : 1).counters().lost);
    EXPECT_GE(again, 4u);
  }
}

// --- a dead peer

TEST(Scenario, DeadPeerFailsAtTheComputedInstant) {
  for (uint8_t timeout : {1, 8, 14, 17}) {
    for (uint8_t retry_cnt : {0, 1, 5, 7}) {
      SCOPED_TRACE(fmt::format("timeout {} retry_cnt {}", timeout, retry_cnt));
      Pair pair({.timeout = timeout, .retry_cnt = retry_cnt});
      Faults& road = pair.world.road(0, 1).faults();
      road.cut_from = Instant{};
      pair.post_receive(0, 21, 0, 100);
      pair.post_receive(0, 22, 0, 100);
      Instant begin = Instant{} + nanoseconds(12'345);
      int sent = 0;
      pair.world.on_send = [&](size_t, const engine::TxPacket&) { ++sent; };
      pair.world.at(begin, [&] {
        pair.post(WrOpcode::kSend, 0, 100);
        pair.post(WrOpcode::kRdmaWrite, 0, 100, 0);  // unsignaled: its failure is told all the same
        pair.post(WrOpcode::kRdmaRead, 0, 100);
      });
      ASSERT_TRUE(pair.world.run());
      auto done = Pair::poll(pair.send_cq[0]);
      ASSERT_THAT(Pair::summary(done),
                  ElementsAre("1:RETRY_EXC_ERR", "2:WR_FLUSH_ERR", "3:WR_FLUSH_ERR"));
      EXPECT_EQ(static_cast<int>(done[0].status), 12);
      // 4.096 us * 2^timeout for the first try and each of the retry_cnt others.
      Duration patience = nanoseconds(4096) * (int64_t{1} << timeout) * (retry_cnt + 1);
      for (const WorkCompletion& c : done) EXPECT_EQ(c.timestamp, begin + patience) << c.wr_id;
      auto flushed = Pair::poll(pair.receive_cq[0]);
      EXPECT_THAT(Pair::summary(flushed), ElementsAre("21:WR_FLUSH_ERR", "22:WR_FLUSH_ERR"));
      EXPECT_EQ(pair.qp[0]->state(), QpState::kErr);
      EXPECT_EQ(sent, 3 + retry_cnt) << "three at first, then one packet to try";
      EXPECT_TRUE(pair.world.quiet());
    }
  }
}

TEST(Scenario, PeerThatDiesLaterIsWaitedForSinceItsLastAnswer) {
  Pair pair({.timeout = 10, .retry_cnt = 3});
  pair.post(WrOpcode::kRdmaWrite, 0, 100);
  ASSERT_TRUE(pair.world.run());
  ASSERT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])), ElementsAre("1:SUCCESS"));
  pair.fail(1);  // its queue pair is in error: nothing is answered
  Instant begin = pair.world.now() + milliseconds(1);
  pair.world.at(begin, [&] { pair.post(WrOpcode::kRdmaWrite, 0, 100); });
  ASSERT_TRUE(pair.world.run());
  auto done = Pair::poll(pair.send_cq[0]);
  ASSERT_THAT(Pair::summary(done), ElementsAre("2:RETRY_EXC_ERR"));
  EXPECT_EQ(done[0].timestamp, begin + nanoseconds(4096) * 1024 * 4);
}

// --- memory that is taken back

// Once a work request has completed its bytes are nobody's but the application's: not even a
// retransmission of what comes behind it reads them.
TEST(Scenario, MemoryChangedAfterCompletionIsNotSentAgain) {
  for (bool local : {false, true}) {
    SCOPED_TRACE(local ? "local" : "wire");
    Pair pair({.local = local});
    std::vector<uint8_t> first(pair.memory(0).at(0), pair.memory(0).at(0) + 700);
    std::vector<uint8_t> second(pair.memory(0).at(1000), pair.memory(0).at(1000) + 700);
    pair.post(WrOpcode::kRdmaWrite, 0, 700);
    ASSERT_TRUE(pair.world.run());
    ASSERT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])), ElementsAre("1:SUCCESS"));
    std::memset(pair.memory(0).at(0), 0xff, 700);
    Psn after = Psn(pair.qp[0]->attributes().sq_psn) + (local ? 1 : 3);
    // The next message's first flight is lost as a whole.
    Faults& road = pair.world.road(0, 1).faults();
    road.cut_from = pair.world.now();
    road.cut_until = pair.world.now() + microseconds(10);
    int sent = 0;
    pair.world.on_send = [&](size_t host, const engine::TxPacket& packet) {
      if (host != 0) return;
      ++sent;
      EXPECT_GE(packet.header.psn.distance(after), 0) << "the first message is sent again";
    };
    pair.post(WrOpcode::kRdmaWrite, 1000, 700);
    ASSERT_TRUE(pair.world.run());
    ASSERT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])), ElementsAre("2:SUCCESS"));
    EXPECT_EQ(sent, local ? 2 : 6);
    EXPECT_EQ(std::vector<uint8_t>(pair.memory(1).at(0), pair.memory(1).at(0) + 700), first);
    EXPECT_EQ(std::vector<uint8_t>(pair.memory(1).at(1000), pair.memory(1).at(1000) + 700), second);
  }
}

// A late copy of a packet, older than the completion, changes nothing at the peer either.
TEST(Scenario, LateCopyOfACompletedMessageIsNotPlacedAgain) {
  Pair pair;
  Faults& road = pair.world.road(0, 1).faults();
  road.duplicate_ppm = 1'000'000;
  road.reorder_by = milliseconds(3);
  pair.post(WrOpcode::kRdmaWrite, 0, 700);
  bool changed = false;
  pair.world.on_step = [&](size_t) {
    if (changed || pair.send_cq[0].size() == 0) return;
    changed = true;
    std::memset(pair.memory(1).at(0), 0x11, 700);  // the peer's application goes on
  };
  ASSERT_TRUE(pair.world.run());
  ASSERT_TRUE(changed);
  EXPECT_GE(pair.world.device(1).counters().duplicate_request, 1u);
  for (size_t i = 0; i < 700; ++i) ASSERT_EQ(*pair.memory(1).at(i), 0x11) << i;
}

// On the local path packets refer to the sender's memory. When the queue pair fails, the flush
// gives the memory back: what is still on its way must not be read from it any more.
TEST(Scenario, MemoryTakenBackByAFlushIsNotReadByThePeer) {
  Pair pair({.local = true});
  pair.post_receive(1, 1, 0, 700);
  std::vector<uint8_t> before(pair.memory(1).at(0), pair.memory(1).at(0) + 700);
  pair.post(WrOpcode::kSend, 0, 700);
  pair.fail(0);
  ASSERT_THAT(Pair::summary(Pair::poll(pair.send_cq[0])), ElementsAre("1:WR_FLUSH_ERR"));
  std::memset(pair.memory(0).at(0), 0xee, 700);
  ASSERT_TRUE(pair.world.run());
  EXPECT_EQ(pair.world.counters().delivered, 1u);
  EXPECT_EQ(pair.world.counters().payload_lost, 1u);
  EXPECT_EQ(pair.receive_cq[1].size(), 0u);
  EXPECT_EQ(std::vector<uint8_t>(pair.memory(1).at(0), pair.memory(1).at(0) + 700), before);
}

}  // namespace
}  // namespace verbena::sim::test
