// Captures hold real frames, in both directions and at their times; the trace says the same in
// words.
#include "sim/watchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "wire/frame.h"
#include "wire/packet.h"

namespace verbena::sim {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// 3000 bytes in packets of 1024 from h0 to h1 at 100 Gb/s, each link a microsecond.
constexpr std::string_view kThreePackets = R"(
[topology]
kind = "star"
hosts = 2
rate = "100G"
delay = "1us"
[host]
congestion = "none"
[[flow]]
from = 0
to = 1
bytes = "3000B"
)";

scenario::Scenario parsed(std::string_view text) {
  auto scenario = scenario::parse_scenario("x.toml", text, {});
  EXPECT_TRUE(scenario) << scenario.error().message;
  return scenario ? *scenario : scenario::Scenario{};
}

struct Record {
  uint64_t time = 0;  // ps
  bool outbound = false;
  std::vector<uint8_t> frame;
};

// The enhanced packet blocks of a file.
std::vector<Record> records(const std::vector<uint8_t>& file) {
  std::vector<Record> out;
  auto word = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, file.data() + at, 4);
    return value;
  };
  for (size_t at = 0; at < file.size(); at += word(at + 4)) {
    if (word(at) != 6) continue;
    Record record;
    record.time = uint64_t{word(at + 12)} << 32 | word(at + 16);
    const uint32_t bytes = word(at + 20);
    record.frame.assign(file.begin() + static_cast<ptrdiff_t>(at) + 28,
                        file.begin() + static_cast<ptrdiff_t>(at) + 28 + bytes);
    record.outbound = word(at + 28 + (bytes + 3) / 4 * 4 + 4) == 2;
    out.push_back(std::move(record));
  }
  return out;
}

std::vector<Record> captured(Experiment& experiment, std::string_view port) {
  std::vector<uint8_t> file;
  auto id = find_port(experiment, port);
  EXPECT_TRUE(id) << id.error().message;
  Capture capture(experiment, *id, [&](std::span<const uint8_t> bytes) {
    file.insert(file.end(), bytes.begin(), bytes.end());
  });
  Watchers watchers;
  watchers.add(capture);
  experiment.network().observe(&watchers);
  EXPECT_TRUE(experiment.run());
  experiment.network().observe(nullptr);
  std::vector<Record> out = records(file);
  EXPECT_EQ(out.size(), capture.frames());
  return out;
}

TEST(Capture, WholeFramesWithTheRightChecksumAtTheirTimes) {
  Experiment experiment(parsed(kThreePackets));
  const std::vector<Record> seen = captured(experiment, "h0");
  ASSERT_GE(seen.size(), 4u);
  const uint32_t payloads[] = {1024, 1024, 952};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(seen[i].outbound);
    auto frame = wire::parse_ethernet(seen[i].frame);
    ASSERT_TRUE(frame);
    EXPECT_EQ(wire::icrc_of(*frame), wire::icrc_carried(*frame));
    EXPECT_EQ(frame->ip4.tos, 26 << 2 | 2);
    EXPECT_EQ(frame->ip4.ttl, 64);
    EXPECT_EQ(frame->ip4.destination[3], 2);
    const wire::Parsed packet = wire::parse(frame->udp_payload);
    ASSERT_EQ(packet.error, wire::ParseError::kNone);
    EXPECT_EQ(packet.payload.size(), payloads[i]);
    for (uint8_t byte : packet.payload) ASSERT_EQ(byte, 0);  // the run carries lengths only
    EXPECT_EQ(packet.packet.psn.value(), i);
  }
  // First bits: at 0; then each after the frame before it: the second's is 16 bytes shorter, as it
  // has no RETH. (1102 and 1086 bytes with FCS, and 20 of gap, at 80 ps a byte.)
  EXPECT_EQ(seen[0].time, 0u);
  EXPECT_EQ(seen[1].time, 1122u * 80);
  EXPECT_EQ(seen[2].time, (1122u + 1106) * 80);
  // The acknowledgement comes back the same way.
  const Record& last = seen.back();
  EXPECT_FALSE(last.outbound);
  auto frame = wire::parse_ethernet(last.frame);
  ASSERT_TRUE(frame);
  EXPECT_EQ(wire::icrc_of(*frame), wire::icrc_carried(*frame));
  EXPECT_EQ(wire::parse(frame->udp_payload).packet.opcode, wire::Opcode::kRcAcknowledge);
  EXPECT_GT(last.time, 4'000'000u);
}

std::vector<uint8_t> end_of(const Record& record, size_t bytes) {
  return {record.frame.end() - static_cast<ptrdiff_t>(bytes), record.frame.end()};
}

scenario::Scenario with_hpcc(std::string_view more = "") {
  std::string text(kThreePackets);
  text.replace(text.find("none"), 4, "hpcc");
  return parsed(text.append(more));
}

