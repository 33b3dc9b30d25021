// The fluid model of DCQCN (Zhu, Ghobadi, Misra, Padhye: "ECN or Delay", CoNEXT 2016): where N
// flows through one port settle, as an oracle for the packet simulation.
#pragma once

#include <cstdint>

namespace verbena::sim {

struct FluidParameters {
  double capacity_bps = 40e9;  // of the port
  uint32_t flows = 2;
  double packet_bytes = 1000;
  double cnp_interval_s = 50e-6;     // tau: at most one cut in it
  double alpha_interval_s = 55e-6;   // tau'
  double rate_timer_s = 55e-6;       // T
  double byte_counter_bytes = 10e6;  // B
  double fast_recovery = 5;          // F
  double additive_bps = 40e6;        // R_AI
  double kmin_bytes = 5e3;
  double kmax_bytes = 200e3;
  double pmax = 0.01;
};

struct FluidPoint {
  double marking = 0;      // p*, probability
  double queue_bytes = 0;  // q*, by the marking line continued above Kmax
  double alpha = 0;
};

// The unique fixed point, equation 13 there, by bisection.
FluidPoint fluid_fixed_point(const FluidParameters& parameters);

}  // namespace verbena::sim
