// A seed is a world: random verbs programs over roads that misbehave, checked to the byte.
//   VERBENA_SEED=n      run one seed, and say what it was; also every packet with
//                       VERBENA_SIM_TRACE=1
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

using Draw = Plan (*)(uint64_t seed);

bool run_seed(uint64_t seed, Draw draw) {
  Program program(draw(seed));
  bool good = program.run();
  EXPECT_TRUE(good) << program.plan().describe() << "\n  " << program.failure()
                    << "\n  replay: VERBENA_SEED=" << seed << " sim_world_test --gtest_filter="
                    << "SimWorld." << testing::UnitTest::GetInstance()->current_test_info()->name();
  return good;
}

void run_programs(Draw draw) {
  if (uint64_t seed = number("VERBENA_SEED", 0)) {
    Program program(draw(seed), number("VERBENA_SIM_TRACE", 0) != 0);
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
    failed += !run_seed(first + done, draw);
    if (seconds && std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds)) break;
  }
  fmt::print("{} seeds from {}, {} failed\n", done, first, failed);
}

TEST(SimWorld, RandomPrograms) {
  run_programs(draw_plan);
}

// With selective repeat, on roads where packets overtake each other more often.
TEST(SimWorld, RandomProgramsOutOfOrder) {
  run_programs(draw_disorderly_plan);
}

// One seed, one trace: nothing depends on addresses, the clock or the build. The values hold in
// every build type; they change when a plan or the engine's behaviour on the road changes (replay
// one with VERBENA_SEED=n to see its new value, and say in the commit why it changed).
TEST(SimWorld, SameSeedSameTraceInEveryBuild) {
  constexpr std::pair<uint64_t, uint64_t> kGolden[] = {
      {2, 0x100b4b63d7f90dd2},   {3, 0x6295f10d7283cdb8},    {8, 0x6e252121ad1a7be0},
      {10, 0x21c7d6088ab1f68c},  {14, 0xa7f59e074e7fd7fe},   {15, 0x92681dbb8513e413},
      {35, 0xe00e0121fa37da31},  {65, 0x23c9e7bb6caab067},   {92, 0x896c7fc4fe480045},
      {955, 0xc5c3c0bad035b46d}, {1030, 0x8e5bf05ce9039844},
  };
  for (auto [seed, hash] : kGolden) {
    Program first(seed);
    Program second(seed);
    EXPECT_TRUE(first.run()) << first.failure();
    second.run();
    EXPECT_EQ(first.hash(), hash) << fmt::format("seed {}: {:#x}", seed, first.hash());
    EXPECT_EQ(first.hash(), second.hash()) << "seed " << seed;
    EXPECT_EQ(first.world().now().ps, second.world().now().ps);
  }
}

}  // namespace
}  // namespace verbena::sim::test
