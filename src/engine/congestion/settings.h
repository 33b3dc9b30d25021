// Parameters of congestion control under the names that adapters give them, with their units. The
// four DCQCN profiles differ in values, in the order of steps and in clamps; see dcqcn.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace verbena::engine {

// The receiver (notification point): at most one CNP for a flow in this time.
struct NpSettings {
  Duration min_time_between_cnps = microseconds(4);
  uint8_t cnp_dscp = 48;
  uint8_t cnp_802p_prio = 6;
  // Instead of CNPs: each acknowledgement carries the mark of what it acknowledges (BTH BECN), as
  // the HPCC simulator does.
  bool echo_in_acknowledgements = false;
};

// The sender (reaction point). Names and defaults: NVIDIA's rpg_* parameters.
struct DcqcnSettings {
  // Where the sources differ beyond numbers.
  enum Order : uint8_t {
    kNvidia,   // cut by alpha_int / 2^rpg_gd with floors; max(BS,TS)<F fast, min>F hyper
    kPaper,    // SIGCOMM 2015, section 5: cut with the old alpha, then raise it
    kAuthors,  // CoNEXT 2016 simulator: raise alpha, then cut with the new one; own stage rules
    kHpccNs3,  // alpha and cuts on their own timers, no byte counter
  } order = kNvidia;
  bool clamp_tgt_rate = false;
  bool clamp_tgt_rate_after_time_inc = true;
  Duration rpg_time_reset = microseconds(300);  // rate timer
  uint64_t rpg_byte_reset = 32767;              // bytes; 0: no byte counter
  uint32_t rpg_threshold = 1;                   // F, stages of fast recovery
  uint64_t rpg_max_rate = 0;                    // bit/s; 0: the port's
  uint64_t rpg_ai_rate = 5'000'000;             // bit/s
  uint64_t rpg_hai_rate = 50'000'000;           // bit/s
  uint32_t rpg_gd = 11;                         // cut = alpha_int / 2^gd
  uint32_t rpg_min_dec_fac = 50;          // percent of the old rate that a cut leaves at least
  uint64_t rpg_min_rate = 1'000'000;      // bit/s
  uint64_t rate_to_set_on_first_cnp = 0;  // bit/s; 0: leave
  Duration rate_reduce_monitor_period = microseconds(4);  // at most one cut in it
  uint32_t initial_alpha_value = 1023;                    // of 1024
  uint32_t dce_tcp_g = 1019;                              // of 1024: share that alpha keeps
  Duration dce_tcp_rtt = microseconds(1);                 // alpha tick
};
// "nvidia", "paper", "authors", "hpcc-ns3"; nothing for another name.
std::optional<DcqcnSettings> dcqcn_profile(std::string_view name);
// What the receiver does beside it.
std::optional<NpSettings> np_profile(std::string_view name);

// Swift (SIGCOMM 2020, section 3): a target of the delay, additive increase, one cut in a round
// trip. Hop scaling and flow scaling as there; pacing below one packet. Windows are in packets.
struct SwiftSettings {
  static constexpr uint32_t kMeasured = UINT32_MAX;
  Duration base_target = microseconds(25);
  Duration hop_scale = microseconds(1);
  uint32_t hops = kMeasured;       // or as many as the acknowledgement passed
  double additive_increase = 1.0;  // a round trip
  double beta = 0.8;
  double max_decrease = 0.5;  // share of the window
  double flow_scale_range_us = 20;
  double flow_scale_min_window = 0.1;  // at and below it the whole range is added
  double flow_scale_max_window = 100;  // at and above it nothing
  uint32_t retransmit_reset = 5;       // timeouts in a row that leave min_window
  double initial_window = 64;
  double min_window = 0.01;
  double max_window = 512;
};

// HPCC (SIGCOMM 2019, algorithm 1).
struct HpccSettings {
  double eta = 0.95;
  uint32_t max_stage = 5;
  uint64_t additive_bits_per_second = 40'000'000;  // W_AI as a rate
  uint64_t min_rate = 1'000'000'000;               // bit/s
  Duration base_round_trip = microseconds(12);
};

struct CongestionSettings {
  enum Algorithm : uint8_t { kNone, kDcqcn, kSwift, kHpcc } algorithm = kDcqcn;
  NpSettings np;
  DcqcnSettings dcqcn;
  SwiftSettings swift;
  HpccSettings hpcc;
};

}  // namespace verbena::engine
