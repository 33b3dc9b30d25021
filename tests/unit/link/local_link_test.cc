// The local link between real processes: what arrives, what is refused, and who may die when.
#include "link/local_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/prng.h"
#include "lab.h"
#include "local_endpoint.h"

namespace verbena::link {
namespace {

using engine::RxPacket;
using lab::Child;
using lab::eventually;
using wire::Opcode;

class LocalLinkTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_PRIVATE_NETWORK(); }
};

// A sender process: "SEED LENGTH REF" sends one message to the parent's slot, keeping its bytes;
// "revoke", "publish K", "withdraw K", "key K" (of the next messages), "die".
void sender(int socket, uint8_t to) {
  Endpoint self;
  std::vector<std::unique_ptr<Message>> kept;
  uint32_t key = 0;
  // A broker that is slow to answer costs packets (local_broker_test.cc); here none may be lost.
  eventually([&] { return self.link->prepare(to); });
  lab::say(socket, std::to_string(self.slot()));
  for (std::string command; !(command = lab::hear(socket, 60000)).empty();) {
    unsigned long a = 0, b = 0, c = 0;
    if (std::sscanf(command.c_str(), "%lu %lu %lu", &a, &b, &c) == 3) {
      kept.push_back(std::make_unique<Message>(to, a, b, c != 0));
      Message& message = *kept.back();
      message.packet.region_key = key;
      if (c > 1) {  // c pieces, each in a place of its own
        message.segments.clear();
        for (size_t i = 0, at = 0; i < c; ++i) {
          size_t n = i + 1 == c ? b - at : b / c;
          message.segments.push_back({message.bytes.data() + at, n});
          at += n;
        }
      }
      bool sent = self.link->send(message.get());
      self.link->flush();
      lab::say(socket, sent ? "sent" : "full");
    } else if (command == "revoke") {
      self.link->revoke(0x11);
      lab::say(socket, "revoked");
    } else if (std::sscanf(command.c_str(), "key %lu", &a) == 1) {
      key = static_cast<uint32_t>(a);
      lab::say(socket, "key");
    } else if (std::sscanf(command.c_str(), "publish %lu", &a) == 1) {
      self.link->publish_key(static_cast<uint32_t>(a));
      lab::say(socket, "published");
    } else if (std::sscanf(command.c_str(), "withdraw %lu", &a) == 1) {
      self.link->withdraw_key(static_cast<uint32_t>(a));
      lab::say(socket, "withdrawn");
    } else {
      ::_exit(0);
    }
  }
}

struct Pair {
  Endpoint self;
  Child other;
  uint8_t other_slot;
  Pair()
      : other([slot = self.slot()](int socket) { sender(socket, slot); }),
        other_slot(static_cast<uint8_t>(std::atoi(other.receive().c_str()))) {}
  std::string order(const std::string& text) {
    other.send(text);
    return other.receive();
  }
  // The verdict on the next packet; "none" when nothing comes.
  std::string next(size_t length) {
    std::string out = "none";
    eventually(
        [&] {
          return self.link->receive([&](const RxPacket& p) { out = judge(p, length); }, 1) > 0;
        },
        500);
    return out;
  }
};

// As on the wire: programs that leave the hop limit 0 mean the default.
TEST_F(LocalLinkTest, HopLimitZeroIsSentAsTheDefault) {
  Endpoint self;
  for (uint8_t given : {0, 1, 64, 255}) {
    Message message(self.slot(), 5, 16, false);
    message.route.hop_limit = given;
    ASSERT_TRUE(self.link->send(message.get()));
    self.link->flush();
    int seen = -1;
    self.link->receive([&](const RxPacket& p) { seen = p.hop_limit; });
    EXPECT_EQ(seen, given ? given : 64);
  }
}

TEST_F(LocalLinkTest, CarriesHeaderAddressesAndPayload) {
  Pair pair;
  for (size_t length : {0ul, 1ul, 64ul, 4096ul, 8192ul}) {
    ASSERT_EQ(pair.order("77 " + std::to_string(length) + " 0"), "sent");
    RxPacket seen;
    ASSERT_TRUE(eventually([&] {
      return pair.self.link->receive([&](const RxPacket& p) {
        seen = p;
        EXPECT_EQ(judge(p, length), "ok");
      }) > 0;
    }));
    EXPECT_EQ(seen.header.psn.value(), 77u);
    EXPECT_EQ(seen.header.dest_qpn, pair.self.qpn());
    EXPECT_EQ(seen.source.bytes[15], 1);
    EXPECT_EQ(seen.destination.bytes[15], 2);
    EXPECT_EQ(seen.traffic_class, 0x62);
    EXPECT_EQ(seen.path, engine::Path::kLocal);
    EXPECT_EQ(seen.payload.foreign, nullptr);
  }
}

