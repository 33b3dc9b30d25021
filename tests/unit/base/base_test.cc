// PSN arithmetic, endian integers, the generator, zeroed slots and the depth of keys.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <limits>
#include <string>

#include "base/endian.h"
#include "base/prng.h"
#include "base/psn.h"
#include "base/slots.h"
#include "base/time.h"
#include "base/toml_keys.h"

namespace verbena {
namespace {

TEST(PsnTest, ComparesAcrossTheWrap) {
  EXPECT_EQ(Psn(0).distance(Psn(0xffffff)), 1);
  EXPECT_EQ(Psn(0xffffff).distance(Psn(0)), -1);
  EXPECT_TRUE(Psn(0xffffff).before(Psn(5)));
  EXPECT_TRUE(Psn(5).after(Psn(0xfffff0)));
  EXPECT_EQ((Psn(0xffffff) + 2).value(), 1u);
  EXPECT_EQ((Psn(1) - 2).value(), 0xffffffu);
  EXPECT_EQ(Psn(0x1000007).value(), 7u);
  EXPECT_EQ(Psn(0x800000).distance(Psn(0)), -0x800000);
  EXPECT_EQ(Psn(0x7fffff).distance(Psn(0)), 0x7fffff);
}

RC_GTEST_PROP(PsnProperty, DistanceUndoesAddition, (uint32_t start, uint32_t step)) {
  step %= 0x800000;
  Psn base(start);
  RC_ASSERT((base + step).distance(base) == static_cast<int32_t>(step));
  RC_ASSERT((base + step - step) == base);
  RC_ASSERT(base.distance(base + step) == -static_cast<int32_t>(step));
  RC_ASSERT((base + step).after(base) == (step > 0));
}

RC_GTEST_PROP(EndianProperty, RoundTripsInNetworkOrder, (uint64_t value)) {
  be16 a(static_cast<uint16_t>(value));
  be24 b(static_cast<uint32_t>(value) & 0xffffff);
  be32 c(static_cast<uint32_t>(value));
  be64 d(value);
  RC_ASSERT(uint16_t{a} == static_cast<uint16_t>(value));
  RC_ASSERT(uint32_t{b} == (value & 0xffffff));
  RC_ASSERT(uint32_t{c} == static_cast<uint32_t>(value));
  RC_ASSERT(uint64_t{d} == value);
  for (int i = 0; i < 8; ++i) RC_ASSERT(d.bytes[i] == static_cast<uint8_t>(value >> (56 - 8 * i)));
  for (int i = 0; i < 3; ++i) RC_ASSERT(b.bytes[i] == static_cast<uint8_t>(value >> (16 - 8 * i)));
}

TEST(PrngTest, IsSplitMix64) {
  Prng prng(1234567);  // the reference implementation's first values for this seed
  EXPECT_EQ(prng.next(), 6457827717110365317ull);
  EXPECT_EQ(prng.next(), 3203168211198807973ull);
  EXPECT_EQ(prng.next(), 9817491932198370423ull);
}

RC_GTEST_PROP(PrngProperty, StaysInItsRange, (uint64_t seed, uint64_t bound)) {
  Prng prng(seed);
  if (bound == 0) {
    RC_ASSERT(prng.below(0) == 0u);
    return;
  }
  RC_ASSERT(prng.below(bound) < bound);
  uint64_t value = prng.between(bound / 2, bound);
  RC_ASSERT(value >= bound / 2 && value <= bound);
}

TEST(PrngTest, ChanceIsAboutRight) {
  Prng prng(9);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) hits += prng.chance_ppm(250'000);
  EXPECT_NEAR(hits, 25'000, 600);
  EXPECT_FALSE(prng.chance_ppm(0));
}

TEST(SlotsTest, StartZeroedAndMayBeEmpty) {
  Slots<uint64_t> slots(1000);
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(slots[i], 0u);
  slots[5] = 7;
  Slots<uint64_t> moved = std::move(slots);
  EXPECT_EQ(moved[5], 7u);
  EXPECT_EQ(Slots<uint64_t>(0).get(), nullptr);
}

TEST(TimeTest, UnitsArePicoseconds) {
  EXPECT_EQ(microseconds(3).ps, 3'000'000);
  EXPECT_EQ(seconds(1), milliseconds(1000));
  EXPECT_EQ((Instant{5} + nanoseconds(1)).ps, 1005);
  EXPECT_EQ((Instant{} - kNever).ps, -std::numeric_limits<int64_t>::max()) << "the longest";
  EXPECT_EQ((kNever - Instant{}).ps, std::numeric_limits<int64_t>::max());
  EXPECT_LT(Instant{} + seconds(1'000'000), kNever);
}

TEST(TomlKeys, FindsTheLineOfADeepOne) {
  std::string deep = "a";
  for (size_t i = 1; i < kMostKeyParts; ++i) deep += ".a";
  EXPECT_EQ(line_of_deep_key("x = 1\n" + deep + " = 2\n"), 0u) << "as many as may be";
  deep += " . \"b.c\"";
  EXPECT_EQ(line_of_deep_key("x = 1\n" + deep + " = 2\n"), 2u);
  EXPECT_EQ(line_of_deep_key("x = \"\"\"\n\n\"\"\"\n[" + deep + "]\n"), 4u);
  EXPECT_EQ(line_of_deep_key("x = { y = [ { " + deep + " = 1 } ] }"), 1u);
  const std::string dots(100, '.');
  EXPECT_EQ(line_of_deep_key("# " + dots + "\nx = '" + dots + "'\ny = \"\\\"" + dots + "\"\n"), 0u);
  EXPECT_EQ(line_of_deep_key("x = \"\"\"" + dots + "\"\n" + dots + "\"\"\"\n"), 0u);
  EXPECT_EQ(line_of_deep_key("x = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 1.5, 2.5, 3.5, 4.5,"
                             "5.5, 6.5, 7.5, 8.5, 9.5]"),
            0u);
  EXPECT_EQ(line_of_deep_key("x = \"open\n" + deep), 2u);
  EXPECT_EQ(line_of_deep_key("x = '''open " + deep), 0u);
}

}  // namespace
}  // namespace verbena
