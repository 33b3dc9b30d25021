// Runs with real bytes: the oracle compares every one, and finds what a fabric spoiled or wrote
// twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <fmt/format.h>

#include "sim/experiment.h"
#include "sim/summary.h"

namespace verbena::sim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

scenario::Scenario star(const char* verb, const char* bytes, const std::string& more = "") {
  auto scenario = scenario::parse_scenario(
      "x.toml",
      fmt::format("[topology]\nkind = \"star\"\nhosts = 3\n[host]\npayload = true\n{}\n"
                  "[[flow]]\nfrom = 0\nto = 1\nbytes = \"{}\"\nverb = \"{}\"\n",
                  more, bytes, verb),
      {});
  EXPECT_TRUE(scenario) << scenario.error().message;
  return scenario ? *scenario : scenario::Scenario{};
}

TEST(Payload, EveryByteOfEveryVerbIsCompared) {
  for (const char* verb : {"write", "read", "send"}) {
    SCOPED_TRACE(verb);
    Experiment experiment(star(verb, "9999999B"));  // nine pieces of a MiB and a rest
    ASSERT_TRUE(experiment.run());
    EXPECT_EQ(experiment.flows_done(), 1u);
    EXPECT_EQ(experiment.payload().checked_bytes, 9'999'999u);
    EXPECT_THAT(experiment.payload().complaints, IsEmpty());
    EXPECT_THAT(unmet(experiment.scenario(), summarise(experiment)), IsEmpty());
  }
}

// Turns one bit of every payload that is under way.
void spoil(Experiment& experiment) {
  fabric::PacketPool& pool = experiment.network().pool();
  for (fabric::PacketId id = 0; id < pool.most(); ++id)
    if (!pool.body(id).payload.empty()) pool.body(id).payload[0] ^= 1;
}

TEST(Payload, WrongBytesFailTheRun) {
  for (const char* verb : {"write", "read", "send"}) {
    SCOPED_TRACE(verb);
    Experiment experiment(star(verb, "1MB"));
    EXPECT_FALSE(experiment.run(20 * fabric::kMicrosecond));
    spoil(experiment);
    ASSERT_TRUE(experiment.run());
    EXPECT_EQ(experiment.payload().errors, 1u);
    Summary summary = summarise(experiment);
    ASSERT_THAT(summary.findings, testing::SizeIs(1));
    EXPECT_THAT(
        summary.findings[0],
        MatchesRegex("payload: flow 0: byte [0-9]+ of message 0 is 0x.. and should be 0x.."));
    EXPECT_THAT(unmet(experiment.scenario(), summary),
                ElementsAre("x.toml:5: expected payload_errors 0, it is 1"));
  }
}

TEST(Payload, IsRealEverywhereOrNowhere) {
  auto good = check_supported(star("write", "1KB", "[host.h1]\npayload = false"));
  ASSERT_FALSE(good);
  EXPECT_EQ(good.error().message,
            "x.toml: payload of h0 and h1 differs; packets have real bytes on every host or on "
            "none");
}

// Two hosts' memory, written by hand as a fabric might.
class Memory : public testing::Test {
 protected:
  Memory() : experiment(star("write", "1KB")) {}
  uint8_t* bytes_at(const engine::Sge& sge) {
    memory::KeyTable& keys = experiment.adapter(1).device().keys();
    return keys
        .check_remote(sge.lkey, experiment.adapter(1).domain(), 0, sge.address, sge.length,
                      memory::kRemoteWrite)
        .address;
  }
  const uint8_t* sent(const engine::Sge& sge) {
    memory::KeyTable& keys = experiment.adapter(0).device().keys();
    return keys
        .check_remote(sge.lkey, experiment.adapter(0).domain(), 0, sge.address, sge.length,
                      memory::kRemoteRead)
        .address;
  }
  void arrive(const FlowMemory::Places& at) {
    std::copy_n(sent(at.source), at.source.length, bytes_at(at.target));
  }

  Experiment experiment;
  PayloadVerdict verdict;
  FlowMemory memory{7, 1000, 2, experiment.adapter(0), experiment.adapter(1), verdict};
};

TEST_F(Memory, HasWhatWasSent) {
  for (uint64_t work = 0; work < 5; ++work) {
    arrive(memory.prepare(work, 1000));
    memory.check(work, 1000);
  }
  memory.check_rest();
  EXPECT_EQ(verdict.checked_bytes, 5000u);
  EXPECT_THAT(verdict.complaints, IsEmpty());
}

TEST_F(Memory, ACompletionBeforeTheLastByteIsFound) {
  auto at = memory.prepare(0, 1000);
  arrive(at);
  bytes_at(at.target)[999] = 0xee;
  memory.check(0, 1000);
  EXPECT_THAT(verdict.complaints, ElementsAre(HasSubstr("flow 7: byte 999 of message 0 is 0xee")));
}

TEST_F(Memory, WritesBehindTheEndOrAfterTheCompletionAreFound) {
  auto at = memory.prepare(0, 500);
  arrive(at);
  bytes_at(at.target)[500] = 1;
  memory.check(0, 500);
  EXPECT_THAT(verdict.complaints,
              ElementsAre("flow 7: bytes behind message 0 of 500 were written"));
  bytes_at(at.target)[3] = 1;
  memory.check_rest();
  memory.prepare(2, 500);
  EXPECT_THAT(verdict.complaints,
              ElementsAre("flow 7: bytes behind message 0 of 500 were written",
                          "flow 7: a message was written after it had completed, or beside its "
                          "place",
                          "flow 7: message 0 was written again after it had completed"));
  EXPECT_EQ(verdict.errors, 3u);
}

}  // namespace
}  // namespace verbena::sim