TEST_F(LocalLinkTest, LargePayloadIsFetchedFromTheSender) {
  Pair pair;
  ASSERT_TRUE(pair.self.link->eligible(pair.other_slot));
  size_t expected = 0;
  for (size_t length : {4097ul, 65536ul, 3000001ul}) {
    for (int pieces : {1, 2, 16, 17, 64}) {
      ASSERT_EQ(pair.order("9 " + std::to_string(length) + " " + std::to_string(pieces)), "sent");
      ASSERT_EQ(pair.next(length), "ok") << length << " in " << pieces;
      expected += length;
    }
  }
  EXPECT_EQ(pair.self.link->foreign_counters().bytes, expected);
  EXPECT_EQ(pair.order("9 100000 65"), "sent");  // more pieces than a record holds
  EXPECT_EQ(pair.next(100000), "none");
}

TEST_F(LocalLinkTest, StagedPayloadIsTakenFromTheSendersSharedMemory) {
  Endpoint self, other;
  ASSERT_TRUE(eventually([&] { return other.link->prepare(self.slot()); }));
  size_t staged = 0;
  for (size_t length : {40000ul, 65536ul, 200001ul, 262144ul}) {
    Message message(self.slot(), 8, length, true);
    ASSERT_TRUE(other.link->send(message.get()));
    other.link->flush();
    size_t chunks = 0;
    while (other.link->stage()) ++chunks;
    // Shows that the bytes come from the staging, which was filled before.
    if (chunks != 0) std::fill(message.bytes.begin(), message.bytes.end(), 0);
    std::string verdict = "none";
    ASSERT_TRUE(eventually([&] {
      self.link->receive([&](const RxPacket& p) { verdict = judge(p, length); });
      return verdict != "none";
    }));
    EXPECT_EQ(verdict, "ok") << length;
    EXPECT_EQ(chunks, length < 65536 ? 0 : (length + 32767) / 32768);
    if (chunks != 0) staged += length;
    EXPECT_FALSE(other.link->stage());  // fetched
  }
  EXPECT_EQ(self.link->foreign_counters().staged, staged);
  // Partly: the rest comes from the sender's memory.
  Message message(self.slot(), 8, 262144, true);
  ASSERT_TRUE(other.link->send(message.get()));
  ASSERT_TRUE(other.link->stage());
  other.link->flush();
  std::string verdict = "none";
  ASSERT_TRUE(eventually([&] {
    self.link->receive([&](const RxPacket& p) { verdict = judge(p, 262144); });
    return verdict != "none";
  }));
  EXPECT_EQ(verdict, "ok");
  EXPECT_EQ(self.link->foreign_counters().staged, staged + 32768);
}

// Nothing else says how long a payload is.
TEST_F(LocalLinkTest, ARecordThatClaimsFourGigabytesIsDoneAtOnce) {
  Endpoint self, other;
  ASSERT_TRUE(eventually([&] { return other.link->prepare(self.slot()); }));
  Message message(self.slot(), 8, 65536, true);
  message.segments = {{message.bytes.data(), UINT32_MAX}};
  message.packet.payload.length = UINT32_MAX;
  ASSERT_TRUE(other.link->send(message.get()));
  other.link->flush();
  uint32_t seen = 0;
  ASSERT_TRUE(eventually([&] {
    self.link->receive([&](const RxPacket& p) { seen = p.payload.length; });
    return seen != 0;
  }));
  EXPECT_EQ(seen, UINT32_MAX);
  EXPECT_FALSE(other.link->stage());  // its last chunks are not wanted any more
}

