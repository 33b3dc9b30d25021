// Headroom by experiment against what physics says: the bytes of two delays and of the time to
// obey, and a frame at either end.
#include "sim/headroom_run.h"

#include <gtest/gtest.h>

#include "scenario/headroom.h"

namespace verbena::sim {
namespace {

struct Place {
  uint64_t gbps;
  double metres;
  uint32_t path_mtu;
  double response_us;
};

class HeadroomRun : public testing::TestWithParam<Place> {};

TEST_P(HeadroomRun, NeedsWhatIsUnderWayAndAFrameAtEitherEnd) {
  const Place& place = GetParam();
  const HeadroomCase in{place.gbps * 1'000'000'000, place.metres, place.path_mtu,
                        place.response_us};
  const auto needed = headroom_needed(in);
  ASSERT_TRUE(needed) << needed.error().message;
  const double bytes_a_us = static_cast<double>(place.gbps) * 125;
  const double under_way = (2 * place.metres * 5e-3 + place.response_us) * bytes_a_us;
  const double frame = place.path_mtu + 82;
  EXPECT_GT(static_cast<double>(*needed), under_way * 0.95);
  EXPECT_LT(static_cast<double>(*needed), under_way + 3 * frame);

  const auto enough = headroom_use(in, *needed);
  ASSERT_TRUE(enough);
  EXPECT_EQ(enough->drops, 0u);
  EXPECT_EQ(enough->bytes, *needed);
  const auto less = headroom_use(in, *needed - 1);
  ASSERT_TRUE(less);
  EXPECT_GE(less->drops, 1u);
}

INSTANTIATE_TEST_SUITE_P(Places, HeadroomRun,
                         testing::Values(Place{100, 300, 4096, 2.02}, Place{25, 5, 1024, 1.64},
                                         Place{400, 2000, 4096, 1.16}, Place{10, 0, 256, 3.43},
                                         Place{100, 40, 1024, 0}));

// Both vendors' answers are enough, from a rack to a campus.
TEST(HeadroomRun, FormulasHold) {
  for (uint64_t gbps : {25, 100, 400})
    for (double metres : {5.0, 300.0}) {
      const uint64_t rate = gbps * 1'000'000'000;
      const double response = scenario::peer_response_bytes(rate) * 8e6 / static_cast<double>(rate);
      const HeadroomCase in{rate, metres, 4096, response};
      for (uint64_t answer : {scenario::sonic_headroom(rate, metres, 4200).xoff_bytes,
                              scenario::mlx5_headroom(rate, metres, 4200).xoff_bytes}) {
        const auto use = headroom_use(in, answer);
        ASSERT_TRUE(use) << use.error().message;
        EXPECT_EQ(use->drops, 0u) << gbps << "G " << metres << " m " << answer;
      }
    }
}

}  // namespace
}  // namespace verbena::sim
