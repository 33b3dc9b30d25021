// A seed is a world: random verbs programs over roads that misbehave, checked to the byte.
//   VERBENA_SEED=n      run one seed, and say what it was; with VERBENA_LOG=1 also every packet
//   VERBENA_SEEDS=n     how many (default 2000), from VERBENA_FIRST_SEED (default 1)
//   VERBENA_SECONDS=n   stop after that many seconds instead
#include <gtest/gtest.h>

#include <malloc.h>

#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "program.h"

namespace verbena::sim::test {
namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

bool run_seed(uint64_t seed) {
  Program program(seed);
  bool good = program.run();
  EXPECT_TRUE(good) << program.plan().describe() << "\n  " << program.failure()
                    << "\n  replay: VERBENA_SEED=" << seed
                    << " sim_world_test --gtest_filter=SimWorld.RandomPrograms";
  return good;
}

TEST(SimWorld, RandomPrograms) {
  if (uint64_t seed = number("VERBENA_SEED", 0)) {
    Program program(seed, number("VERBENA_LOG", 0) != 0);
    bool good = program.run();
    fmt::print("{}\n  {} packets, {} steps of {} ns, trace {:016x}: {}\n",
               program.plan().describe(), program.world().counters().packets,
               program.world().counters().delivered, program.world().now().ns(), program.hash(),
               good ? "good" : program.failure());
    EXPECT_TRUE(good);
    return;
  }
  // Every seed takes and frees the same large pieces: keep them instead of mapping anew.
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  auto begin = std::chrono::steady_clock::now();
  uint64_t seconds = number("VERBENA_SECONDS", 0);
  uint64_t first = number("VERBENA_FIRST_SEED", 1);
  uint64_t count = seconds ? UINT64_MAX : number("VERBENA_SEEDS", 2000);
  uint64_t done = 0, failed = 0;
  for (; done < count && failed < 10; ++done) {
    failed += !run_seed(first + done);
    if (seconds && std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds)) break;
  }
  fmt::print("{} seeds from {}, {} failed\n", done, first, failed);
}

// One seed, one trace: nothing depends on addresses, the clock or the build. The golden values
// hold in every build type; they change when the engine's behaviour on the road changes.
TEST(SimWorld, SameSeedSameTrace) {
  for (uint64_t seed : {3, 14, 15, 92, 65, 35}) {
    Program first(seed);
    Program second(seed);
    first.run();
    second.run();
    EXPECT_EQ(first.hash(), second.hash()) << "seed " << seed;
    EXPECT_EQ(first.world().now().ps, second.world().now().ps);
  }
}

}  // namespace
}  // namespace verbena::sim::test
