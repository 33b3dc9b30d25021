// Values with units are read exactly and written back as the same value.
#include "scenario/units.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace verbena::scenario {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("0B"), 0u);
  EXPECT_EQ(parse_bytes("1500B"), 1500u);
  EXPECT_EQ(parse_bytes("100KB"), 100'000u);
  EXPECT_EQ(parse_bytes("100kB"), 100'000u);
  EXPECT_EQ(parse_bytes("64KiB"), 65'536u);
  EXPECT_EQ(parse_bytes("1.5MiB"), 1'572'864u);
  EXPECT_EQ(parse_bytes("0.5 GB"), 500'000'000u);
  for (const char* bad : {"", "100", "KB", "100 KBs", "1.5B", "-1KB", "1e3B", ".5KB", "1.KB",
                          "100K", "1,5KB", "9999999999999999999B", "100000000000000000GB"})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Units, Rates) {
  EXPECT_EQ(parse_rate("100G"), 100'000'000'000u);
  EXPECT_EQ(parse_rate("100Gbps"), 100'000'000'000u);
  EXPECT_EQ(parse_rate("2.5Gb/s"), 2'500'000'000u);
  EXPECT_EQ(parse_rate("40Mbit/s"), 40'000'000u);
  EXPECT_EQ(parse_rate("8bps"), 8u);
  EXPECT_EQ(parse_rate("1T"), 1'000'000'000'000u);
  for (const char* bad : {"", "100", "G", "100GB", "bps", "100g", "1.0000000001G"})
    EXPECT_FALSE(parse_rate(bad)) << bad;
}

TEST(Units, Times) {
  EXPECT_EQ(parse_time("83.84ns"), 83'840);
  EXPECT_EQ(parse_time("1us"), 1'000'000);
  EXPECT_EQ(parse_time("2.5ms"), 2'500'000'000);
  EXPECT_EQ(parse_time("1s"), 1'000'000'000'000);
  EXPECT_EQ(parse_time("3ps"), 3);
  for (const char* bad : {"", "1", "0.5ps", "1m", "1 us ", "us", "10000000000s"})
    EXPECT_FALSE(parse_time(bad)) << bad;
}

TEST(Units, LengthsAndShares) {
  EXPECT_EQ(parse_length("300m"), 300.0);
  EXPECT_EQ(parse_length("1.5km"), 1500.0);
  EXPECT_FALSE(parse_length("300"));
  EXPECT_FALSE(parse_length("300ms"));
  EXPECT_EQ(parse_share("30%"), 0.3);
  EXPECT_EQ(parse_share("0.5%"), 0.005);
  EXPECT_FALSE(parse_share("30"));
  EXPECT_EQ(metres_of(1'000'000), 200.0);
}

TEST(Units, Written) {
  EXPECT_EQ(format_bytes(100'000), "100KB");
  EXPECT_EQ(format_bytes(65'536), "64KiB");
  EXPECT_EQ(format_bytes(1501), "1501B");
  EXPECT_EQ(format_bytes(0), "0B");
  EXPECT_EQ(format_rate(100'000'000'000), "100G");
  EXPECT_EQ(format_rate(12), "12bps");
  EXPECT_EQ(format_time(83'840), "83840ps");
  EXPECT_EQ(format_time(10'000'000), "10us");
  EXPECT_EQ(format_length(2.5), "2.5m");
}

// What is written is read as the same value, whatever it is.
TEST(Units, RoundTrip) {
  Prng prng(7);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = prng.next() >> prng.between(2, 63);
    EXPECT_EQ(parse_bytes(format_bytes(value)), value);
    EXPECT_EQ(parse_rate(format_rate(value)), value);
    EXPECT_EQ(parse_time(format_time(static_cast<fabric::Time>(value))), value);
  }
}

}  // namespace
}  // namespace verbena::scenario
