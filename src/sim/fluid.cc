// One equation in one unknown; see fluid.h.
#include "sim/fluid.h"

#include <cmath>

namespace verbena::sim {

namespace {

struct Terms {
  double left = 0;  // what of the equation depends on p
  double alpha = 0;
};

// All in packets and packets a second. (1-p)^n as exp(n log1p(-p)): n goes up to 10^4.
Terms terms_at(double p, const FluidParameters& in, double rate) {
  auto survive = [p](double packets) { return std::exp(packets * std::log1p(-p)); };
  auto grown = [p](double packets) { return std::expm1(-packets * std::log1p(-p)); };
  double bytes = in.byte_counter_bytes / in.packet_bytes;
  double timer = in.rate_timer_s * rate;
  double a = 1 - survive(in.cnp_interval_s * rate);
  double b = p / grown(bytes);
  double c = b * survive(in.fast_recovery * bytes);
  double d = p / grown(timer);
  double e = d * survive(in.fast_recovery * timer);
  Terms out;
  out.alpha = 1 - survive(in.alpha_interval_s * rate);
  out.left = a * a * out.alpha / ((b + d) * (c + e));
  return out;
}

}  // namespace

FluidPoint fluid_fixed_point(const FluidParameters& in) {
  double packet_bits = in.packet_bytes * 8;
  double rate = in.capacity_bps / packet_bits / in.flows;
  double right = in.cnp_interval_s * in.cnp_interval_s * (in.additive_bps / packet_bits) * rate;
  double low = 1e-9, high = 0.999;
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    double middle = std::sqrt(low * high);
    (terms_at(middle, in, rate).left < right ? low : high) = middle;
  }
  FluidPoint out;
  out.marking = std::sqrt(low * high);
  out.alpha = terms_at(out.marking, in, rate).alpha;
  out.queue_bytes = in.kmin_bytes + out.marking / in.pmax * (in.kmax_bytes - in.kmin_bytes);
  return out;
}

}  // namespace verbena::sim
