// DCQCN step by step, against rates worked out by hand from each source's rules.
#include "engine/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include <cmath>

namespace verbena::engine::dcqcn_test {
namespace {

constexpr uint64_t kGbps = 1'000'000'000;

Instant at(int64_t us) {
  return Instant{} + microseconds(us);
}

// An acknowledgement that brings a mark back.
Acknowledged marked() {
  Acknowledged what;
  what.ecn_echo = true;
  return what;
}

Dcqcn with_profile(std::string_view name, uint64_t port_rate) {
  return {*dcqcn_profile(name), port_rate};
}

// SIGCOMM 2015: halved twice, then five stages of fast recovery toward the rate before the cut, and
// R_AI = 40 Mb/s more at every stage after them.
TEST(DcqcnPaper, FastRecoveryThenAdditiveIncrease) {
  Dcqcn flow = with_profile("paper", 40 * kGbps);
  flow.on_cnp(at(0));
  EXPECT_EQ(flow.rate(at(0)), 20 * kGbps);
  flow.on_cnp(at(1));
  EXPECT_EQ(flow.rate(at(1)), 10 * kGbps);
  EXPECT_EQ(flow.target(at(1)), 20 * kGbps);
  const uint64_t recovering[] = {15'000'000'000, 17'500'000'000, 18'750'000'000, 19'375'000'000,
                                 19'687'500'000};
  int64_t us = 1;
  for (uint64_t rate : recovering) {
    us += 55;
    EXPECT_EQ(flow.rate(at(us)), rate) << us;
    EXPECT_EQ(flow.target(at(us)), 20 * kGbps) << us;
  }
  EXPECT_EQ(flow.target(at(331)), 20'040'000'000u);
  EXPECT_EQ(flow.rate(at(331)), 19'863'750'000u);
  EXPECT_EQ(flow.target(at(386)), 20'080'000'000u);
}

// A CNP cuts with the alpha before it; authors' code raises alpha first.
TEST(DcqcnPaper, CutsBeforeAlphaRises) {
  Dcqcn paper = with_profile("paper", 40 * kGbps);
  paper.on_cnp(at(0));
  EXPECT_DOUBLE_EQ(paper.alpha(at(111)), 255.0 / 256 * 255 / 256);
  ASSERT_EQ(paper.rate(at(111)), 35 * kGbps);
  paper.on_cnp(at(111));
  const double alpha = 255.0 / 256 * 255 / 256;
  EXPECT_EQ(paper.rate(at(111)), static_cast<uint64_t>(35e9 * (1 - alpha / 2)));
  EXPECT_DOUBLE_EQ(paper.alpha(at(111)), alpha * 255 / 256 + 1.0 / 256);

  Dcqcn authors = with_profile("authors", 40 * kGbps);
  authors.on_cnp(at(0));
  ASSERT_EQ(authors.rate(at(121)), 35 * kGbps);  // its rate timer has 60 us
  authors.on_cnp(at(121));
  const double risen = alpha * 255 / 256 + 1.0 / 256;
  EXPECT_EQ(authors.rate(at(121)), static_cast<uint64_t>(35e9 * (1 - risen / 2)));
}

TEST(DcqcnPaper, TheByteCounterMakesStagesToo) {
  Dcqcn flow = with_profile("paper", 40 * kGbps);
  flow.on_sent(at(0), 10'000'000);  // before the first CNP nothing counts
  flow.on_cnp(at(0));
  flow.on_sent(at(1), 9'999'999);
  EXPECT_EQ(flow.rate(at(1)), 20 * kGbps);
  flow.on_sent(at(2), 1);
  EXPECT_EQ(flow.rate(at(2)), 30 * kGbps);
  EXPECT_EQ(flow.rate(at(55)), 35 * kGbps);  // and the timer's own first stage
}

TEST(DcqcnNvidia, TenBitsOfAlphaAndOneCutInAPeriod) {
  Dcqcn flow = with_profile("nvidia", 100 * kGbps);
  flow.on_cnp(at(0));
  EXPECT_EQ(flow.rate(at(0)), 50'048'828'125u);  // 1 - 1023 / 2048
  flow.on_cnp(at(3));
  EXPECT_EQ(flow.rate(at(3)), 50'048'828'125u);  // rate_reduce_monitor_period: 4 us
  // rpg_threshold 1: the first stage is an additive one; the target is the port's rate already.
  EXPECT_EQ(flow.rate(at(299)), 50'048'828'125u);
  EXPECT_EQ(flow.rate(at(300)), 75'024'414'063u);
  EXPECT_EQ(flow.target(at(300)), 100 * kGbps);
}

TEST(DcqcnNvidia, TheTargetSurvivesACutWithoutAStageBetween) {
  Dcqcn flow = with_profile("nvidia", 100 * kGbps);
  flow.on_cnp(at(0));
  flow.on_cnp(at(10));
  EXPECT_EQ(flow.target(at(10)), 100 * kGbps);
  flow.on_cnp(at(320));  // a stage of the timer has passed at 310
  EXPECT_LT(flow.target(at(320)), 100 * kGbps);
}

TEST(DcqcnNvidia, FloorsHold) {
  DcqcnSettings settings = *dcqcn_profile("nvidia");
  settings.rpg_min_dec_fac = 80;
  Dcqcn gentle(settings, 100 * kGbps);
  gentle.on_cnp(at(0));
  EXPECT_EQ(gentle.rate(at(0)), 80 * kGbps);
  settings.rpg_min_rate = 95 * kGbps;
  Dcqcn floored(settings, 100 * kGbps);
  floored.on_cnp(at(0));
  EXPECT_EQ(floored.rate(at(0)), 95 * kGbps);
  settings.rate_to_set_on_first_cnp = 97 * kGbps;
  Dcqcn chosen(settings, 100 * kGbps);
  chosen.on_cnp(at(0));
  EXPECT_EQ(chosen.rate(at(0)), 97 * kGbps);
}

// Marks wait for the next check of a timer that the first one started.
TEST(DcqcnHpccNs3, CutsByItsOwnTimer) {
  Dcqcn flow = with_profile("hpcc-ns3", 100 * kGbps);
  flow.on_acknowledged(at(10), marked());
  EXPECT_EQ(flow.rate(at(13)), 100 * kGbps);
  const auto cut = static_cast<uint64_t>(100e9 * (1 - std::pow(255.0 / 256, 4) / 2));
  EXPECT_EQ(flow.rate(at(14)), cut);  // by the alpha of then, four ticks on
  EXPECT_EQ(flow.rate(at(18)), cut);  // no mark since
  flow.on_acknowledged(at(19), marked());
  EXPECT_EQ(flow.rate(at(21)), cut);
  EXPECT_LT(flow.rate(at(22)), cut);
}

TEST(Dcqcn, HowOftenItIsAskedChangesNothing) {
  for (const char* name : {"nvidia", "paper", "authors", "hpcc-ns3"}) {
    Dcqcn seldom = with_profile(name, 100 * kGbps), often = with_profile(name, 100 * kGbps);
    for (int64_t us = 0; us < 3000; ++us) {
      (void)often.rate(at(us));
      (void)often.alpha(at(us));
      if (us % 310 != 0) continue;
      seldom.on_acknowledged(at(us), marked());
      often.on_acknowledged(at(us), marked());
    }
    EXPECT_EQ(seldom.rate(at(3000)), often.rate(at(3000))) << name;
    EXPECT_DOUBLE_EQ(seldom.alpha(at(3000)), often.alpha(at(3000))) << name;
  }
}

TEST(Dcqcn, ComesHomeAndSaysWhenItChanges) {
  Dcqcn flow = with_profile("paper", 40 * kGbps);
  EXPECT_EQ(flow.next_change(at(0)), kNever);
  flow.on_cnp(at(0));
  EXPECT_EQ(flow.next_change(at(0)), at(55));
  EXPECT_EQ(flow.rate(at(1'000'000)), 40 * kGbps);
  EXPECT_EQ(flow.next_change(at(1'000'000)), kNever);
}

}  // namespace
}  // namespace verbena::engine::dcqcn_test
