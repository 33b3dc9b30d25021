// What one seed stands for: the road's faults, the queue pairs, their numbers, and whether
// something goes wrong on purpose.
#pragma once

#include <string>
#include <vector>

#include "sim/world.h"

namespace verbena::sim::test {

// A work request that must fail, put into the middle of one queue pair's program.
enum class Mistake : uint8_t {
  kNone,
  kBadRkey,
  kOutOfRange,
  kNoPermission,
  kMisalignedAtomic,
  kTooLongSend,
  kBadLkey,
};

enum class Weather : uint8_t {
  kClear,
  kLossy,
  kReordered,
  kDamaged,
  kBursts,
  kPeriodic,
  kCut,
  kAll
};

struct PairPlan {
  engine::QpType type = engine::QpType::kRc;
  uint32_t work = 0;  // work requests per direction
  uint32_t depth = 16;
  uint8_t rd_atomic = 1;
  uint32_t first_psn[2] = {0, 0};
  bool one_way = false;  // only side 0 posts
  bool srq = false;
  bool windows = false;
  bool signal_all = false;
  uint32_t signal_ppm = 500'000;
  uint8_t timeout = 6;
  uint8_t rnr_timer = 1;
};

struct Plan {
  uint64_t seed = 0;
  bool local = false;
  uint8_t mtu_code = 1;
  Weather weather = Weather::kClear;
  WorldOptions world;
  uint32_t period = 0;     // every period-th packet from host period_from is lost; 0: none
  size_t period_from = 0;  // 0 or 1
  std::vector<PairPlan> pairs;
  Mistake mistake = Mistake::kNone;  // in pair 0, side 0
  engine::ReorderSettings disorder;  // what the queue pairs have agreed on

  uint32_t mtu() const { return engine::path_mtu_bytes(mtu_code); }
  bool loses() const { return weather != Weather::kClear || world.lose_ppm > 0; }
  // Unreliable services may see messages twice or out of order.
  bool disorders() const {
    return weather == Weather::kReordered || weather == Weather::kAll ||
           world.faults.reorder_ppm > 0;
  }
  std::string describe() const;
};

Plan draw_plan(uint64_t seed);
// The same plan for queue pairs that live with disorder: the wait, the window and rougher roads are
// drawn beside it.
Plan draw_disorderly_plan(uint64_t seed);

}  // namespace verbena::sim::test
