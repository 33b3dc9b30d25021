// The formulas, term by term.
#include "scenario/headroom.h"

#include <gtest/gtest.h>

namespace verbena::scenario {
namespace {

// 100G, 40 m: 301 * 100 + 2.16 * 40 * 100 + 2.72 * 9216.
TEST(Headroom, Mlx5) {
  const Headroom h = mlx5_headroom(100'000'000'000, 40, 9216);
  ASSERT_EQ(h.terms.size(), 3u);
  EXPECT_DOUBLE_EQ(h.terms[0].bytes, 30'100);
  EXPECT_DOUBLE_EQ(h.terms[1].bytes, 8'640);
  EXPECT_NEAR(h.terms[2].bytes, 25'067.52, 0.01);
  EXPECT_EQ(h.xoff_bytes, 63'808u);
  EXPECT_EQ(h.xon_bytes, 63'808u - 9'216);
  // Counted as at 40G at least.
  EXPECT_EQ(mlx5_headroom(10'000'000'000, 10, 1500).xoff_bytes,
            mlx5_headroom(40'000'000'000, 10, 1500).xoff_bytes);
}

// 100G, 5 m, cells of 144 bytes that each hold 64: (9100 + 616.5 + 819 + 394 * 64) * 2.25 + 1024,
// up to whole KiB.
TEST(Headroom, Sonic) {
  const Headroom h = sonic_headroom(100'000'000'000, 5, 9100);
  EXPECT_EQ(h.xoff_bytes, 81'920u);
  EXPECT_EQ(h.xon_bytes, 18'432u);
  double sum = 0;
  for (const HeadroomTerm& term : h.terms) sum += term.bytes;
  EXPECT_GT(sum, 81'920.0 - 1024);
  EXPECT_LE(sum, 81'920.0);
  EXPECT_EQ(sonic_headroom(400'000'000'000, 5, 9100).xoff_bytes, 159'744u);
  // What lies on the tiles of Spectrum-4: 120 ns of the line, in cells.
  const uint64_t tile = sonic_headroom(400'000'000'000, 5, 9100, {.spectrum4 = true}).xoff_bytes;
  EXPECT_EQ(tile, 173'056u);
  // Cells no worse than their packets: the terms as they are.
  const Headroom plain = sonic_headroom(100'000'000'000, 300, 9100, {.small_packet_share = 0});
  EXPECT_EQ(plain.xoff_bytes, 73'728u);
}

// Entries of a Broadcom platform's pg_profile_lookup.ini (sonic-buildimage 28846): measured there,
// made by no formula. Ours asks for as much or less on the same cable, never for less than
// what physics puts under way.
TEST(Headroom, BesidePublishedTables) {
  struct Entry {
    uint64_t rate;
    double metres;
    uint64_t published;
  };
  for (const Entry& e : {Entry{200'000'000'000, 5, 224'536},
                         {100'000'000'000, 400, 401'408},
                         {400'000'000'000, 4000, 2'727'936}}) {
    const double under_way = 2 * e.metres * 5e-9 * static_cast<double>(e.rate) / 8;
    const uint64_t sonic =
        sonic_headroom(e.rate, e.metres, 9100, {.small_packet_share = 0}).xoff_bytes;
    const uint64_t mlx5 = mlx5_headroom(e.rate, e.metres, 9100).xoff_bytes;
    EXPECT_LE(sonic, e.published);
    EXPECT_GT(static_cast<double>(sonic), under_way);
    EXPECT_GT(static_cast<double>(mlx5), under_way * 0.85);
  }
}

TEST(Headroom, Hpcc) {
  EXPECT_EQ(hpcc_headroom(100'000'000'000, 1e-6).xoff_bytes, 37'500u);
  EXPECT_EQ(hpcc_headroom(40'000'000'000, 1e-6).xoff_bytes, 15'000u);
}

}  // namespace
}  // namespace verbena::scenario