TEST_F(LocalLinkTest, StagedPayloadIsRefusedOnceTheSenderRevokedIt) {
  Endpoint self, other;
  ASSERT_TRUE(eventually([&] { return other.link->prepare(self.slot()); }));
  Message message(self.slot(), 8, 100000, true);
  ASSERT_TRUE(other.link->send(message.get()));
  other.link->flush();
  ASSERT_TRUE(other.link->stage());
  other.link->revoke(0x11);
  EXPECT_FALSE(other.link->stage());
  std::string verdict = "none";
  ASSERT_TRUE(eventually([&] {
    self.link->receive([&](const RxPacket& p) { verdict = judge(p, 100000); });
    return verdict != "none";
  }));
  EXPECT_EQ(verdict, "lost");
}

TEST_F(LocalLinkTest, PayloadIsRefusedOnceTheSenderRevokedIt) {
  Pair pair;
  ASSERT_EQ(pair.order("1 100000 1"), "sent");
  ASSERT_EQ(pair.order("revoke"), "revoked");
  EXPECT_EQ(pair.next(100000), "lost");
  EXPECT_EQ(pair.self.link->foreign_counters().stale, 1u);
  ASSERT_EQ(pair.order("2 100000 1"), "sent");
  EXPECT_EQ(pair.next(100000), "ok");
}

TEST_F(LocalLinkTest, ReadResponsesNeedALivingKey) {
  Pair pair;
  const std::string key = std::to_string(0x10000300u | 0x5a);
  ASSERT_EQ(pair.order("key " + key), "key");
  ASSERT_EQ(pair.order("publish " + key), "published");
  ASSERT_EQ(pair.order("1 50000 1"), "sent");
  EXPECT_EQ(pair.next(50000), "ok");
  ASSERT_EQ(pair.order("2 50000 1"), "sent");
  ASSERT_EQ(pair.order("withdraw " + key), "withdrawn");
  EXPECT_EQ(pair.next(50000), "lost");
  ASSERT_EQ(pair.order("publish " + std::to_string(0x10000300u | 0x5b)), "published");
  ASSERT_EQ(pair.order("3 50000 1"), "sent");  // same region index, another key
  EXPECT_EQ(pair.next(50000), "lost");
}

// A region registered anew under its old key (ibv_rereg_mr) is other memory.
TEST_F(LocalLinkTest, ReadResponsesOfARegionsEarlierLifeAreLost) {
  Pair pair;
  const std::string key = std::to_string(0x10000300u | 0x5a);
  ASSERT_EQ(pair.order("key " + key), "key");
  ASSERT_EQ(pair.order("publish " + key), "published");
  ASSERT_EQ(pair.order("1 50000 1"), "sent");
  ASSERT_EQ(pair.order("withdraw " + key), "withdrawn");
  ASSERT_EQ(pair.order("publish " + key), "published");
  EXPECT_EQ(pair.next(50000), "lost");
  ASSERT_EQ(pair.order("2 50000 1"), "sent");
  EXPECT_EQ(pair.next(50000), "ok");
}

TEST_F(LocalLinkTest, PayloadOfADeadSenderIsLost) {
  Pair pair;
  ASSERT_EQ(pair.order("1 100000 1"), "sent");
  pair.other.kill(SIGKILL);
  pair.other.wait();
  std::string verdict = pair.next(100000);
  EXPECT_TRUE(verdict == "lost" || verdict == "none") << verdict;
}

TEST_F(LocalLinkTest, WithoutPermissionNoAddressesArePassed) {
  Endpoint open, closed(false);
  EXPECT_FALSE(open.link->eligible(closed.slot()));
  EXPECT_FALSE(closed.link->eligible(open.slot()));
  EXPECT_TRUE(open.link->eligible(open.slot()));
  // Even if a sender does: the receiver refuses.
  Message message(closed.slot(), 3, 100000, true);
  ASSERT_TRUE(open.link->send(message.get()));
  open.link->flush();
  EXPECT_EQ(closed.link->receive([](const RxPacket&) { FAIL(); }), 1u);
  EXPECT_EQ(closed.link->counters().rx_malformed, 1u);
}

TEST_F(LocalLinkTest, OwnSlotWorksLikeAnother) {
  Endpoint self;
  Message small(self.slot(), 4, 100, false), large(self.slot(), 5, 100000, true);
  ASSERT_TRUE(self.link->send(small.get()));
  ASSERT_TRUE(self.link->send(large.get()));
  self.link->flush();
  std::vector<std::string> verdicts;
  self.link->receive(
      [&](const RxPacket& p) { verdicts.push_back(judge(p, verdicts.empty() ? 100 : 100000)); });
  EXPECT_EQ(verdicts, (std::vector<std::string>{"ok", "ok"}));
}

