// A scenario's text becomes exactly these settings.
#include <gtest/gtest.h>

#include "scenario/scenario.h"

#include "parsed.h"

namespace verbena::scenario {
namespace {

using fabric::kMicrosecond;
using fabric::kMillisecond;

constexpr std::string_view kTwo = R"(
[scenario]
duration = "1ms"
[[flow]]
from = 0
to = 1
)";

TEST(Read, TheShortestScenario) {
  const Scenario s = parsed(kTwo);
  EXPECT_EQ(s.name, "x");
  EXPECT_EQ(s.seed, 1u);
  EXPECT_EQ(s.duration, kMillisecond);
  EXPECT_EQ(s.topology.hosts, 2u);
  ASSERT_EQ(s.switches.size(), 1u);
  ASSERT_EQ(s.hosts.size(), 2u);
  ASSERT_EQ(s.flows.size(), 1u);
  EXPECT_EQ(s.flows[0].bytes, kEndless);
  EXPECT_EQ(s.flows[0].group, "flows");
  EXPECT_EQ(s.lines.at("scenario.duration"), 3);
  EXPECT_EQ(s.lines.at("flow.0.from"), 5);
}

// An empty [switch] is what `nv set qos roce` makes: DSCP 26 lossless in queue 3 with headroom for
// the link, ECN from 150 KB to 1500 KB, CNPs strict.
TEST(Read, TheUsualSwitch) {
  const fabric::SwitchSettings s = parsed(kTwo).switches[0];
  const fabric::PortSettings& p = s.port;
  EXPECT_EQ(s.buffer_bytes, 32u << 20);
  EXPECT_TRUE(s.ports.empty());
  EXPECT_EQ(p.trust, fabric::Trust::kBoth);
  EXPECT_EQ(p.dscp_to_priority[26], 3);
  EXPECT_EQ(p.dscp_to_priority[48], 6);
  EXPECT_EQ(p.priority_to_queue, (std::array<uint8_t, 8>{0, 0, 0, 3, 0, 0, 6, 0}));
  EXPECT_EQ(p.pfc.tx_mask, 1 << 3);
  EXPECT_EQ(p.pfc.rx_mask, 1 << 3);
  EXPECT_TRUE(p.groups[3].lossless);
  EXPECT_FALSE(p.groups[0].lossless);
  // (301 + 2.16 * 200 m) * 100 + 2.72 * 9216
  EXPECT_EQ(p.groups[3].headroom_bytes, 98'368u);
  EXPECT_EQ(p.groups[0].headroom_bytes, 0u);
  EXPECT_EQ(p.groups[3].alpha, 0.125);
  EXPECT_EQ(p.groups[3].xon_offset_bytes, 2'000u);
  EXPECT_TRUE(p.queues[3].ecn.mark);
  EXPECT_TRUE(p.queues[0].ecn.mark);
  EXPECT_FALSE(p.queues[6].ecn.mark);
  EXPECT_EQ(p.queues[3].ecn.min_bytes, 150'000u);
  EXPECT_EQ(p.queues[3].ecn.max_bytes, 1'500'000u);
  EXPECT_EQ(p.queues[3].alpha, 0);
  EXPECT_EQ(p.queues[0].alpha, 1);
  EXPECT_TRUE(p.queues[6].strict);
  EXPECT_EQ(p.queues[3].weight, 50u);
}

TEST(Read, Overrides) {
  const Scenario s = parsed(kTwo, {{"scenario.duration", "2ms"},
                                   {"switch.ecn.min", "100KB"},
                                   {"flow.0.bytes", "1MB"},
                                   {"switch.pfc.priorities", "[3, 4]"},
                                   {"host.congestion", "none"}});
  EXPECT_EQ(s.duration, 2 * kMillisecond);
  EXPECT_EQ(s.switches[0].port.queues[3].ecn.min_bytes, 100'000u);
  EXPECT_EQ(s.flows[0].bytes, 1'000'000u);
  EXPECT_EQ(s.switches[0].port.pfc.tx_mask, 0x18);
  EXPECT_EQ(s.hosts[0].adapter.congestion.algorithm, engine::CongestionSettings::kNone);
  EXPECT_EQ(s.lines.at("switch.ecn.min"), 0);
}

}  // namespace
}  // namespace verbena::scenario
