// Reserved, shared, headroom; thresholds; XOFF and XON.
#include "fabric/shared_buffer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace verbena::fabric {
namespace {

struct Made {
  SwitchSettings settings;
  std::vector<const PortSettings*> ports;
  SharedBuffer buffer;
  explicit Made(const SwitchSettings& from, size_t count = 2)
      : settings(from), ports(count, &settings.port), buffer(settings, ports) {}
};

SwitchSettings small() {
  SwitchSettings settings;
  settings.buffer_bytes = 100'000;
  GroupSettings& group = settings.port.groups[3];
  group.lossless = true;
  group.reserved_bytes = 1'000;
  group.headroom_bytes = 5'000;
  group.xon_offset_bytes = 2'000;
  group.alpha = 0.5;
  return settings;
}

TEST(SharedBuffer, ThePoolIsWhatNobodyHasForHimself) {
  EXPECT_EQ(Made(small()).buffer.pool(), 100'000u - 2 * 6'000);
  SwitchSettings per_port = small();
  per_port.port.groups[4] = per_port.port.groups[3];
  EXPECT_EQ(Made(per_port).buffer.pool(), 100'000u - 4 * 6'000);
  per_port.headroom = SwitchSettings::kPerPort;
  EXPECT_EQ(Made(per_port).buffer.pool(), 100'000u - 4 * 1'000 - 2 * 5'000);
}

TEST(SharedBuffer, DynamicThresholdIsAlphaTimesWhatIsFree) {
  Made made(small());
  EXPECT_EQ(made.buffer.threshold(0, 3), 44'000u);
  ASSERT_TRUE(made.buffer.admit(0, 3, 11'000));  // 1000 of it reserved
  EXPECT_EQ(made.buffer.shared_used(), 10'000u);
  EXPECT_EQ(made.buffer.threshold(0, 3), 39'000u);
  SwitchSettings odd = small();
  odd.port.groups[3].alpha = 0.3;
  EXPECT_EQ(Made(odd).buffer.threshold(0, 3), 26'400u);
}

TEST(SharedBuffer, StopsAtTheThresholdFillsTheHeadroomThenDrops) {
  Made made(small());
  uint64_t taken = 0;
  while (!made.buffer.over(0, 3)) {
    ASSERT_TRUE(made.buffer.admit(0, 3, 1'000));
    taken += 1'000;
  }
  // x = (pool - x) / 2 of shared, and what is reserved.
  EXPECT_NEAR(static_cast<double>(taken), 1'000 + 88'000.0 / 3, 1'000);
  while (made.buffer.headroom_used(0, 3) < 5'000) ASSERT_TRUE(made.buffer.admit(0, 3, 1'000));
  EXPECT_EQ(made.buffer.headroom_used(0, 3), 5'000u);
  EXPECT_FALSE(made.buffer.admit(0, 3, 1'000));
  EXPECT_TRUE(made.buffer.admit(1, 3, 1'000));  // another port has its own
}

TEST(SharedBuffer, LetsGoBelowTheThresholdLessTheOffset) {
  Made made(small());
  while (!made.buffer.over(0, 3)) ASSERT_TRUE(made.buffer.admit(0, 3, 1'000));
  ASSERT_TRUE(made.buffer.admit(0, 3, 1'000));
  EXPECT_FALSE(made.buffer.under(0, 3));
  made.buffer.release(0, 3, 2'000);  // headroom first
  EXPECT_EQ(made.buffer.headroom_used(0, 3), 0u);
  uint64_t released = 0;
  while (!made.buffer.under(0, 3)) {
    made.buffer.release(0, 3, 500);
    released += 500;
  }
  EXPECT_GE(released, 1'000u);
  EXPECT_LE(released, 2'000u);
}

TEST(SharedBuffer, StaticThreshold) {
  SwitchSettings settings = small();
  settings.port.groups[3].dynamic = false;
  settings.port.groups[3].static_bytes = 7'000;
  Made made(settings);
  ASSERT_TRUE(made.buffer.admit(0, 3, 7'000));
  EXPECT_FALSE(made.buffer.over(0, 3));
  ASSERT_TRUE(made.buffer.admit(0, 3, 1'000));
  EXPECT_TRUE(made.buffer.over(0, 3));
}

TEST(SharedBuffer, ALossyGroupDropsAtTheThreshold) {
  SwitchSettings settings = small();
  settings.port.groups[0].dynamic = false;
  settings.port.groups[0].static_bytes = 3'000;
  Made made(settings);
  EXPECT_TRUE(made.buffer.admit(0, 0, 3'000));
  EXPECT_FALSE(made.buffer.admit(0, 0, 1));
  EXPECT_FALSE(made.buffer.over(0, 0));
}

// Whatever comes and goes: nothing is lost in the books, and all limits hold.
RC_GTEST_PROP(SharedBuffer, BalancesItsBooks, (std::vector<std::pair<uint8_t, uint16_t>> steps)) {
  Made made(small(), 3);
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> inside;
  uint64_t sum = 0;
  for (auto [what, size] : steps) {
    uint32_t port = what % 3, group = what / 3 % 2 ? 3 : 0, bytes = 64 + size % 9000;
    auto& frames = inside[{port, group}];
    if (what & 0x80 && !frames.empty()) {
      made.buffer.release(port, group, frames.back());
      sum -= frames.back();
      frames.pop_back();
    } else if (made.buffer.admit(port, group, bytes)) {
      frames.push_back(bytes);
      sum += bytes;
    }
    RC_ASSERT(made.buffer.used() == sum);
    RC_ASSERT(made.buffer.used() <= 100'000u);
    RC_ASSERT(made.buffer.shared_used() <= made.buffer.pool());
    RC_ASSERT(made.buffer.headroom_used(port, 3) <= 5'000u);
  }
  for (auto& [key, frames] : inside)
    for (uint32_t bytes : frames) made.buffer.release(key.first, key.second, bytes);
  RC_ASSERT(made.buffer.used() == 0u);
  RC_ASSERT(made.buffer.shared_used() == 0u);
}

TEST(SharedBuffer, OneHeadroomOfAPortIsForAllItsGroups) {
  SwitchSettings settings = small();
  settings.headroom = SwitchSettings::kPerPort;
  GroupSettings& group = settings.port.groups[3];
  group.reserved_bytes = 0;
  group.dynamic = false;
  settings.port.groups[4] = group;
  Made made(settings);
  ASSERT_TRUE(made.buffer.admit(0, 3, 3'000));
  ASSERT_TRUE(made.buffer.admit(0, 4, 2'000));
  EXPECT_FALSE(made.buffer.admit(0, 4, 1));
  EXPECT_TRUE(made.buffer.admit(1, 4, 5'000));  // another port
  made.buffer.release(0, 3, 3'000);
  EXPECT_TRUE(made.buffer.admit(0, 4, 3'000));
}

}  // namespace
}  // namespace verbena::fabric
