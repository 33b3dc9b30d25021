// The lenses over a sink that remembers: what a seed does, and what a capture holds.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include "link/lens_stack.h"
#include "wire/frame.h"
#include "wire/pcap.h"

namespace verbena::link {
namespace {

using engine::TxPacket;
using wire::Opcode;

struct Memory : engine::PacketSink {
  std::vector<uint32_t> psns;
  std::vector<std::vector<uint8_t>> payloads;
  bool full = false;
  bool send(const TxPacket& packet) override {
    if (full) return false;
    psns.push_back(packet.header.psn.value());
    payloads.emplace_back(packet.payload.length);
    packet.payload.copy_out(0, payloads.back().data(), packet.payload.length);
    return true;
  }
};

struct Offer {
  engine::AddressVector route;
  std::vector<uint8_t> bytes;
  memory::Segment segment{};
  TxPacket packet;
  explicit Offer(uint32_t psn, size_t length = 16) : bytes(length, static_cast<uint8_t>(psn)) {
    route.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    route.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
    segment = {bytes.data(), bytes.size()};
    packet.header.opcode = Opcode::kRcSendOnly;
    packet.header.dest_qpn = 0x020011;
    packet.header.psn = Psn(psn);
    packet.header.pad_count = static_cast<uint8_t>(-length & 3);
    packet.route = &route;
    packet.payload = {{&segment, 1}, static_cast<uint32_t>(length), nullptr};
    packet.by_reference = true;
  }
};

TEST(FaultPlan, ReadsEveryPart) {
  auto plan = parse_fault_plan("drop=1%,dup=0.5%,reorder=100ppm,corrupt=0.25,delay=50us,seed=0x7");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->drop_ppm, 10'000u);
  EXPECT_EQ(plan->duplicate_ppm, 5'000u);
  EXPECT_EQ(plan->reorder_ppm, 100u);
  EXPECT_EQ(plan->corrupt_ppm, 250'000u);
  EXPECT_EQ(plan->delay, microseconds(50));
  EXPECT_EQ(plan->seed, 7u);
  EXPECT_EQ(parse_fault_plan("")->drop_ppm, 0u);
  EXPECT_EQ(parse_fault_plan("drop=0")->drop_ppm, 0u);
  EXPECT_EQ(parse_fault_plan("drop=12.345%")->drop_ppm, 123'450u);
  EXPECT_EQ(parse_fault_plan("delay=1.5ms")->delay, microseconds(1500));
  EXPECT_EQ(parse_fault_plan("drop=1.0")->drop_ppm, 1'000'000u);
}

TEST(FaultPlan, NamesThePartThatIsWrong) {
  for (const char* text :
       {"drop", "drop=", "drop=2x", "drop=101%", "drop=-1%", "loss=1%", "delay=5", "delay=1e9s",
        "delay=11s", "delay=s", "seed=", "seed=1,dorp=1%", "drop=nan", "drop=1", "drop=200",
        "drop=.5", "drop=0.1.0", "drop=-0.1"}) {
    auto plan = parse_fault_plan(text);
    ASSERT_FALSE(plan) << text;
    EXPECT_EQ(plan.error().code, EINVAL);
  }
  EXPECT_NE(parse_fault_plan("seed=1,dorp=1%").error().message.find("\"dorp=1%\""),
            std::string::npos);
  EXPECT_NE(parse_fault_plan("drop=200").error().message.find("0% to 100%"), std::string::npos);
}

std::vector<uint32_t> run(const char* text, uint32_t count, FaultCounters* counters = nullptr) {
  Memory below;
  FaultLens lens(below, *parse_fault_plan(text));
  for (uint32_t psn = 0; psn < count; ++psn) {
    Offer offer(psn);
    EXPECT_TRUE(lens.send(offer.packet));
  }
  lens.on_time(Instant{} + seconds(1));
  EXPECT_EQ(lens.next_deadline(), kNever);
  if (counters) *counters = lens.counters();
  return below.psns;
}

TEST(FaultLens, OneSeedOneHistory) {
  const char* plan = "drop=5%,dup=5%,reorder=5%,corrupt=5%,seed=9";
  EXPECT_EQ(run(plan, 2000), run(plan, 2000));
  EXPECT_NE(run(plan, 2000), run("drop=5%,dup=5%,reorder=5%,corrupt=5%,seed=10", 2000));
}

TEST(FaultLens, EveryPacketIsAccountedFor) {
  FaultCounters c;
  std::vector<uint32_t> seen = run("drop=10%,dup=10%,reorder=10%,corrupt=10%,seed=3", 10'000, &c);
  EXPECT_EQ(c.offered, 10'000u);
  EXPECT_EQ(seen.size(), c.offered - c.dropped - c.corrupted + c.duplicated);
  EXPECT_NEAR(c.dropped, 1000, 150);
  EXPECT_NEAR(c.duplicated, 729, 150);
  std::map<uint32_t, int> times;
  for (uint32_t psn : seen) ++times[psn];
  EXPECT_EQ(times.size(), c.offered - c.dropped - c.corrupted);
}

// The sender's memory is gone when the lens wants to keep it: a loss, never zeros.
TEST(FaultLens, PayloadThatVanishedIsLost) {
  struct Gone : memory::ForeignMemory {
    bool copy_out(std::span<const memory::Segment>, size_t, uint8_t*, size_t) override {
      return false;
    }
  } gone;
  for (const char* plan : {"delay=50us", "reorder=100%"}) {
    Memory below;
    FaultLens lens(below, *parse_fault_plan(plan));
    Offer offer(7);
    offer.packet.payload.foreign = &gone;
    EXPECT_TRUE(lens.send(offer.packet));
    lens.on_time(Instant{} + seconds(1));
    EXPECT_TRUE(below.psns.empty()) << plan;
    EXPECT_EQ(lens.counters().offered, 1u);
    EXPECT_EQ(lens.counters().dropped, 1u);
    EXPECT_EQ(lens.counters().delayed + lens.counters().reordered, 0u);
  }
}

TEST(FaultLens, ReorderedPacketsComeALittleLater) {
  std::vector<uint32_t> seen = run("reorder=20%,seed=4", 5000);
  ASSERT_EQ(seen.size(), 5000u);
  uint32_t late = 0;
  int32_t worst = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    int32_t by = static_cast<int32_t>(i) - static_cast<int32_t>(seen[i]);
    late += by > 0;
    worst = std::max(worst, by);
  }
  EXPECT_GT(late, 300u);
  EXPECT_LT(worst, 40);
}

TEST(FaultLens, DelayKeepsOrderAndACopyOfTheBytes) {
  Memory below;
  FaultLens lens(below, *parse_fault_plan("delay=10us"));
  Instant now{};
  lens.on_time(now);
  for (uint32_t psn = 1; psn <= 3; ++psn) {
    Offer offer(psn, 100);
    ASSERT_TRUE(lens.send(offer.packet));  // offer's bytes die here
    now = now + microseconds(1);
    lens.on_time(now);
  }
  EXPECT_TRUE(below.psns.empty());
  EXPECT_EQ(lens.next_deadline(), Instant{} + microseconds(10));
  lens.on_time(Instant{} + microseconds(11));
  EXPECT_EQ(below.psns, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(below.payloads[1], std::vector<uint8_t>(100, 2));
  lens.on_time(Instant{} + microseconds(12));
  EXPECT_EQ(below.psns, (std::vector<uint32_t>{1, 2, 3}));
}

TEST(FaultLens, AFullRoadIsPassedOnAndCostsNoRandomness) {
  Memory below;
  FaultLens lens(below, *parse_fault_plan("drop=50%,seed=5"));
  std::vector<uint32_t> straight = run("drop=50%,seed=5", 100);
  for (uint32_t psn = 0; psn < 100; ++psn) {
    Offer offer(psn);
    below.full = true;
    for (int again = 0; again < 3; ++again) {
      if (lens.send(offer.packet)) goto dropped;
    }
    below.full = false;
    ASSERT_TRUE(lens.send(offer.packet));
  dropped:;
  }
  EXPECT_EQ(below.psns, straight);
}

TEST(FaultLens, CorruptionSpoilsOnTheWireAndDropsElsewhere) {
  Memory below;
  int spoiled = 0;
  FaultLens lens(below, *parse_fault_plan("corrupt=100%"), [&] { ++spoiled; });
  Offer wire(1), local(2);
  local.packet.path = engine::Path::kLocal;
  ASSERT_TRUE(lens.send(wire.packet));
  ASSERT_TRUE(lens.send(local.packet));
  EXPECT_EQ(spoiled, 1);
  EXPECT_EQ(below.psns, std::vector<uint32_t>{1});
}

class PcapLensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/verbena-pcap-XXXXXX";
    int fd = ::mkstemp(name);
    ASSERT_GE(fd, 0);
    ::close(fd);
    path_ = name;
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  std::vector<uint8_t> contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path_;
};

TEST_F(PcapLensTest, FramesCarryTheRightIcrcInBothDirections) {
  Memory below;
  for (int process = 0; process < 2; ++process) {  // the second one continues the file
    auto writer = PcapWriter::open(path_);
    ASSERT_TRUE(writer) << writer.error().message;
    PcapLens lens(below, *writer);
    for (uint32_t length : {0u, 1u, 64u, 4096u, 100'000u}) {
      Offer offer(length, length);
      offer.route.traffic_class = 0x62;
      ASSERT_TRUE(lens.send(offer.packet));
      engine::RxPacket in;
      in.header = offer.packet.header;
      in.payload = offer.packet.payload;
      inet_pton(AF_INET6, "fd00::1", in.source.bytes.data());
      inet_pton(AF_INET6, "fd00::2", in.destination.bytes.data());
      lens.received(in);
    }
    EXPECT_EQ(writer->frames(), 10u);
  }
  std::vector<uint8_t> file = contents();
  wire::PcapReader reader(file);
  ASSERT_TRUE(reader.valid());
  int frames = 0;
  while (auto record = reader.next()) {
    auto frame = wire::parse_ethernet(record->data);
    ASSERT_TRUE(frame) << frames;
    EXPECT_EQ(frame->ipv6, frames % 2 == 1);
    EXPECT_EQ(wire::icrc_of(*frame), wire::icrc_carried(*frame));
    auto parsed = wire::parse(frame->udp_payload);
    ASSERT_EQ(parsed.error, wire::ParseError::kNone);
    EXPECT_EQ(parsed.payload.size(), std::min<size_t>(parsed.packet.psn.value(), 4096));
    ++frames;
  }
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(frames, 20);
}

TEST_F(PcapLensTest, TsharkReadsIt) {
  if (std::system("command -v tshark >/dev/null 2>&1") != 0) GTEST_SKIP() << "tshark not here";
  Memory below;
  {
    auto writer = PcapWriter::open(path_);
    ASSERT_TRUE(writer);
    PcapLens lens(below, *writer);
    Offer offer(12345, 64);
    ASSERT_TRUE(lens.send(offer.packet));
  }
  std::string command = "tshark -r " + path_ +
                        " -T fields -e infiniband.bth.opcode -e infiniband.bth.destqp "
                        "-e infiniband.bth.psn -e ip.dst 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  char line[200] = "";
  ASSERT_NE(std::fgets(line, sizeof(line), pipe), nullptr);
  ::pclose(pipe);
  EXPECT_STREQ(line, "4\t0x020011\t12345\t10.0.0.2\n");
}

TEST(TraceLens, SaysWhatAPacketIs) {
  Memory below;
  std::vector<std::string> lines;
  TraceLens lens(below, [&](std::string_view line) { lines.emplace_back(line); });
  Offer offer(5, 64);
  offer.packet.header.opcode = Opcode::kRcWriteOnly;
  offer.packet.header.reth = {0x7f00, 0x1234, 64};
  offer.packet.header.ack_request = true;
  offer.packet.path = engine::Path::kLocal;
  ASSERT_TRUE(lens.send(offer.packet));
  below.full = true;
  EXPECT_FALSE(lens.send(offer.packet));
  EXPECT_EQ(lines, std::vector<std::string>{
                       "tx RC_WRITE_ONLY qp 0x020011 psn 5 bytes 64 10.0.0.1 > 10.0.0.2 local ack "
                       "at 0x7f00 rkey 0x1234 of 64"});
  engine::RxPacket in;
  in.header.opcode = Opcode::kRcAcknowledge;
  in.header.aeth = {0x60, 7};
  in.source = offer.route.destination;
  in.destination = offer.route.source;
  lens.received(in);
  EXPECT_EQ(lines.back(),
            "rx RC_ACKNOWLEDGE qp 0x000000 psn 0 bytes 0 10.0.0.2 > 10.0.0.1 wire syndrome 0x60 "
            "msn 7");
}

TEST(LensStack, IsOnlyThereWhenAskedFor) {
  Memory below;
  auto none = LensStack::open(below, {});
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  auto wrong = LensStack::open(below, {.fault = "drop=never"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, EINVAL);
  auto nowhere = LensStack::open(below, {.pcap = "/nonexistent/file.pcap"});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ENOENT);
}

TEST(LensStack, TracesWhatTheProgramSentAndDropsAfterwards) {
  Memory below;
  std::vector<std::string> lines;
  auto stack = LensStack::open(below, {.fault = "drop=100%", .trace = [&](std::string_view line) {
                                         lines.emplace_back(line);
                                       }});
  ASSERT_TRUE(stack);
  Offer offer(1);
  EXPECT_TRUE((*stack)->top().send(offer.packet));
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_TRUE(below.psns.empty());
  EXPECT_EQ((*stack)->fault()->counters().dropped, 1u);
  (*stack)->on_time(Instant{} + seconds(1));
  EXPECT_EQ((*stack)->next_deadline(), kNever);
}

}  // namespace
}  // namespace verbena::link
