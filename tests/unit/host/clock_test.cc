// The host's clock on machines that have been up for long.
#include "host/clock.h"

#include <gtest/gtest.h>

namespace verbena::host {
namespace {

constexpr int64_t kDayNs = 86'400'000'000'000;

TEST(Clock, CountsFromItsOriginHoweverLongTheMachineIsUp) {
  for (int64_t days : {0, 1, 106, 107, 200, 20'000}) {
    SCOPED_TRACE(days);
    const int64_t origin = days * kDayNs + 123;
    const Clock clock(origin);
    const Instant first = clock.at(origin);
    EXPECT_EQ(first.ns(), 1'000'000'000) << "no instant is 0 or before";
    EXPECT_EQ((clock.at(origin + 1) - first).ps, 1000);
    // Timers of the longest kind (timeout 31 is 2.4 hours) and years of running.
    EXPECT_EQ(clock.at(origin + kDayNs) - first, seconds(86'400));
    EXPECT_EQ(clock.at(origin + 100 * kDayNs) - first, seconds(100 * 86'400));
    const int64_t late = origin + 10'000 * kDayNs;
    EXPECT_EQ(clock.at(late).ns(), 10'000 * kDayNs + 1'000'000'000);
    EXPECT_EQ(clock.at(late + 1) - clock.at(late), nanoseconds(1));
    EXPECT_LT(clock.at(late) + seconds(86'400), clock.at(late + kDayNs + 1));
    EXPECT_LT(clock.at(late) + seconds(86'400), kNever);
    EXPECT_LT(kLongAgo, first);
  }
}

}  // namespace
}  // namespace verbena::host
