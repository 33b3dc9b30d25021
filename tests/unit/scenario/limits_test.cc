// What would take more memory or time than there is ends with a sentence.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scenario/csv.h"
#include "scenario/distribution.h"
#include "scenario/scenario.h"
#include "scenario/topology.h"

namespace verbena::scenario {
namespace {

std::string refusal(const std::string& text) {
  const auto scenario = parse_scenario("big.toml", text, {});
  return scenario ? "" : scenario.error().message;
}

constexpr const char* kStar = "[topology]\nkind = \"star\"\nhosts = 4\n";

TEST(Limits, PortsOfASwitch) {
  EXPECT_EQ(refusal("[topology]\nkind = \"star\"\nhosts = 4097\n[[flow]]\nfrom = 0\nto = 1\n"),
            "big.toml:2: topology.kind: switch s0 has 4097 links; 4096 are the most");
  // 110 switches of 3,520 ports and more.
  EXPECT_NE(refusal("[topology]\nkind = \"leaf-spine\"\nleaves = 55\nspines = 55\nparallel = 64\n"
                    "[[flow]]\nfrom = 0\nto = 1\n")
                .find("the switches have too many ports"),
            std::string::npos);
}

TEST(Limits, FlowsInAll) {
  EXPECT_EQ(
      refusal(
          "[topology]\nkind = \"star\"\nhosts = 1500\n[switch]\nbuffer = \"1GB\"\n[[workload]]\n"
          "kind = \"all-to-all\"\nbytes = \"1KB\"\n"),
      "big.toml:7: workload.0.kind: 2248500 flows; 2000000 in all are the most");
}

TEST(Limits, Names) {
  EXPECT_EQ(refusal(kStar + fmt::format("[[workload]]\nkind = \"long\"\nto = 0\nname = \"{}\"\n",
                                        std::string(65, 'n'))),
            "big.toml:7: workload.0.name: has 65 bytes; 64 are the most");
  EXPECT_EQ(refusal(fmt::format("[scenario]\ndescription = \"{}\"\n", std::string(5000, 'n'))),
            "big.toml:2: scenario.description: has 5000 bytes; 4096 are the most");
}

TEST(Limits, HostsNamedAgainAndAgain) {
  std::string all;
  for (int i = 0; i < 30'000; ++i) all += "\"all\",";
  EXPECT_NE(
      refusal(kStar + fmt::format("[[workload]]\nkind = \"long\"\nto = 0\nfrom = [{}]\n", all))
          .find("more than 100000 hosts are named"),
      std::string::npos);
}

TEST(Limits, RoundsAndChainsEndInTime) {
  EXPECT_NE(refusal(kStar + std::string("[[workload]]\nkind = \"incast\"\nto = 0\nbytes = \"1KB\"\n"
                                        "rounds = 10000\ninterval = \"3600s\"\n"))
                .find("its last round would begin after more than an hour"),
            std::string::npos);
  std::string chain = kStar;
  for (int i = 0; i < 30; ++i)
    chain += fmt::format(
        "[[flow]]\nname = \"f{}\"\nfrom = 0\nto = 1\nbytes = \"1KB\"\nstart = \"3600s\"\n{}", i,
        i == 0 ? "" : fmt::format("after = [\"f{}\"]\n", i - 1));
  EXPECT_NE(refusal(chain).find("flow 24 of all would begin after more than a day"),
            std::string::npos);
}

TEST(Limits, APortsNumberIsAllOfItsName) {
  EXPECT_NE(refusal(std::string(kStar) + "[switch.s0.port.3x]\nmtu = \"1500B\"\n"
                                         "[[flow]]\nfrom = 0\nto = 1\n")
                .find("switch.s0.port.3x: no such port"),
            std::string::npos);
}

TEST(Limits, RowsAndPoints) {
  const auto csv = parse_csv("rows.csv", "a\n1\n2\n3\n", 2);
  ASSERT_FALSE(csv);
  EXPECT_EQ(csv.error().message, "rows.csv:4: 2 rows are the most");
  std::string points = "0 0\n";
  for (int i = 1; i <= 100'001; ++i) points += fmt::format("{} {}.{:06}\n", i, 0, i);
  const auto cdf = SizeCdf::parse(points);
  ASSERT_FALSE(cdf);
  EXPECT_EQ(cdf.error().message, "line 100001: 100000 points are the most");
}

// A sample is the point of the curve at its share, whichever way it is found.
TEST(Limits, SamplesFollowTheCurve) {
  const auto cdf = SizeCdf::parse("0 0\n100 10\n200 50\n1000 100\n");
  ASSERT_TRUE(cdf);
  Prng prng(1);
  int below[3] = {};
  constexpr int kSamples = 100'000;
  for (int i = 0; i < kSamples; ++i) {
    const uint64_t bytes = cdf->sample(prng);
    ASSERT_GE(bytes, 1u);
    ASSERT_LE(bytes, 1000u);
    below[0] += bytes < 100;
    below[1] += bytes < 200;
    below[2] += bytes < 600;
  }
  EXPECT_NEAR(below[0] / 1e5, 0.10, 0.005);
  EXPECT_NEAR(below[1] / 1e5, 0.50, 0.01);
  EXPECT_NEAR(below[2] / 1e5, 0.75, 0.01);
}

TEST(Links, BetweenTwoNodes) {
  const std::string links =
      "[scenario]\nduration = \"1ms\"\n[topology]\nkind = \"links\"\nswitches = "
      "[\"s\"]\n[[link]]\na = \"x\"\nb = \"s\"\n"
      "[[link]]\na = \"y\"\nb = \"s\"\n[[flow]]\nfrom = \"x\"\nto = \"y\"\n";
  const auto scenario = parse_scenario("l.toml", links, {});
  ASSERT_TRUE(scenario) << scenario.error().message;
  const LinksBetween between(scenario->topology);
  EXPECT_EQ(between.find(0, 2), std::vector<uint32_t>{0});
  EXPECT_EQ(between.find(2, 1), std::vector<uint32_t>{1});
  EXPECT_TRUE(between.find(0, 1).empty());
  EXPECT_TRUE(between.find(-1, 2).empty());
}

}  // namespace
}  // namespace verbena::scenario
