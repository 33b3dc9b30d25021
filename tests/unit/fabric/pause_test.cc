// Priority flow control: the standing queue of the closed form, no loss with enough headroom and
// loss without, expiry and renewal, hosts that pause.
#include <gtest/gtest.h>

#include "fabric/network.h"
#include "generator.h"

namespace verbena::fabric {
namespace {

using test::kEndlessCount;
using test::lossless_switch;
using test::plain_link;
using test::Star;

uint64_t all_drops(const Network& network) {
  uint64_t sum = 0;
  for (PortId id = 0; id < network.ports(); ++id)
    for (uint64_t drops : network.port(id).counters.drops) sum += drops;
  return sum;
}

// N senders stop when each holds alpha times what is free of the pool B': all of them together
// hold N alpha / (1 + N alpha) B'.
class StandingQueue : public testing::TestWithParam<uint32_t> {};

TEST_P(StandingQueue, IsThatOfTheClosedForm) {
  uint32_t n = GetParam();
  Star star(n + 1, lossless_switch(0.125));
  for (uint32_t h = 0; h < n; ++h) {
    star.host(h).keep = false;
    star.host(h).send(n, kEndlessCount);
  }
  star.host(n).keep = false;
  star.network.run(6 * kMillisecond);
  double shared = 0, queue = 0;
  constexpr int kSamples = 500;
  const SharedBuffer& buffer = star.network.switch_at(0).buffer();
  for (int i = 0; i < kSamples; ++i) {
    star.network.run(star.network.now() + 4 * kMicrosecond);
    shared += static_cast<double>(buffer.shared_used());
    queue += static_cast<double>(star.network.port(star.egress(n)).queued_bytes());
  }
  double expected = n * 0.125 / (1 + n * 0.125) * static_cast<double>(buffer.pool());
  EXPECT_NEAR(shared / kSamples / expected, 1.0, 0.01);
  // What was under way when the pauses left lies on top, in the headroom.
  EXPECT_LT(queue / kSamples, expected * 1.01 + n * 40'000.0);
  EXPECT_EQ(all_drops(star.network), 0u);
}
INSTANTIATE_TEST_SUITE_P(Senders, StandingQueue, testing::Values(2, 4, 8, 16));

TEST(Headroom, TooLittleLosesWhatWasUnderWay) {
  // Until the pause takes effect two delays, the frame being sent and the pause itself pass.
  SwitchSettings settings = lossless_switch(0.125, 400'000);
  uint64_t needed = 2 * 12'500 + 2 * 1048 + 64;
  for (bool enough : {true, false}) {
    settings.port.groups[3].headroom_bytes = enough ? needed + 1048 : needed / 4;
    Star star(3, settings);
    for (uint32_t h : {0u, 1u}) star.host(h).send(2, 3000);
    star.network.run(5 * kMillisecond);
    EXPECT_EQ(all_drops(star.network) == 0, enough);
    uint64_t most = star.network.switch_at(0).buffer().most_headroom(0, 3);
    EXPECT_LE(most, needed + 1048);
    // Half of it leaves again at once: two share the port.
    if (enough) {
      EXPECT_GT(most, needed / 2 - 1048);
    }
    EXPECT_EQ(star.host(2).arrivals.size() + all_drops(star.network), 6000u);
    const PortCounters& counters = star.network.port(star.egress(0)).counters;
    EXPECT_EQ(counters.lossless_drops == 0, enough);
  }
}

TEST(Pause, StopsOnePriorityOnly) {
  Star star(3, lossless_switch(0.125, 400'000));
  for (uint32_t h : {0u, 1u}) star.host(h).send(2, 3000);
  star.network.run(100 * kMicrosecond);
  const Port& host = star.network.port(star.network.host_port(0));
  ASSERT_NE(host.counters.priority[3].rx_pause, 0u);
  star.host(0).send(1, 100, 1048, 1);
  star.network.run(kMillisecond);
  EXPECT_EQ(star.host(1).arrivals.size(), 100u);
  EXPECT_EQ(host.counters.priority[1].rx_pause, 0u);
}

TEST(Pause, EveryStopIsFollowedByALettingGo) {
  Star star(3, lossless_switch(0.125, 400'000));
  for (uint32_t h : {0u, 1u}) star.host(h).send(2, 3000);
  star.network.run(5 * kMillisecond);
  for (uint32_t h : {0u, 1u}) {
    const PriorityCounters& sent = star.network.port(star.egress(h)).counters.priority[3];
    const Port& host = star.network.port(star.network.host_port(h));
    EXPECT_GT(sent.tx_pause, 1u);
    EXPECT_GE(sent.tx_pause, sent.tx_resume);
    EXPECT_EQ(host.counters.priority[3].rx_pause, sent.tx_pause);
    EXPECT_EQ(host.counters.priority[3].rx_resume, sent.tx_resume);
    EXPECT_EQ(host.paused, 0);
    EXPECT_GT(host.counters.priority[3].paused, 0);
  }
}

// A host that stops its switch once and never again.
struct Stormy {
  explicit Stormy(Time interval, Time until, uint16_t quanta = 0xffff) {
    HostSettings host = Star::obeying();
    host.pfc.quanta = quanta;
    HostSettings storm = host;
    storm.storm_mask = 1 << 3;
    storm.storm_interval = interval;
    storm.storm_until = until;
    network = std::make_unique<Network>(1);
    network->add_host(host);
    network->add_host(storm);
    network->add_switch(lossless_switch());
    for (uint32_t h : {0u, 1u}) network->connect(h, 2, plain_link());
    network->finish();
    for (uint32_t h : {0u, 1u}) hosts.push_back(std::make_unique<test::Generator>(*network, h));
  }
  std::unique_ptr<Network> network;
  std::vector<std::unique_ptr<test::Generator>> hosts;
};

TEST(Pause, ExpiresByItsQuanta) {
  Stormy stormy(kSecond, kForever);  // one pause, at time 0
  stormy.network->run(10 * kMicrosecond);
  stormy.hosts[0]->send(1, 10);
  stormy.network->run(330 * kMicrosecond);
  EXPECT_TRUE(stormy.hosts[1]->arrivals.empty());
  stormy.network->run(kMillisecond);
  ASSERT_EQ(stormy.hosts[1]->arrivals.size(), 10u);
  // 65535 quanta of 512 bits at 100 Gb/s from its arrival, then one frame and the cable.
  Time pause_arrives = 64 * 80 + kMicrosecond;
  EXPECT_EQ(stormy.hosts[1]->arrivals[0].at,
            pause_arrives + Time{65535} * 512 * 10 + 83'840 + kMicrosecond);
  const Port& port = stormy.network->port(stormy.network->port(stormy.network->host_port(1)).peer);
  EXPECT_EQ(port.counters.priority[3].expired, 1u);
  EXPECT_EQ(port.counters.priority[3].paused, Time{65535} * 512 * 10);
}

TEST(Pause, AStormHoldsAsLongAsItLasts) {
  Stormy stormy(50 * kMicrosecond, 2 * kMillisecond);
  stormy.network->run(10 * kMicrosecond);
  stormy.hosts[0]->send(1, 10);
  stormy.network->run(2 * kMillisecond);
  EXPECT_TRUE(stormy.hosts[1]->arrivals.empty());
  stormy.network->run(3 * kMillisecond);
  EXPECT_EQ(stormy.hosts[1]->arrivals.size(), 10u);
}

TEST(Pause, ASwitchThatStaysFullRenewsIts) {
  // The receiver storms for 3 ms: the switch fills, stops the sender, and must say so again.
  Stormy stormy(50 * kMicrosecond, 3 * kMillisecond);
  stormy.hosts[0]->keep = false;
  stormy.hosts[0]->send(1, kEndlessCount);
  stormy.network->run(3 * kMillisecond);
  const Port& to_sender =
      stormy.network->port(stormy.network->port(stormy.network->host_port(0)).peer);
  EXPECT_GE(to_sender.counters.priority[3].tx_pause, 10u);  // each 167.8 us
  EXPECT_EQ(stormy.network->port(stormy.network->host_port(0)).counters.priority[3].expired, 0u);
  EXPECT_EQ(all_drops(*stormy.network), 0u);
}

TEST(Pause, ASlowReceiverStopsItsSwitchAndLosesNothing) {
  HostSettings slow = Star::obeying();
  slow.receive_bits_per_second = 10'000'000'000;
  slow.receive_buffer_bytes = 200'000;
  slow.receive_xoff_bytes = 100'000;
  slow.receive_xon_bytes = 50'000;
  slow.pfc.tx_mask = 1 << 3;
  Star star(2, lossless_switch(), plain_link(), 1, slow);
  star.host(0).send(1, 2000);
  star.network.run(3 * kMillisecond);
  EXPECT_EQ(star.host(1).arrivals.size(), 2000u);
  EXPECT_EQ(all_drops(star.network), 0u);
  EXPECT_GT(star.network.port(star.network.host_port(1)).counters.priority[3].tx_pause, 5u);
  EXPECT_GE(star.network.host_buffer_most(1), 100'000u);
  EXPECT_LE(star.network.host_buffer_most(1), 130'000u);
  // Ten gigabits a second of frames: 838.4 ns each.
  EXPECT_NEAR(static_cast<double>(star.host(1).arrivals.back().at), 2000 * 838'400.0, 5e6);
}

TEST(Pause, AHostThatDoesNotObeyIsDropped) {
  HostSettings deaf;
  Star star(3, lossless_switch(0.125, 400'000), plain_link(), 1, deaf);
  for (uint32_t h : {0u, 1u}) star.host(h).send(2, 3000);
  star.network.run(2 * kMillisecond);
  EXPECT_GT(all_drops(star.network), 1000u);
}

TEST(Pause, LateResponseNeedsMoreHeadroom) {
  HostSettings late = Star::obeying();
  late.pfc.response = 2 * kMicrosecond;
  SwitchSettings settings = lossless_switch(0.125, 400'000);
  uint64_t most[2];
  for (int i = 0; i < 2; ++i) {
    settings.port.groups[3].headroom_bytes = 60'000;
    Star star(3, settings, plain_link(), 1, i == 0 ? Star::obeying() : late);
    for (uint32_t h : {0u, 1u}) star.host(h).send(2, 3000);
    star.network.run(5 * kMillisecond);
    EXPECT_EQ(all_drops(star.network), 0u);
    most[i] = star.network.switch_at(0).buffer().most_headroom(0, 3);
  }
  // Two microseconds at line rate, half of which leaves again.
  EXPECT_NEAR(static_cast<double>(most[1] - most[0]), 12'500, 1'100);
}

// One quantum passes sooner than the frame that carries it: the pause is said again and again, but
// never twice at once.
TEST(Pause, QuantaOfNoLengthFillNothing) {
  HostSettings slow = Star::obeying();
  slow.receive_bits_per_second = 1'000'000'000;
  slow.receive_buffer_bytes = 200'000;
  slow.receive_xoff_bytes = 10'000;
  slow.receive_xon_bytes = 5'000;
  slow.pfc.tx_mask = 1 << 3;
  slow.pfc.quanta = 1;
  slow.pfc.refresh = 0.01;
  Star star(2, lossless_switch(), plain_link(), 1, slow);
  star.host(0).send(1, 100);
  star.network.run(100 * kMicrosecond);
  // 64 bytes at 100G are 5.12 ns; each is renewed after two quanta, 10.24 ns.
  EXPECT_LE(star.network.pause_frames(), 100'000u / 10);
  EXPECT_LE(star.network.packets_inside(), 200u);
}

TEST(Pause, ARefusedFrameStopsItsSenderToo) {
  SwitchSettings settings = lossless_switch();
  GroupSettings& group = settings.port.groups[3];
  group.headroom_bytes = 0;
  group.dynamic = false;
  group.static_bytes = 10'000;  // two frames stay below, the third would pass it
  Star star(3, settings);
  for (uint32_t h : {0u, 1u}) star.host(h).send(2, 100, 4200);
  star.network.run(kMillisecond);
  EXPECT_GT(star.network.port(star.egress(0)).counters.priority[3].tx_pause, 0u);
  EXPECT_GT(all_drops(star.network), 0u);
}

// IEEE 802.3x: everything on the link stops, and goes on when nothing holds it any more.
TEST(Pause, OfTheWholeLink) {
  SwitchSettings settings = lossless_switch(0.125, 400'000);
  settings.port.groups[4] = settings.port.groups[3];
  settings.port.link_pause = true;
  Star star(3, settings);
  for (uint32_t h : {0u, 1u}) {
    star.host(h).send(2, 2000, 1048, 3);
    star.host(h).send(2, 2000, 1048, 4);
  }
  const Port& host = star.network.port(star.network.host_port(0));
  for (Time t = 1; t <= 100 && host.paused == 0; ++t) star.network.run(t * kMicrosecond);
  EXPECT_EQ(host.paused, 0xff);
  star.network.run(10 * kMillisecond);
  EXPECT_EQ(star.host(2).arrivals.size(), 8000u);
  EXPECT_EQ(all_drops(star.network), 0u);
  for (uint32_t p = 0; p < kPriorities; ++p)
    EXPECT_EQ(host.counters.priority[p].rx_pause, host.counters.priority[3].rx_pause) << p;
  EXPECT_EQ(host.paused, 0);
}

TEST(Pause, ASlowReceiverSaysSoAgainAfterALinkFailed) {
  HostSettings slow = Star::obeying();
  slow.receive_bits_per_second = 1'000'000'000;
  slow.receive_buffer_bytes = 300'000;
  slow.receive_xoff_bytes = 100'000;
  slow.receive_xon_bytes = 1'000;
  slow.pfc.tx_mask = 1 << 3;
  Star star(2, lossless_switch(), plain_link(), 1, slow);
  star.host(0).send(1, 3000);
  star.network.run(100 * kMicrosecond);
  star.network.set_link(star.network.host_port(1), false);
  star.network.run(110 * kMicrosecond);
  star.network.set_link(star.network.host_port(1), true);
  star.network.run(3 * kMillisecond);
  EXPECT_EQ(star.network.port(star.network.host_port(1))
                .counters.drops[static_cast<size_t>(DropCause::kHostBuffer)],
            0u);
}

}  // namespace
}  // namespace verbena::fabric
