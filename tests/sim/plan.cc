// Drawing a plan from its seed.
#include "plan.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbena::sim::test {

namespace {

Faults draw_faults(Prng& prng, Weather weather) {
  Faults f;
  f.delay = nanoseconds(static_cast<int64_t>(prng.between(200, 5000)));
  f.jitter = nanoseconds(static_cast<int64_t>(prng.below(2000)));
  f.refuse_ppm = prng.below(3) == 0 ? static_cast<uint32_t>(prng.below(100'000)) : 0;
  if (prng.below(4) == 0) f.queue_bytes = static_cast<uint32_t>(prng.between(5'000, 60'000));
  bool all = weather == Weather::kAll;
  auto up_to = [&](uint32_t most) { return static_cast<uint32_t>(prng.below(most)); };
  if (weather == Weather::kLossy) f.drop_ppm = up_to(60'000);
  if (weather == Weather::kDamaged) f.corrupt_ppm = up_to(60'000);
  if (weather == Weather::kReordered || all) {
    f.reorder_ppm = up_to(all ? 20'000 : 60'000);
    f.duplicate_ppm = up_to(all ? 30'000 : 100'000);
    f.reorder_by = nanoseconds(static_cast<int64_t>(prng.between(500, 30'000)));
  }
  if (all) {
    f.drop_ppm = up_to(20'000);
    f.corrupt_ppm = up_to(20'000);
  }
  if (weather == Weather::kBursts) {
    f.burst_ppm = up_to(6'000);
    // Four at most: two bursts in a row must leave some of the eight tries.
    f.burst_packets = static_cast<uint32_t>(prng.between(2, 4));
  }
  if (weather == Weather::kCut) {
    f.cut_from = Instant{} + microseconds(static_cast<int64_t>(prng.between(1, 200)));
    f.cut_until = f.cut_from + microseconds(static_cast<int64_t>(prng.between(10, 400)));
  }
  return f;
}

PairPlan draw_pair(Prng& prng, const Plan& plan) {
  using engine::QpType;
  PairPlan pair;
  uint64_t kind = prng.below(20);
  if (kind >= 17)
    pair.type = QpType::kUd;
  else if (kind >= 14)
    pair.type = QpType::kUc;
  else if (kind >= 11)
    pair.type = QpType::kXrcSend;
  pair.work = static_cast<uint32_t>(prng.between(4, plan.local ? 24 : 48));
  pair.depth = static_cast<uint32_t>(prng.between(1, 32));
  pair.rd_atomic = static_cast<uint8_t>(prng.between(1, 6));
  for (uint32_t& psn : pair.first_psn)
    psn = prng.below(2) ? static_cast<uint32_t>(0xffffff - prng.below(80))
                        : static_cast<uint32_t>(prng.below(1 << 24));
  pair.srq = pair.type != QpType::kXrcSend && prng.below(4) == 0;
  pair.windows = pair.type == QpType::kRc && prng.below(3) == 0;
  pair.signal_all = prng.below(8) == 0;
  pair.signal_ppm = prng.below(3) == 0 ? 1'000'000 : static_cast<uint32_t>(prng.below(1'000'000));
  // 4.096 us * 2^code: above the round trip, and 8 of them above every cut.
  pair.timeout = static_cast<uint8_t>(prng.between(6, 8));
  pair.rnr_timer = static_cast<uint8_t>(prng.between(1, 6));
  return pair;
}

}  // namespace

Plan draw_plan(uint64_t seed) {
  Prng prng(Prng(seed).next());
  Plan plan;
  plan.seed = seed;
  plan.local = prng.below(5) == 0;
  plan.mtu_code = static_cast<uint8_t>(prng.below(4) == 0 ? prng.between(2, 3) : 1);
  plan.weather =
      plan.local || prng.below(5) == 0 ? Weather::kClear : static_cast<Weather>(prng.between(1, 7));
  plan.world.seed = seed;
  plan.world.local = plan.local;
  plan.world.faults = draw_faults(prng, plan.weather);
  if (plan.local && prng.below(2) == 0)
    plan.world.lose_ppm = static_cast<uint32_t>(prng.below(50'000));
  plan.world.max_steps = 3'000'000;
  uint64_t pairs = prng.between(1, plan.local ? 2 : 3);
  if (plan.weather == Weather::kPeriodic) {
    // One pair, work one way, losses one way: whatever else shares the road between two tries can
    // count so that every try is the lost one, and that is no engine's fault.
    pairs = 1;
    plan.period = static_cast<uint32_t>(prng.between(5, 40));
    plan.period_from = prng.below(2);
  }
  for (uint64_t i = 0; i < pairs; ++i) plan.pairs.push_back(draw_pair(prng, plan));
  plan.pairs[0].one_way = plan.period > 0;
  if (prng.below(5) == 0) {
    plan.mistake = static_cast<Mistake>(prng.between(1, 6));
    plan.pairs[0].type = engine::QpType::kRc;
    plan.pairs[0].windows = false;
  }
  return plan;
}

Plan draw_disorderly_plan(uint64_t seed) {
  Plan plan = draw_plan(seed);
  Prng prng(seed ^ 0x6f7665727461ull);
  // After a timeout one packet asks: a burst on each road must leave some of its eight tries.
  plan.world.faults.burst_packets = std::min(plan.world.faults.burst_packets, 3u);
  const uint32_t packets[] = {1, static_cast<uint32_t>(prng.between(2, 20)), 64, 512};
  plan.disorder.packets = packets[prng.below(4)];
  plan.disorder.wait = microseconds(static_cast<int64_t>(prng.between(5, 120)));
  bool orderly = plan.period > 0 || plan.local;
  if (!orderly && prng.below(2) == 0) {
    Faults& f = plan.world.faults;
    f.reorder_ppm = static_cast<uint32_t>(prng.below(500'000));
    f.reorder_by = nanoseconds(static_cast<int64_t>(prng.between(500, 30'000)));
    if (plan.weather == Weather::kClear) plan.weather = Weather::kReordered;
  }
  return plan;
}

std::string Plan::describe() const {
  std::string text =
      fmt::format("seed {}: {} mtu {} weather {} mistake {}", seed, local ? "local" : "wire", mtu(),
                  static_cast<int>(weather), static_cast<int>(mistake));
  if (disorder.packets > 0)
    text += fmt::format(" holds {} for {} us", disorder.packets, disorder.wait.ns() / 1000);
  for (const PairPlan& pair : pairs)
    text += fmt::format("; {} x{} depth {} rd {}{}{}", name(pair.type), pair.work, pair.depth,
                        pair.rd_atomic, pair.srq ? " srq" : "", pair.windows ? " mw" : "");
  return text;
}

}  // namespace verbena::sim::test
