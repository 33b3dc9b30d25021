// A seed is a world of connection managers.
//   VERBENA_SEED=n      run one seed, and say what it was
//   VERBENA_SEEDS=n     how many (default 2000), from VERBENA_FIRST_SEED (default 1)
#include <gtest/gtest.h>

#include <cstdlib>

#include <fmt/format.h>

#include "cm_world.h"

namespace verbena::sim::test {
namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

TEST(CmWorlds, RandomPrograms) {
  const uint64_t only = number("VERBENA_SEED", 0);
  const uint64_t first = only ? only : number("VERBENA_FIRST_SEED", 1);
  const uint64_t count = only ? 1 : number("VERBENA_SEEDS", 2000);
  uint64_t failed = 0, established = 0;
  for (uint64_t seed = first; seed < first + count && failed < 10; ++seed) {
    CmWorld world(seed);
    const bool good = world.run();
    failed += !good;
    established += world.established();
    if (only) fmt::print("{}: {}\n", world.describe(), good ? "good" : world.failure());
    EXPECT_TRUE(good) << world.describe() << "\n  " << world.failure()
                      << "\n  replay: VERBENA_SEED=" << seed << " cm_world_test";
  }
  fmt::print("{} seeds from {}, {} failed, {} ends established\n", count, first, failed,
             established);
  if (count >= 100) {
    EXPECT_GT(established, count);
  }  // the worlds do what they are for
}

}  // namespace
}  // namespace verbena::sim::test