TEST_F(LocalLinkTest, ForwardedPacketsArriveAsFromTheWire) {
  Endpoint a, b;
  std::vector<uint8_t> bytes(300, 7);
  memory::Segment segment{bytes.data(), bytes.size()};
  RxPacket stray;
  stray.header.opcode = Opcode::kRcSendOnly;
  stray.header.dest_qpn = b.qpn();
  stray.payload = {{&segment, 1}, 300, nullptr};
  ASSERT_TRUE(a.link->forward(b.slot(), stray));
  a.link->flush();
  int seen = 0;
  b.link->receive([&](const RxPacket& p) {
    EXPECT_EQ(p.path, engine::Path::kWire);
    EXPECT_EQ(p.payload.length, 300u);
    ++seen;
  });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(b.link->counters().rx_forwarded, 1u);
  EXPECT_FALSE(a.link->forward(200, stray));  // nobody there
}

TEST_F(LocalLinkTest, AStoppedReceiverOnlyMakesTheRingFull) {
  Endpoint self;
  Child receiver([](int socket) {
    Endpoint other;
    lab::say(socket, std::to_string(other.slot()));
    lab::hear(socket);
    uint32_t expected = 0;
    std::string verdict = "ok";
    eventually([&] {
      other.link->receive([&](const RxPacket& p) {
        if (p.header.psn.value() != expected++) verdict = "order";
        if (std::string v = judge(p, 4000); v != "ok") verdict = v;
      });
      return expected == 200;
    });
    lab::say(socket, verdict + " " + std::to_string(expected));
    lab::hear(socket);
  });
  uint8_t slot = static_cast<uint8_t>(std::atoi(receiver.receive().c_str()));
  receiver.kill(SIGSTOP);
  uint32_t sent = 0;
  while (sent < 200) {
    Message message(slot, sent, 4000, false);
    if (!self.link->send(message.get())) break;
    ++sent;
  }
  EXPECT_GT(sent, 50u);
  EXPECT_LT(sent, 70u);
  EXPECT_EQ(self.link->counters().tx_full, 1u);
  receiver.kill(SIGCONT);
  receiver.send("go");
  eventually([&] {
    while (sent < 200) {
      Message message(slot, sent, 4000, false);
      if (!self.link->send(message.get())) break;
      ++sent;
    }
    self.link->flush();
    return sent == 200;
  });
  EXPECT_EQ(receiver.receive(), "ok 200");
}

TEST_F(LocalLinkTest, SlotsAreReusedCleanlyOnBothSides) {
  Endpoint self;
  uint8_t first_slot = 0;
  for (int round = 0; round < 3; ++round) {
    Child other([slot = self.slot()](int socket) { sender(socket, slot); });
    uint8_t slot = static_cast<uint8_t>(std::atoi(other.receive().c_str()));
    if (round == 0) first_slot = slot;
    ASSERT_EQ(slot, first_slot);
    // Its reader is ours; our writer finds its new segment.
    other.send("5 3000 0");
    ASSERT_EQ(other.receive(), "sent");
    std::string verdict = "none";
    eventually([&] {
      return self.link->receive([&](const RxPacket& p) { verdict = judge(p, 3000); }) > 0;
    });
    EXPECT_EQ(verdict, "ok") << "round " << round;
    Message message(slot, 1, 100, false);
    uint64_t before = self.link->counters().tx_packets;
    EXPECT_TRUE(eventually([&] { return self.link->send(message.get()); }));
    EXPECT_EQ(self.link->counters().tx_packets, before + 1);
    other.send("6 3000 0");  // left unread until its slot has a new owner
    ASSERT_EQ(other.receive(), "sent");
    other.kill(SIGKILL);
    other.wait();
    ASSERT_TRUE(eventually([&] { return self.lease->host_page().rows[slot].flags.load() == 0; }));
    EXPECT_TRUE(eventually([&] { return self.link->send(message.get()); }));  // swallowed
    EXPECT_EQ(self.link->counters().tx_no_peer, static_cast<uint64_t>(round + 1));
    if (round == 1) self.link->receive([](const RxPacket&) {});
  }
  EXPECT_EQ(self.link->counters().rx_stale, 1u);  // of round 0; round 1's was read in time
  EXPECT_EQ(self.link->ring_resets(), 0u);
}

