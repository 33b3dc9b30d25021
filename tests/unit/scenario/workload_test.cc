// Flows of every kind of workload: who, to whom, how much, after what; and distributions that give
// the same numbers everywhere.
#include "scenario/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "scenario/topology.h"

namespace verbena::scenario {
namespace {

Topology star(uint32_t hosts) {
  return *build_topology({.kind = "star", .hosts = hosts});
}

std::vector<uint32_t> first_hosts(uint32_t count) {
  std::vector<uint32_t> hosts(count);
  for (uint32_t h = 0; h < count; ++h) hosts[h] = h;
  return hosts;
}

std::vector<Flow> made(const Workload& workload, uint32_t hosts = 8) {
  Prng prng(5);
  std::vector<Flow> flows;
  auto added = add_workload(workload, star(hosts), prng, flows);
  EXPECT_TRUE(added) << added.error().message;
  for (size_t i = 0; i < flows.size(); ++i)
    for (uint32_t before : flows[i].after) EXPECT_LT(before, i);
  return flows;
}

// "0>1" of each flow.
std::vector<std::string> pairs(const std::vector<Flow>& flows) {
  std::vector<std::string> out;
  for (const Flow& flow : flows)
    out.push_back(std::to_string(flow.source) + ">" + std::to_string(flow.destination));
  return out;
}

using Pairs = std::vector<std::string>;

TEST(Workload, Long) {
  EXPECT_EQ(pairs(made({.kind = Workload::kLong, .from = {0, 1, 2}, .to = {2}})),
            (Pairs{"0>2", "1>2"}));
  const auto flows = made({.kind = Workload::kLong, .name = "x", .from = {0, 1}, .to = {3, 4}});
  EXPECT_EQ(pairs(flows), (Pairs{"0>3", "1>4"}));
  EXPECT_EQ(flows[0].bytes, kEndless);
  EXPECT_EQ(flows[0].group, "x");
}

TEST(Workload, Incast) {
  Workload w{.kind = Workload::kIncast,
             .from = {0, 1, 2},
             .to = {1},
             .bytes = 1000,
             .start = 7,
             .rounds = 2};
  auto flows = made(w);
  EXPECT_EQ(pairs(flows), (Pairs{"0>1", "2>1", "0>1", "2>1"}));
  EXPECT_EQ(flows[1].start, 7);
  EXPECT_EQ(flows[3].after, std::vector<uint32_t>{1});
  EXPECT_EQ(flows[3].start, 0);
  w.interval = 100;
  flows = made(w);
  EXPECT_TRUE(flows[3].after.empty());
  EXPECT_EQ(flows[3].start, 107);
}

TEST(Workload, PermutationIsOneOfAll) {
  const auto flows = made({.kind = Workload::kPermutation, .from = first_hosts(8)});
  std::set<uint32_t> receivers;
  for (const Flow& flow : flows) {
    EXPECT_NE(flow.source, flow.destination);
    receivers.insert(flow.destination);
  }
  EXPECT_EQ(receivers.size(), 8u);
}

TEST(Workload, Shift) {
  EXPECT_EQ(pairs(made({.kind = Workload::kShift, .from = {0, 1, 2}, .step = 2})),
            (Pairs{"0>2", "1>0", "2>1"}));
}

// Three ranks, 10 bytes: four steps of 4 bytes, each after the left neighbour's last.
TEST(Workload, RingAllreduce) {
  const auto flows =
      made({.kind = Workload::kRingAllreduce, .from = {4, 5, 6}, .bytes = 10, .start = 9});
  ASSERT_EQ(flows.size(), 12u);
  EXPECT_EQ(pairs({flows.begin(), flows.begin() + 3}), (Pairs{"4>5", "5>6", "6>4"}));
  EXPECT_EQ(flows[0].bytes, 4u);
  EXPECT_EQ(flows[0].start, 9);
  EXPECT_TRUE(flows[2].after.empty());
  EXPECT_EQ(flows[3].after, std::vector<uint32_t>{2});
  EXPECT_EQ(flows[4].after, std::vector<uint32_t>{0});
  EXPECT_EQ(flows[11].after, std::vector<uint32_t>{7});
}

// Four ranks: 3 hangs under 1. The root's sends wait for both of its children.
TEST(Workload, TreeAllreduce) {
  const auto flows =
      made({.kind = Workload::kTreeAllreduce, .from = first_hosts(4), .bytes = 10, .rounds = 2});
  ASSERT_EQ(flows.size(), 12u);
  EXPECT_EQ(pairs({flows.begin(), flows.begin() + 6}),
            (Pairs{"3>1", "2>0", "1>0", "0>1", "0>2", "1>3"}));
  EXPECT_TRUE(flows[0].after.empty());
  EXPECT_EQ(flows[2].after, std::vector<uint32_t>{0});
  EXPECT_EQ(flows[3].after, (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(flows[5].after, std::vector<uint32_t>{3});
  EXPECT_EQ(flows[6].after, std::vector<uint32_t>{5});  // rank 3 begins again when it has the sum
  EXPECT_EQ(flows[7].after, std::vector<uint32_t>{4});
}

TEST(Workload, AllToAll) {
  Workload w{.kind = Workload::kAllToAll, .from = first_hosts(4), .bytes = 10};
  auto flows = made(w);
  EXPECT_EQ(flows.size(), 12u);
  const auto all = pairs(flows);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 12u);
  for (const Flow& flow : flows) EXPECT_TRUE(flow.after.empty());
  w.parallel = 1;
  flows = made(w);
  EXPECT_EQ(flows[4].after, std::vector<uint32_t>{0});
  EXPECT_EQ(flows[11].after, std::vector<uint32_t>{7});
}

TEST(Workload, StorageRead) {
  const auto flows = made({.kind = Workload::kStorageRead,
                           .from = {0, 1},
                           .to = {1, 6, 7},
                           .bytes = 4096,
                           .requests = 5,
                           .depth = 2});
  ASSERT_EQ(flows.size(), 10u);
  for (const Flow& flow : flows) {
    EXPECT_EQ(flow.verb, Verb::kRead);
    EXPECT_NE(flow.source, flow.destination);
  }
  EXPECT_TRUE(flows[1].after.empty());
  EXPECT_EQ(flows[2].after, std::vector<uint32_t>{0});
  EXPECT_TRUE(flows[6].after.empty());
  EXPECT_EQ(flows[9].after, std::vector<uint32_t>{7});
}

// 30 % of 8 links of 100G for 400 ms are 12 GB in about 7000 flows, whose sizes vary by twice their
// mean: 2.6 % is one standard deviation.
TEST(Workload, PoissonOffersItsLoad) {
  Workload w{.kind = Workload::kPoisson,
             .from = first_hosts(8),
             .until = 400 * fabric::kMillisecond,
             .load_ppm = 300'000,
             .cdf = *SizeCdf::named("WebSearch")};
  const auto flows = made(w);
  double bytes = 0;
  Time last = 0;
  for (const Flow& flow : flows) {
    bytes += static_cast<double>(flow.bytes);
    EXPECT_GE(flow.start, last);
    EXPECT_LT(flow.start, w.until);
    last = flow.start;
  }
  EXPECT_NEAR(bytes, 12e9, 0.6e9);
  const auto again = made(w);
  ASSERT_EQ(again.size(), flows.size());
  EXPECT_EQ(again.back().start, flows.back().start);
}

TEST(Workload, TooMany) {
  Prng prng(1);
  std::vector<Flow> flows;
  const Workload w{.kind = Workload::kAllToAll, .from = first_hosts(2000), .bytes = 1, .rounds = 2};
  const auto added = add_workload(w, star(2000), prng, flows);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message, "7996000 flows; 2000000 in all are the most");
}

TEST(Distribution, Means) {
  // By hand: the sum of (x1 + x0) / 2 * (y1 - y0).
  EXPECT_DOUBLE_EQ(SizeCdf::named("WebSearch")->mean(), 1'711'250.0);
  EXPECT_NEAR(SizeCdf::named("FbHdp")->mean(), 120'420.75, 0.01);
  EXPECT_NEAR(SizeCdf::named("AliStorage")->mean(), 40'869.8, 0.01);
  EXPECT_EQ(SizeCdf::named("Websearch").error().message, "\"Websearch\" is no size distribution");
}

TEST(Distribution, SamplesFollowTheCurve) {
  const SizeCdf cdf = *SizeCdf::parse("0 0 # begin\n100 50\n\n1000 100\n");
  Prng prng(3);
  int small = 0;
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t bytes = cdf.sample(prng);
    ASSERT_GE(bytes, 1u);
    ASSERT_LE(bytes, 1000u);
    small += bytes < 100;
    sum += static_cast<double>(bytes);
  }
  EXPECT_NEAR(small, 50'000, 700);
  EXPECT_NEAR(sum / 100'000, cdf.mean(), 5);
}

TEST(Distribution, Refused) {
  const auto error = [](const char* text) { return SizeCdf::parse(text).error().message; };
  EXPECT_EQ(error(""), "the last line must have 100 percent");
  EXPECT_EQ(error("0 0\n10 99\n"), "the last line must have 100 percent");
  EXPECT_EQ(error("0 1\n10 100\n"), "line 1: the first percent must be 0");
  EXPECT_EQ(error("0 0\n10 50\n10 100\n"), "line 3: bytes and percent must rise");
  EXPECT_EQ(error("0 0\nten 100\n"), "line 2: write BYTES PERCENT");
  EXPECT_EQ(error("0 0 0\n"), "line 1: write BYTES PERCENT");
  EXPECT_EQ(error("0 0\n5 101\n"), "line 2: above 100 percent, or 2^50 bytes");
}

// -ln of a uniform number, by the same steps everywhere: mean 1, and e^-1 of it above 1.
TEST(Distribution, Exponential) {
  Prng prng(11), twin(11);
  double sum = 0;
  int above = 0;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t value = exponential(prng, 1'000'000);
    const double expected = -std::log(std::ldexp(static_cast<double>(twin.next() | 1), -64)) * 1e6;
    ASSERT_NEAR(static_cast<double>(value), expected, 2) << i;
    sum += static_cast<double>(value);
    above += value > 1'000'000;
  }
  EXPECT_NEAR(sum / 1e11, 1, 0.01);
  EXPECT_NEAR(above, 36'788, 500);
}

}  // namespace
}  // namespace verbena::scenario
