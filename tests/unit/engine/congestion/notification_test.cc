// When marks become CNPs: the paper's rule, one in min_time_between_cnps, no mark forgotten.
#include "engine/congestion/notification.h"

#include <gtest/gtest.h>

namespace verbena::engine::notification_test {
namespace {

Instant at(int64_t us) {
  return Instant{} + microseconds(us);
}

TEST(Notification, OneInATimeAndNoMarkIsForgotten) {
  const NpSettings settings{.min_time_between_cnps = microseconds(50)};
  Notification told;
  EXPECT_FALSE(told.arrived(at(1), false, settings));
  EXPECT_TRUE(told.arrived(at(10), true, settings));
  EXPECT_FALSE(told.arrived(at(20), true, settings));
  EXPECT_TRUE(told.owed);
  EXPECT_FALSE(told.arrived(at(59), false, settings));
  EXPECT_TRUE(told.arrived(at(60), false, settings));  // for the mark at 20
  EXPECT_FALSE(told.owed);
  EXPECT_FALSE(told.arrived(at(109), false, settings));
  EXPECT_FALSE(told.arrived(at(111), false, settings));
  EXPECT_TRUE(told.arrived(at(112), true, settings));
}

TEST(Notification, EchoesWaitForTheNextAcknowledgement) {
  const NpSettings settings{.echo_in_acknowledgements = true};
  Notification told;
  EXPECT_FALSE(told.arrived(at(1), true, settings));
  EXPECT_FALSE(told.arrived(at(2), false, settings));
  EXPECT_TRUE(told.echo);
  EXPECT_FALSE(told.owed);
}

}  // namespace
}  // namespace verbena::engine::notification_test