TEST_F(LocalLinkTest, HostileRecordsAreCountedNotFollowed) {
  Endpoint self, other;
  eventually([&] { return other.link->prepare(self.slot()) && self.link->prepare(other.slot()); });
  LocalArea& area = self.lease->segment().local;
  Ring& ring = area.rings[other.slot()];
  Prng prng(17);
  uint64_t shown = 0;
  for (int round = 0; round < 4000; ++round) {
    // A true record first, then bytes of it flipped.
    Message message(self.slot(), static_cast<uint64_t>(round), prng.below(3) * 3000 + 8,
                    prng.below(2) != 0);
    message.packet.header.opcode = static_cast<Opcode>(prng.below(2) ? 0x04 : prng.below(256));
    uint64_t before = ring.tail.load();
    if (!other.link->send(message.get())) break;
    uint64_t after = ring.tail.load();
    for (uint64_t n = prng.below(6); n > 0; --n) {
      uint64_t at = before + prng.below(prng.below(2) ? 200 : after - before + 1);
      ring.bytes[at % kRingBytes] = static_cast<uint8_t>(prng.next());
    }
    if (prng.below(50) == 0) ring.tail.store(prng.next());
    other.link->flush();
    self.link->receive([&](const RxPacket& p) {
      ++shown;
      std::vector<uint8_t> sink(std::min<uint32_t>(p.payload.length, 1 << 20));
      p.payload.copy_out(0, sink.data(), sink.size());
    });
  }
  EXPECT_GT(shown, 10u);
  EXPECT_GT(self.link->counters().rx_malformed + self.link->counters().rx_stale, 10u);
}

// One process sends as fast as it can, the other sleeps whenever it is idle.
TEST_F(LocalLinkTest, TwoProcessesMillionsOfBytesAndManySleeps) {
  constexpr uint32_t kMessages = 100'000;
  Endpoint self;
  Child receiver([](int socket) {
    Endpoint other;
    lab::say(socket, std::to_string(other.slot()));
    uint32_t expected = 0, sleeps = 0;
    std::string verdict = "ok";
    while (expected < kMessages && verdict == "ok") {
      size_t n = other.link->receive([&](const RxPacket& p) {
        Prng prng(expected);
        if (p.header.psn.value() != expected) verdict = "order at " + std::to_string(expected);
        std::string v = judge(p, prng.below(prng.below(16) ? 200 : 30000));
        if (v != "ok") verdict = v;
        ++expected;
      });
      if (n > 0 || !other.link->prepare_sleep()) continue;
      ++sleeps;
      pollfd wait{other.lease->wakeup(), POLLIN, 0};
      if (::poll(&wait, 1, 5000) == 0) verdict = "never woken at " + std::to_string(expected);
      other.link->finish_sleep();
    }
    lab::say(socket, verdict + " " + std::to_string(expected));
    lab::say(socket, std::to_string(sleeps));
    lab::hear(socket);
  });
  uint8_t slot = static_cast<uint8_t>(std::atoi(receiver.receive().c_str()));
  // By-reference payload has to stay: a ring of buffers deeper than the shared ring is.
  std::vector<std::unique_ptr<Message>> kept(4096);
  Prng pauses(5);
  for (uint32_t i = 0; i < kMessages; ++i) {
    Prng prng(i);
    size_t length = prng.below(prng.below(16) ? 200 : 30000);
    auto& message = kept[i % kept.size()];
    message = std::make_unique<Message>(slot, i, length, length > 4096);
    while (!self.link->send(message->get())) {
      self.link->flush();
      ::sched_yield();
    }
    if (pauses.below(4) == 0) self.link->flush();
    if (pauses.below(2000) == 0) ::usleep(300);
    if (i % 20'000 == 0) {  // long enough for a slow receiver to fall asleep
      self.link->flush();
      ::usleep(100'000);
    }
  }
  self.link->flush();
  EXPECT_EQ(receiver.receive(60000), "ok " + std::to_string(kMessages));
  int sleeps = std::atoi(receiver.receive().c_str());
  EXPECT_GE(sleeps, 1);
  std::printf("sleeps %d, wakeups %lu\n", sleeps, self.link->counters().wakeups);
}

}  // namespace
}  // namespace verbena::link
