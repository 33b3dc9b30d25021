// A ring of five switches, each host sending two switches clockwise: pauses close the ring, and the
// cycle is named. With room enough, or a line instead of a ring, nothing of it.
#include "fabric/deadlock.h"

#include <gtest/gtest.h>

#include <set>

#include "generator.h"

namespace verbena::fabric {
namespace {

using test::Generator;
using test::kEndlessCount;
using test::lossless_switch;
using test::plain_link;
using test::Star;

struct Ring {
  explicit Ring(bool closed) : network(1) {
    for (int h = 0; h < 5; ++h) network.add_host(Star::obeying());
    for (int s = 0; s < 5; ++s) network.add_switch(lossless_switch(0.125, 4ull << 20));
    for (uint32_t s = 0; s < 5; ++s) network.connect(s, 5 + s, plain_link());
    for (uint32_t s = 0; s < (closed ? 5 : 4); ++s)
      clockwise.push_back(network.connect(5 + s, 5 + (s + 1) % 5, plain_link()));
    network.finish();
    for (uint32_t h = 0; h < 5; ++h) {
      hosts.push_back(std::make_unique<Generator>(network, h));
      hosts.back()->keep = false;
      hosts.back()->send((h + 2) % 5, kEndlessCount);
    }
  }
  uint64_t received() const {
    uint64_t sum = 0;
    for (const auto& host : hosts) sum += host->received_bytes;
    return sum;
  }
  Network network;
  std::vector<PortId> clockwise;
  std::vector<std::unique_ptr<Generator>> hosts;
};

TEST(Deadlock, ARingOfPausesIsFoundAndNamed) {
  Ring ring(true);
  DeadlockWatch watch;
  std::vector<PortId> cycle;
  for (int i = 1; i <= 20 && cycle.empty(); ++i) {
    ring.network.run(i * 100 * kMicrosecond);
    cycle = watch.look(ring.network);
  }
  EXPECT_EQ(std::set<PortId>(cycle.begin(), cycle.end()),
            std::set<PortId>(ring.clockwise.begin(), ring.clockwise.end()));
  uint64_t before = ring.received();
  ring.network.run(20 * kMillisecond);
  EXPECT_EQ(ring.received(), before);
}

TEST(Deadlock, ALineHasNone) {
  Ring line(false);
  DeadlockWatch watch;
  for (int i = 1; i <= 50; ++i) {
    line.network.run(i * 100 * kMicrosecond);
    EXPECT_TRUE(watch.look(line.network).empty());
  }
  EXPECT_GT(line.network.pause_frames(), 0u);
}

// What another class still sends through the same ports hides nothing.
TEST(Deadlock, IsFoundWhileAnotherClassGoesOn) {
  Ring ring(true);
  for (uint32_t h = 0; h < 5; ++h) ring.hosts[h]->send((h + 2) % 5, kEndlessCount, 1048, 1);
  DeadlockWatch watch;
  std::vector<PortId> cycle;
  for (int i = 1; i <= 40 && cycle.empty(); ++i) {
    ring.network.run(i * 100 * kMicrosecond);
    cycle = watch.look(ring.network);
  }
  EXPECT_EQ(cycle.size(), 5u);
}

}  // namespace
}  // namespace verbena::fabric
