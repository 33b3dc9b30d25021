// [host] and the tables within it. Congestion control has the names that adapters give.
#include "scenario/schema_devices.h"

namespace verbena::scenario {

const std::vector<Key<HostForm>>& host_form_keys() {
  using F = HostForm;
  static const std::vector<Key<F>> kKeys = {
      choice_key("profile", &F::profile, {"roce", "hpcc-ns3"}, "where its settings begin"),
  };
  return kKeys;
}

const std::vector<Key<Adapter>>& adapter_keys() {
  using A = Adapter;
  static const std::vector<Key<A>> kKeys = {
      whole_key("path_mtu", Kind::kBytes, &A::path_mtu, 256, 4096, "payload of a packet"),
      count_key("dscp", &A::dscp, 0, 63, "of RoCE packets"),
      flag_key("ect", &A::ect, "ECN-capable: switches may mark instead of drop"),
      count_key("priority", &A::priority, 0, 7, "PCP, and the adapter's class"),
      flag_key("selective_repeat", &A::selective_repeat,
               "toward hosts that have it too: packets may overtake, only what is missing is sent "
               "again"),
      count_key("reorder_packets", &A::reorder_packets, 1, 65536,
                "held back at most while one is missing, and the most in flight"),
      time_key("reorder_wait", &A::reorder_wait, 1e3,
               "so long a missing packet may just be late, then it is asked for"),
      count_key("timeout", &A::timeout, 0, 31, "local ACK timeout: 4.096 us * 2^timeout; 0: none"),
      count_key("retry_count", &A::retry_count, 0, 7, "before a queue pair fails"),
      count_key("rnr_retry", &A::rnr_retry, 0, 7, "7: for ever"),
      or_word(
          bytes_key("window", &A::window_bytes, kMostBytes, "payload in flight of one queue pair"),
          "none", &A::window_bytes, uint64_t{0}),
      count_key("ack_every", &A::ack_every, 0, 1024,
                "packets; 0: every one with swift and hpcc, else the engine's own choice"),
      or_word(count_key("ack_priority", &A::ack_priority, 0, 7, "of acknowledgements"), "same",
              &A::ack_priority, Adapter::kSame),
      count_key("header_bytes", &A::header_bytes, 0, 1000,
                "counted around the payload; 0: the real ones"),
      count_key("ack_bytes", &A::ack_bytes, 0, 1000, "of an acknowledgement; 0: the real ones"),
      flag_key("payload", &A::payload,
               "real bytes in memory, each one checked; else lengths only. On every host or none"),
  };
  return kKeys;
}

const std::vector<Key<engine::CongestionSettings>>& congestion_keys() {
  using C = engine::CongestionSettings;
  static const std::vector<Key<C>> kKeys = {
      choice_key("congestion", &C::algorithm, {"none", "dcqcn", "swift", "hpcc"},
                 "what limits the sender's rate"),
  };
  return kKeys;
}

const std::vector<Key<fabric::HostSettings>>& receive_keys() {
  using H = fabric::HostSettings;
  static const std::vector<Key<H>> kKeys = {
      or_word(
          rate_key("rate", &H::receive_bits_per_second, 1e6, "a slow receiver: takes in so much"),
          "line", &H::receive_bits_per_second, uint64_t{0}),
      bytes_key("buffer", &H::receive_buffer_bytes, kMostBytes, "of the adapter, then it drops"),
      bytes_key("xoff", &H::receive_xoff_bytes, kMostBytes, "use at which it pauses its switch"),
      bytes_key("xon", &H::receive_xon_bytes, kMostBytes, "use at which that ends"),
  };
  return kKeys;
}

const std::vector<Key<fabric::HostSettings>>& storm_keys() {
  using H = fabric::HostSettings;
  static const std::vector<Key<H>> kKeys = {
      priorities_key("priorities", &H::storm_mask, "a broken adapter pauses these without end"),
      time_key("from", &H::storm_from, 0, "when it begins"),
      or_word(time_key("until", &H::storm_until, 0, "when it is over"), "end", &H::storm_until,
              fabric::kForever),
      time_key("interval", &H::storm_interval, 1e3, "between pause frames"),
  };
  return kKeys;
}

const std::vector<Key<engine::DcqcnSettings>>& dcqcn_keys() {
  using D = engine::DcqcnSettings;
  static const std::vector<Key<D>> kKeys = {
      choice_key("profile", &D::order, {"nvidia", "paper", "authors", "hpcc-ns3"},
                 "order of the steps, and where the values begin"),
      flag_key("clamp_tgt_rate", &D::clamp_tgt_rate, "every CNP sets the target rate"),
      flag_key("clamp_tgt_rate_after_time_inc", &D::clamp_tgt_rate_after_time_inc,
               "also when only the timer has raised it"),
      time_key("rpg_time_reset", &D::rpg_time_reset, 1e6, "rate timer"),
      bytes_key("rpg_byte_reset", &D::rpg_byte_reset, 1e12, "byte counter; 0: none"),
      count_key("rpg_threshold", &D::rpg_threshold, 0, 31, "F: stages of fast recovery"),
      or_word(rate_key("rpg_max_rate", &D::rpg_max_rate, 1e6, "highest rate"), "port",
              &D::rpg_max_rate, uint64_t{0}),
      rate_key("rpg_ai_rate", &D::rpg_ai_rate, 0, "additive increase"),
      rate_key("rpg_hai_rate", &D::rpg_hai_rate, 0, "hyper increase"),
      count_key("rpg_gd", &D::rpg_gd, 0, 15, "a cut is alpha / 2^gd; 11: half of alpha"),
      count_key("rpg_min_dec_fac", &D::rpg_min_dec_fac, 0, 100,
                "percent of the rate that a cut leaves at least"),
      rate_key("rpg_min_rate", &D::rpg_min_rate, 1e3, "lowest rate"),
      or_word(rate_key("rate_to_set_on_first_cnp", &D::rate_to_set_on_first_cnp, 1e6,
                       "after the first CNP, instead of a cut"),
              "leave", &D::rate_to_set_on_first_cnp, uint64_t{0}),
      time_key("rate_reduce_monitor_period", &D::rate_reduce_monitor_period, 0,
               "at most one cut in it"),
      count_key("initial_alpha_value", &D::initial_alpha_value, 0, 1024, "of 1024"),
      count_key("dce_tcp_g", &D::dce_tcp_g, 0, 1024, "of 1024: share that alpha keeps"),
      time_key("dce_tcp_rtt", &D::dce_tcp_rtt, 1e6, "alpha's tick"),
  };
  return kKeys;
}

const std::vector<Key<engine::NpSettings>>& np_keys() {
  using N = engine::NpSettings;
  static const std::vector<Key<N>> kKeys = {
      time_key("min_time_between_cnps", &N::min_time_between_cnps, 0, "of one flow"),
      count_key("cnp_dscp", &N::cnp_dscp, 0, 63, "of CNPs"),
      count_key("cnp_802p_prio", &N::cnp_802p_prio, 0, 7, "of CNPs: PCP, and the adapter's class"),
      flag_key("echo_in_acknowledgements", &N::echo_in_acknowledgements,
               "no CNPs: acknowledgements carry the marks"),
  };
  return kKeys;
}

const std::vector<Key<engine::SwiftSettings>>& swift_keys() {
  using S = engine::SwiftSettings;
  static const std::vector<Key<S>> kKeys = {
      time_key("base_target", &S::base_target, 1e3, "delay that it aims at"),
      time_key("hop_scale", &S::hop_scale, 0, "added for each hop"),
      or_word(count_key("hops", &S::hops, 0, 64,
                        "that are added; \"path\": the switches that the acknowledgement passed"),
              "path", &S::hops, S::kMeasured),
      real_key("additive_increase", Kind::kNumber, &S::additive_increase, 0, 1000,
               "packets a round trip"),
      real_key("beta", Kind::kNumber, &S::beta, 0, 10, "how hard it cuts"),
      real_key("max_decrease", Kind::kShare, &S::max_decrease, 0, 1, "of the window, in one cut"),
      real_key("flow_scale_range_us", Kind::kNumber, &S::flow_scale_range_us, 0, 1e6,
               "microseconds that many flows add to the target"),
      real_key("flow_scale_min_window", Kind::kNumber, &S::flow_scale_min_window, 1e-6, 1e6,
               "packets: a window for which all of that is added"),
      real_key("flow_scale_max_window", Kind::kNumber, &S::flow_scale_max_window, 1e-6, 1e6,
               "packets: one for which nothing is"),
      count_key("retransmit_reset", &S::retransmit_reset, 1, 1000,
                "timeouts in a row, after which min_window is left"),
      real_key("initial_window", Kind::kNumber, &S::initial_window, 1e-6, 1e6, "packets"),
      real_key("min_window", Kind::kNumber, &S::min_window, 1e-6, 1e6, "packets"),
      real_key("max_window", Kind::kNumber, &S::max_window, 1, 1e6, "packets"),
  };
  return kKeys;
}

const std::vector<Key<engine::HpccSettings>>& hpcc_keys() {
  using H = engine::HpccSettings;
  static const std::vector<Key<H>> kKeys = {
      real_key("eta", Kind::kShare, &H::eta, 0.1, 1, "use of a link that it aims at"),
      count_key("max_stage", &H::max_stage, 0, 1000, "additive steps between two others"),
      rate_key("additive_rate", &H::additive_bits_per_second, 0, "W_AI, as a rate"),
      rate_key("min_rate", &H::min_rate, 1e6, "lowest rate"),
      time_key("base_round_trip", &H::base_round_trip, 1e3, "without queues"),
  };
  return kKeys;
}

}  // namespace verbena::scenario
