// The solver of DCQCN's fluid model against solutions found by another one, which integrates the
// delay equations too (tests/validation/data/fluid_fixed_point.csv).
#include "sim/fluid.h"

#include <gtest/gtest.h>

namespace verbena::sim {
namespace {

struct Point {
  uint32_t flows;
  double marking, queue_kb, alpha;
};

// 40G, SIGCOMM 2015 parameters; above Kmax the marking line is thought to go on.
constexpr Point kPoints[] = {{2, 0.000776989, 20.15, 0.1014}, {4, 0.00188767, 41.81, 0.1218},
                             {8, 0.00455211, 93.77, 0.1452},  {10, 0.00603196, 122.62, 0.1533},
                             {16, 0.0108727, 217.02, 0.1713}, {20, 0.0143526, 284.88, 0.1803},
                             {32, 0.025618, 504.55, 0.1999},  {64, 0.0590536, 1156.54, 0.2301}};

TEST(Fluid, FixedPoint) {
  for (const Point& point : kPoints) {
    FluidParameters in;
    in.flows = point.flows;
    const FluidPoint out = fluid_fixed_point(in);
    EXPECT_NEAR(out.marking / point.marking, 1, 1e-3) << point.flows;
    EXPECT_NEAR(out.queue_bytes / 1e3 / point.queue_kb, 1, 1e-3) << point.flows;
    EXPECT_NEAR(out.alpha, point.alpha, 1e-4) << point.flows;
  }
}

// Packets of 1024 bytes take 1106 of the link: what validation compares with.
TEST(Fluid, FixedPointOfOurPackets) {
  FluidParameters in;
  in.packet_bytes = 1106;
  in.flows = 8;
  EXPECT_NEAR(fluid_fixed_point(in).queue_bytes / 1e3, 103.14, 0.05);
  in.flows = 10;
  EXPECT_NEAR(fluid_fixed_point(in).queue_bytes / 1e3, 135.03, 0.05);
}

}  // namespace
}  // namespace verbena::sim
