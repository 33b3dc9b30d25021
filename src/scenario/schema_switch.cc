// [switch] and the tables within it.
#include "scenario/schema_devices.h"

namespace verbena::scenario {

using fabric::PortSettings;

namespace {
constexpr double kMostQueue = 1e12;
}

const std::vector<Key<SwitchForm>>& switch_form_keys() {
  using F = SwitchForm;
  static const std::vector<Key<F>> kKeys = {
      choice_key("profile", &F::profile, {"none", "cumulus", "sonic", "hpcc-ns3"},
                 "where its settings begin"),
      choice_key("roce", &F::roce, {"off", "lossy", "lossless"},
                 "mode of the profile, as `nv set qos roce mode` has it"),
      choice_key("headroom_formula", &F::formula, {"mlx5", "sonic", "hpcc"},
                 "for headroom = \"auto\"; see verbena fabric headroom"),
      flag_key("scale_with_rate", &F::scale_with_rate,
               "ports faster than the hosts' have ECN thresholds and alpha in proportion"),
  };
  return kKeys;
}

const std::vector<Key<fabric::SwitchSettings>>& switch_keys() {
  using S = fabric::SwitchSettings;
  static const std::vector<Key<S>> kKeys = {
      bytes_key("buffer", &S::buffer_bytes, kMostBytes, "packet memory of the switch", 10'000),
      time_key("latency", &S::latency, 0, "from the last bit in to the first bit out"),
      flag_key("telemetry", &S::telemetry, "writes into packets that ask for it (hpcc)"),
      count_key("hash_seed", &S::hash_seed, 0, UINT32_MAX, "of ECMP"),
      choice_key("headroom_pool", &S::headroom, {"per-group", "per-port"},
                 "whether the shared pool lacks one headroom for each group or for each port"),
  };
  return kKeys;
}

const std::vector<Key<PortSettings>>& port_keys() {
  using P = PortSettings;
  static const std::vector<Key<P>> kKeys = {
      choice_key("trust", &P::trust, {"port", "pcp", "dscp", "both"},
                 "what decides a packet's priority; both: DSCP of IP packets"),
      count_key("default_priority", &P::default_priority, 0, 7, "of frames without it"),
      map_key("dscp_to_priority", &P::dscp_to_priority, 7, "DSCP = priority"),
      map_key("pcp_to_priority", &P::pcp_to_priority, 7, "PCP = priority"),
      map_key("priority_to_queue", &P::priority_to_queue, 7, "priority = egress queue"),
      map_key("priority_to_group", &P::priority_to_group, 7, "priority = ingress group"),
      map_key("pfc_priority_to_queue", &P::pfc_priority_to_queue, 7,
              "priority of a pause = queue that it stops"),
      map_key("remark_dscp", &P::remark_dscp, 63, "priority = DSCP at egress"),
      flag_key("link_pause", &P::link_pause, "802.3x: every priority at once, instead of PFC"),
      whole_key("mtu", Kind::kBytes, &P::mtu, 256, 65536, "longest IP packet"),
  };
  return kKeys;
}

const std::vector<Key<fabric::PfcSettings>>& pfc_keys() {
  using P = fabric::PfcSettings;
  static const std::vector<Key<P>> kKeys = [] {
    Key<P> both = priorities_key("priorities", &P::tx_mask, "rx and tx together");
    both.usual = "rx and tx";
    both.store = [](P& to, const Value& value) {
      to.rx_mask = to.tx_mask = static_cast<uint8_t>(value.whole);
    };
    return std::vector<Key<P>>{
        std::move(both),
        priorities_key("rx", &P::rx_mask, "whose pause frames are obeyed"),
        priorities_key("tx", &P::tx_mask, "that pause their sender: lossless"),
        count_key("quanta", &P::quanta, 1, 65535, "of 512 bit times, in a pause frame"),
        flag_key("expires", &P::expires, "a pause ends after its quanta, not only by XON"),
        real_key("refresh", Kind::kShare, &P::refresh, 0.01, 0.99,
                 "of its time, after which a pause that lasts is sent again"),
        time_key("response", &P::response, 0, "from a pause frame's arrival to its effect"),
        or_word(real_key("cable", Kind::kLength, &P::cable_metres, 0.1, 200'000,
                         "what headroom is computed for"),
                "link", &P::cable_metres, 0.0),
    };
  }();
  return kKeys;
}

const std::vector<Key<fabric::GroupSettings>>& group_keys() {
  using G = fabric::GroupSettings;
  static const std::vector<Key<G>> kKeys = [] {
    Key<G> fixed =
        bytes_key("static", &G::static_bytes, kMostBytes, "threshold in bytes, instead of alpha");
    fixed.usual = "alpha";
    fixed.store = [](G& to, const Value& value) {
      to.static_bytes = value.whole;
      to.dynamic = false;
    };
    Key<G> alpha = real_key("alpha", Kind::kNumber, &G::alpha, 0.0001, 1000,
                            "threshold: so many times the free part of the shared pool");
    alpha.store = [](G& to, const Value& value) {
      to.alpha = value.real;
      to.dynamic = true;
    };
    return std::vector<Key<G>>{
        flag_key("lossless", &G::lossless, "stops its sender at the threshold"),
        bytes_key("reserved", &G::reserved_bytes, kMostBytes, "guaranteed, before the shared pool"),
        or_word(bytes_key("headroom", &G::headroom_bytes, kMostBytes, "behind the threshold"),
                "auto", &G::headroom_bytes, kAutoHeadroom),
        bytes_key("xon_offset", &G::xon_offset_bytes, kMostBytes,
                  "goes on when it is so far below the threshold"),
        std::move(alpha),
        std::move(fixed),
    };
  }();
  return kKeys;
}

const std::vector<Key<fabric::EcnSettings>>& ecn_keys() {
  using E = fabric::EcnSettings;
  static const std::vector<Key<E>> kKeys = {
      flag_key("mark", &E::mark, "CE on packets that can carry it"),
      flag_key("drop", &E::drop, "WRED: drops packets that cannot, by the same thresholds"),
      bytes_key("min", &E::min_bytes, kMostQueue, "Kmin: no marks below"),
      bytes_key("max", &E::max_bytes, kMostQueue, "Kmax: every packet above"),
      real_key("probability", Kind::kShare, &E::probability, 0, 1, "Pmax: at Kmax"),
      choice_key("at", &E::at, {"dequeue", "enqueue"}, "when the queue is looked at"),
  };
  return kKeys;
}

const std::vector<Key<fabric::QueueSettings>>& queue_keys() {
  using Q = fabric::QueueSettings;
  static const std::vector<Key<Q>> kKeys = {
      flag_key("strict", &Q::strict, "before all others; the higher number first"),
      count_key("weight", &Q::weight, 1, 1000, "share of what the strict ones leave"),
      or_word(bytes_key("max", &Q::max_bytes, kMostQueue, "tail drop above"), "none", &Q::max_bytes,
              fabric::kNoLimit),
      real_key("alpha", Kind::kNumber, &Q::alpha, 0, 1000,
               "tail drop above so many times the free shared pool; 0: max alone"),
  };
  return kKeys;
}

const std::vector<Key<fabric::RoutingSettings>>& routing_keys() {
  using R = fabric::RoutingSettings;
  static const std::vector<Key<R>> kKeys = {
      choice_key("mode", &R::mode, {"ecmp", "adaptive", "flowlet"},
                 "among equal paths: by 5-tuple, per packet to the least loaded, by flowlet"),
      time_key("flowlet_gap", &R::flowlet_gap, 0, "pause after which a flow may change its path"),
      count_key("flowlet_entries", &R::flowlet_entries, 1, 1 << 20, "of the table: 2^n"),
      real_key("utilisation_threshold", Kind::kShare, &R::utilisation_threshold, 0, 1,
               "adaptive: a port above it counts as more loaded"),
      bytes_key("queue_step", &R::queue_step_bytes, kMostQueue,
                "adaptive: queue bytes of one grade of load", 1),
  };
  return kKeys;
}

const std::vector<Key<fabric::WatchdogSettings>>& watchdog_keys() {
  using W = fabric::WatchdogSettings;
  static const std::vector<Key<W>> kKeys = {
      choice_key("machine", &W::machine, {"off", "sonic", "cumulus"}, "whose rules it follows"),
      priorities_key("priorities", &W::mask, "that it watches"),
      time_key("detection", &W::detection, 1e6, "sonic: a storm after so long"),
      time_key("restoration", &W::restoration, 1e6, "sonic: normal again after so long"),
      time_key("poll", &W::poll, 1e6, "between two looks"),
      choice_key("action", &W::action, {"drop", "forward", "alert"}, "sonic: in a storm"),
      count_key("robustness", &W::robustness, 1, 1000, "cumulus: looks in a row"),
  };
  return kKeys;
}

}  // namespace verbena::scenario
