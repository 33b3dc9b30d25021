// DCQCN's state machine and the four profiles.
#include "engine/congestion/dcqcn.h"

#include <algorithm>

namespace verbena::engine {

namespace {

using Order = DcqcnSettings::Order;

// base^n by squaring: the same bits on every machine and library.
double power(double base, uint64_t n) {
  double result = 1;
  for (; n != 0; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return result;
}

// Whole periods from `from` to `to`.
uint64_t periods(Instant from, Instant to, Duration period) {
  return to <= from ? 0 : static_cast<uint64_t>((to - from).ps / period.ps);
}

bool counts_bytes(Order order) {
  return order != DcqcnSettings::kHpccNs3;
}

}  // namespace

Dcqcn::Dcqcn(const DcqcnSettings& settings, uint64_t port_rate)
    : settings_(settings),
      most_(settings.rpg_max_rate != 0 ? std::min(settings.rpg_max_rate, port_rate) : port_rate),
      keep_(settings.dce_tcp_g / 1024.0),
      rate_(most_),
      target_(most_) {
  settings_.rpg_min_rate = std::clamp<uint64_t>(settings_.rpg_min_rate, 1, most_);
  settings_.dce_tcp_rtt = std::max(settings_.dce_tcp_rtt, picoseconds(1));
  settings_.rate_reduce_monitor_period =
      std::max(settings_.rate_reduce_monitor_period, picoseconds(1));
  settings_.rpg_time_reset = std::max(settings_.rpg_time_reset, picoseconds(2));
  alpha_.value = settings.initial_alpha_value / 1024.0;
}

// --- what is asked

uint64_t Dcqcn::rate(Instant now) {
  advance(now);
  return rate_;
}

uint64_t Dcqcn::target(Instant now) {
  advance(now);
  return target_;
}

Instant Dcqcn::next_change(Instant now) {
  advance(now);
  return std::min(cut_due_, settled() ? kNever : stage_at_);
}

double Dcqcn::alpha(Instant now) {
  advance(now);
  return alpha_at(now);
}

// --- alpha

double Dcqcn::alpha_at(Instant now) const {
  if (!marked_before_) return alpha_.value;
  Duration tick = settings_.dce_tcp_rtt;
  if (alpha_.marked > now) return alpha_.value * power(keep_, periods(alpha_.settled, now, tick));
  double then = alpha_.value * power(keep_, periods(alpha_.settled, alpha_.marked, tick));
  return (then + (1 - keep_)) * power(keep_, periods(alpha_.marked, now, tick));
}

// The first tick after `now`.
Instant Dcqcn::next_tick(Instant now) const {
  auto passed = static_cast<int64_t>(periods(alpha_.settled, now, settings_.dce_tcp_rtt));
  return alpha_.settled + settings_.dce_tcp_rtt * (passed + 1);
}

// Takes a mark into account whose tick has passed.
void Dcqcn::settle_alpha(Instant now) {
  if (alpha_.marked > now) return;
  alpha_.value = alpha_at(alpha_.marked);
  alpha_.settled = alpha_.marked;
  alpha_.marked = kNever;
}

// --- down

void Dcqcn::mark(Instant now) {
  advance(now);
  settle_alpha(now);
  bool first = !marked_before_;
  marked_before_ = true;
  if (first) {
    alpha_.settled = first_mark_ = now;
    if (settings_.rate_to_set_on_first_cnp != 0)
      rate_ = target_ =
          std::clamp(settings_.rate_to_set_on_first_cnp, settings_.rpg_min_rate, rate_);
  }
  switch (settings_.order) {
    case Order::kPaper:  // cut with the old alpha, then raise it
      cut(now);
      alpha_.value = alpha_at(now) * keep_ + (1 - keep_);
      alpha_.settled = now;
      return;
    case Order::kAuthors:  // raise alpha, then cut with the new one
      alpha_.value = alpha_at(now) * keep_ + (1 - keep_);
      alpha_.settled = now;
      cut(now);
      return;
    case Order::kNvidia:
      if (!first) alpha_.marked = next_tick(now);
      if (now - last_cut_ < settings_.rate_reduce_monitor_period) return;
      last_cut_ = now;
      // A first rate that was set stands for the first cut.
      if (first && settings_.rate_to_set_on_first_cnp != 0) return restart(now);
      cut(now);
      return;
    case Order::kHpccNs3:
      // The first mark sets alpha and starts both timers; it is no gain of its first tick.
      if (!first) alpha_.marked = next_tick(now);
      // The next check sees it; one at this very instant has been.
      cut_due_ = first_mark_ + settings_.rate_reduce_monitor_period *
                                   (static_cast<int64_t>(periods(
                                        first_mark_, now, settings_.rate_reduce_monitor_period)) +
                                    1);
      return;
  }
}

// Whether the target rate survives a cut: no stage has passed since the last one.
bool Dcqcn::keeps_target() const {
  if (settings_.order == Order::kPaper || settings_.clamp_tgt_rate) return false;
  if (settings_.order == Order::kHpccNs3) return time_stage_ == 0;
  return byte_stage_ == 0 && (time_stage_ == 0 || !settings_.clamp_tgt_rate_after_time_inc);
}

uint64_t Dcqcn::reduced(double alpha) const {
  if (settings_.order != Order::kNvidia)
    return static_cast<uint64_t>(static_cast<double>(rate_) * (1 - alpha / 2));
  // The adapter's alpha has ten bits; the cut is a shift.
  auto bits = std::min<uint64_t>(1023, static_cast<uint64_t>(alpha * 1024));
  double down = static_cast<double>(bits) / static_cast<double>(uint64_t{1} << settings_.rpg_gd);
  auto wanted = static_cast<uint64_t>(static_cast<double>(rate_) * std::max(0.0, 1 - down));
  return std::max(wanted, rate_ * settings_.rpg_min_dec_fac / 100);
}

void Dcqcn::cut(Instant now) {
  if (!keeps_target()) target_ = rate_;
  rate_ = std::clamp(reduced(alpha_at(now)), settings_.rpg_min_rate, rate_);
  restart(now);
}

void Dcqcn::restart(Instant now) {
  time_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  byte_limit_ = settings_.rpg_byte_reset;
  hyper_ = false;
  stage_at_ = now + settings_.rpg_time_reset;
}

// --- up

// Brings cuts and stages up to `now`, in their order.
void Dcqcn::advance(Instant now) {
  while (stage_at_ <= now || cut_due_ <= now) {
    if (cut_due_ <= stage_at_) {
      Instant at = cut_due_;
      cut_due_ = kNever;
      settle_alpha(at);
      cut(at);
    } else if (settled()) {
      // Whatever stages follow change nothing before the next cut, which begins anew.
      stage_at_ = kNever;
    } else {
      uint64_t rate = rate_, target = target_;
      timer_stage();
      if (rate == rate_ && target == target_ && time_stage_ > settings_.rpg_threshold) skip(now);
    }
  }
}

// A stage that changed nothing (no increase is set): those until `now` change nothing either.
void Dcqcn::skip(Instant now) {
  if (stage_at_ > now) return;
  uint64_t stages = periods(stage_at_, now, settings_.rpg_time_reset) + 1;
  time_stage_ += static_cast<uint32_t>(std::min<uint64_t>(stages, UINT32_MAX - time_stage_));
  stage_at_ = stage_at_ + settings_.rpg_time_reset * static_cast<int64_t>(stages);
}

void Dcqcn::timer_stage() {
  Duration period = settings_.rpg_time_reset;
  if (hyper_) period = {period.ps / 2};
  if (settings_.order == Order::kHpccNs3) {  // a stage counts from 0 there
    increase(time_stage_);
    ++time_stage_;
  } else {
    increase(++time_stage_);
  }
  stage_at_ = stage_at_ + period;
}

void Dcqcn::on_sent(Instant now, uint32_t wire_bytes) {
  if (settings_.rpg_byte_reset == 0 || !counts_bytes(settings_.order)) return;
  advance(now);
  if (!marked_before_ || settled()) return;
  bytes_ += wire_bytes;
  while (bytes_ >= byte_limit_ && !settled()) {
    bytes_ -= byte_limit_;
    byte_limit_ =
        hyper_ ? std::max<uint64_t>(1, settings_.rpg_byte_reset / 2) : settings_.rpg_byte_reset;
    increase(++byte_stage_);
  }
}

// One stage has passed; `own_stage` is the number of the counter that made it.
void Dcqcn::increase(uint32_t own_stage) {
  uint32_t fast = settings_.rpg_threshold;
  uint32_t least = std::min(time_stage_, byte_stage_), most = std::max(time_stage_, byte_stage_);
  uint64_t up = 0;
  hyper_ = false;
  switch (settings_.order) {
    case Order::kPaper:
    case Order::kNvidia:
      // F whole stages of fast recovery in the paper and its fluid model; NVIDIA's threshold is the
      // stage that ends it, as in 802.1Qau.
      if (settings_.order == Order::kPaper ? most > fast : most >= fast)
        up = least > fast ? (least - fast) * settings_.rpg_hai_rate : settings_.rpg_ai_rate;
      break;
    case Order::kAuthors:
      if (own_stage >= fast) {
        hyper_ = least >= fast;
        up = hyper_ ? (least - fast + 1) * settings_.rpg_hai_rate : settings_.rpg_ai_rate;
      }
      // A target far above the rate is not believed: instead of any increase it falls.
      if ((time_stage_ == 1 || byte_stage_ == 1) && target_ > 10 * rate_) {
        target_ /= 8;
        up = 0;
      }
      break;
    case Order::kHpccNs3:
      if (own_stage >= fast)
        up = own_stage == fast ? settings_.rpg_ai_rate : settings_.rpg_hai_rate;
      break;
  }
  target_ = std::min(most_, target_ + up);
  rate_ += (target_ - rate_ + 1) / 2;  // up, or the last bit would never be reached
}

// --- profiles

std::optional<DcqcnSettings> dcqcn_profile(std::string_view name) {
  DcqcnSettings s;
  if (name == "nvidia") return s;
  // What the other three have in common.
  s.clamp_tgt_rate_after_time_inc = false;
  s.initial_alpha_value = 1024;
  s.dce_tcp_g = 1020;  // g = 1/256
  s.rpg_min_dec_fac = 0;
  s.rate_reduce_monitor_period = {};
  s.rpg_threshold = 5;
  s.rpg_ai_rate = 40'000'000;
  s.rpg_hai_rate = 200'000'000;
  if (name == "paper") {  // SIGCOMM 2015, section 5; its hyper increase and floor are not given
    s.order = DcqcnSettings::kPaper;
    s.clamp_tgt_rate = true;
    s.rpg_time_reset = s.dce_tcp_rtt = microseconds(55);
    s.rpg_byte_reset = 10'000'000;
    s.rpg_hai_rate = 40'000'000;
    s.rpg_min_rate = 10'000'000;
    return s;
  }
  if (name == "authors") {  // the configuration that comes with the authors' simulator
    s.order = DcqcnSettings::kAuthors;
    s.clamp_tgt_rate = true;
    s.rpg_time_reset = microseconds(60);
    s.dce_tcp_rtt = microseconds(55);
    s.rpg_byte_reset = 300'000'000;
    s.rpg_min_rate = 100'000'000;
    return s;
  }
  if (name == "hpcc-ns3") {  // column dcqcn of the reference runs' parameters
    s.order = DcqcnSettings::kHpccNs3;
    s.rpg_time_reset = microseconds(300);
    s.dce_tcp_rtt = microseconds(1);
    s.rate_reduce_monitor_period = microseconds(4);
    s.rpg_byte_reset = 0;
    s.rpg_threshold = 1;
    s.rpg_ai_rate = 20'000'000;
    s.rpg_min_rate = 1'000'000'000;
    return s;
  }
  return std::nullopt;
}

std::optional<NpSettings> np_profile(std::string_view name) {
  NpSettings s;
  if (name == "paper" || name == "authors")
    s.min_time_between_cnps = microseconds(50);
  else if (name == "hpcc-ns3")
    s.echo_in_acknowledgements = true;
  else if (name != "nvidia")
    return std::nullopt;
  return s;
}

}  // namespace verbena::engine