// The first frame leaves h0 with 2 bytes more (1104 and 20 of gap, 80 ps each), is at the switch a
// microsecond later, at 1089.92 ns, and leaves it with 8 more: port 3, an empty queue, nothing
// sent.
TEST(Capture, TelemetryTakesItsBytesOnTheLink) {
  Experiment experiment(with_hpcc());
  const std::vector<Record> seen = captured(experiment, "s0:1");
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen[0].time, 1'089'920u);
  EXPECT_EQ(seen[1].time, 1'089'920u + (1112 + 20) * 80) << "longer than it came in";
  EXPECT_EQ(seen[0].frame.size(), 1112u - 4);
  EXPECT_THAT(end_of(seen[0], 10),
              ElementsAre(0x10, 0x03, 0x50, 0x00, 0x44, 0x10, 0x00, 0x00, 0x00, 0x00));
  // The second: at 1180 ns, after 1112 bytes: 8 units of 128.
  EXPECT_THAT(end_of(seen[1], 10),
              ElementsAre(0x10, 0x03, 0x50, 0x00, 0x49, 0xc0, 0x00, 0x08, 0x00, 0x00));
  auto frame = wire::parse_ethernet(seen[0].frame);
  ASSERT_TRUE(frame);
  EXPECT_EQ(wire::icrc_of(*frame), wire::icrc_carried(*frame));
  EXPECT_EQ(wire::parse(frame->udp_payload).payload.size(), 1024u);
  EXPECT_EQ(frame->ip4.tos, 26 << 2) << "nobody hears marks";
}

TEST(Capture, AcknowledgementsBringTelemetryBack) {
  Experiment experiment(with_hpcc());
  const Record first_answer = [&] {
    for (Record& record : captured(experiment, "h0"))
      if (!record.outbound) return record;
    return Record{};
  }();
  auto frame = wire::parse_ethernet(first_answer.frame);
  ASSERT_TRUE(frame);
  EXPECT_EQ(wire::parse(frame->udp_payload).packet.opcode, wire::Opcode::kRcAcknowledge);
  EXPECT_EQ(first_answer.frame.size(), 62u + 10);
  EXPECT_THAT(end_of(first_answer, 10),
              ElementsAre(0x10, 0x03, 0x50, 0x00, 0x44, 0x10, 0x00, 0x00, 0x00, 0x00));
}

TEST(Capture, ASwitchWithoutTelemetryAddsNone) {
  Experiment experiment(with_hpcc("[switch]\ntelemetry = false\n"));
  const std::vector<Record> seen = captured(experiment, "s0:1");
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen[0].frame.size(), 1104u - 4);
  EXPECT_THAT(end_of(seen[0], 2), ElementsAre(0, 0));
}

// Two senders into one port whose group stops at once: the switch's frames are PFC.
constexpr std::string_view kPaused = R"(
[scenario]
duration = "200us"
[topology]
kind = "star"
hosts = 3
[host]
congestion = "none"
[switch.group.3]
static = "20KB"
[[workload]]
kind = "incast"
from = "0-1"
to = 2
)";

TEST(Capture, PauseFramesOfTheSwitch) {
  Experiment experiment(parsed(kPaused));
  size_t stops = 0, lets_go = 0;
  for (const Record& record : captured(experiment, "s0:1")) {
    if (record.frame[12] != 0x88 || record.frame[13] != 0x08) continue;
    EXPECT_TRUE(record.outbound);
    ASSERT_EQ(record.frame.size(), 60u);
    EXPECT_EQ(record.frame[6], 0x02);  // a switch's own address:
    EXPECT_EQ(record.frame[9], 3);     // node 3,
    EXPECT_EQ(record.frame[11], 1);    // port 1
    EXPECT_EQ(record.frame[17], 1 << 3);
    const uint32_t quanta = record.frame[24] * 256u + record.frame[25];
    ++(quanta == 0 ? lets_go : stops);
  }
  const fabric::Port& port = experiment.network().port(*find_port(experiment, "s0:1"));
  EXPECT_GT(stops, 0u);
  EXPECT_EQ(stops, port.counters.priority[3].tx_pause);
  EXPECT_EQ(lets_go, port.counters.priority[3].tx_resume);
}

TEST(TraceText, ALineForEachFrameAtEachEnd) {
  Experiment experiment(parsed(kThreePackets));
  std::vector<std::string> lines;
  TraceText trace(experiment, [&](std::string_view line) { lines.emplace_back(line); });
  experiment.network().observe(&trace);
  EXPECT_TRUE(experiment.run());
  experiment.network().observe(nullptr);
  ASSERT_GE(lines.size(), 8u);
  EXPECT_THAT(lines[0], StartsWith("0.000 h0:0 -> s0 sent RC_WRITE_FIRST qp "));
  EXPECT_THAT(lines[0], HasSubstr(" psn 0 bytes 1024 10.0.0.1 > 10.0.0.2 "));
  EXPECT_THAT(lines[0], EndsWith(" frame 1102 dscp 26 ECT(0) ttl 64\n"));
  EXPECT_THAT(lines[1], StartsWith("89.760 h0:0 -> s0 sent RC_WRITE_MIDDLE "));
  size_t sent = 0, received = 0;
  for (const std::string& line : lines) {
    sent += line.find(" sent ") != std::string::npos;
    received += line.find(" received ") != std::string::npos;
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(sent, experiment.network().packet_hops());
}

TEST(FindPort, ByNameAndNumber) {
  Experiment experiment(parsed(kThreePackets));
  EXPECT_EQ(*find_port(experiment, "h1"), experiment.network().host_port(1));
  EXPECT_EQ(*find_port(experiment, "h1:0"), experiment.network().host_port(1));
  EXPECT_EQ(*find_port(experiment, "s0:1"), experiment.network().port_of(2, 1));
  EXPECT_EQ(find_port(experiment, "s1:0").error().message,
            "no node is called s1; there are h0 to s0");
  for (const char* wrong : {"s0", "s0:2", "s0:", "s0:1x", "s0:-1"})
    EXPECT_EQ(find_port(experiment, wrong).error().message,
              std::string(wrong) + " is no port; s0 has s0:0 to s0:1");
}

}  // namespace
}  // namespace verbena::sim
