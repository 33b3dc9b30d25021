// [[flow]] and [[workload]].
#include "scenario/schema.h"

namespace verbena::scenario {
namespace {

using F = WorkloadForm;
using W = Workload;

constexpr double kMostMessage = 1e15;

// What of a flow and of a workload has the same meaning.
template <typename T>
std::vector<Key<T>> message_keys() {
  return {
      or_word(bytes_key("bytes", &T::bytes, kMostMessage, "of each message", 1), "endless",
              &T::bytes, kEndless),
      time_key("start", &T::start, 0, "when it begins; after others: so long after them"),
      choice_key("verb", &T::verb, {"write", "read", "send"},
                 "a read moves bytes from `to` to `from`"),
      or_word(count_key("dscp", &T::dscp, 0, 63, "of its packets"), "host", &T::dscp,
              uint8_t{0xff}),
      or_word(count_key("priority", &T::priority, 0, 7, "PCP, and the adapter's class"), "host",
              &T::priority, uint8_t{0xff}),
  };
}

Key<F> from_key(std::string_view help) {
  return nodes_key("from", &F::from, help);
}
Key<F> to_key(std::string_view help) {
  return nodes_key("to", &F::to, help);
}
Key<W> rounds_key() {
  return count_key("rounds", &W::rounds, 1, 1e6, "how often");
}

}  // namespace

const std::vector<Key<FlowForm>>& flow_form_keys() {
  using G = FlowForm;
  static const std::vector<Key<G>> kKeys = {
      node_key("from", &G::from, "the host that posts it"),
      node_key("to", &G::to, "its peer"),
      text_key("name", &G::name, "for `after` of later flows"),
      text_key("group", &G::group, "reports sum by it; else its name, or \"flows\""),
      nodes_key("after", &G::after, "names of earlier flows that must have ended"),
  };
  return kKeys;
}

const std::vector<Key<Flow>>& flow_keys() {
  static const std::vector<Key<Flow>> kKeys = message_keys<Flow>();
  return kKeys;
}

const std::vector<Key<Workload>>& workload_keys() {
  static const std::vector<Key<Workload>> kKeys = message_keys<Workload>();
  return kKeys;
}

const std::vector<Key<WorkloadForm>>& workload_form_keys() {
  static const std::vector<Key<F>> kKeys = [] {
    std::vector<std::string_view> kinds;
    for (const WorkloadKind& kind : workload_kinds()) kinds.push_back(kind.name);
    return std::vector<Key<F>>{
        choice_key("kind", &F::kind, std::move(kinds), "its pattern"),
        text_key("name", &F::name, "reports sum by it; else its kind"),
    };
  }();
  return kKeys;
}

const std::vector<WorkloadKind>& workload_kinds() {
  static const std::vector<WorkloadKind> kKinds = {
      {"long",
       "every host in `from` to the one in `to`, or pair by pair",
       {from_key("senders"), to_key("receivers: one, or as many")},
       {}},
      {"incast",
       "many to one, together",
       {from_key("senders"), to_key("the receiver")},
       {rounds_key(), time_key("interval", &W::interval, 0,
                               "between rounds; 0: each sender goes on when it is done")}},
      {"permutation",
       "every host sends to one and receives from one, at random",
       {from_key("hosts")},
       {}},
      {"shift",
       "every host to the one `step` further in the list",
       {from_key("hosts")},
       {count_key("step", &W::step, 1, 1e6, "how far")}},
      {"poisson",
       "random pairs, sizes and times",
       {from_key("hosts"),
        text_key("cdf", &F::cdf,
                 "sizes: WebSearch, FbHdp, AliStorage, or a file of lines BYTES PERCENT"),
        real_key("load", Kind::kShare, &F::load, 1e-6, 10, "of each sender's link")},
       {or_word(time_key("until", &W::until, 0, "the end of arrivals"), "duration", &W::until,
                fabric::Time{0})}},
      {"ring-allreduce",
       "2(n-1) steps of bytes/n around a ring, each after the neighbour's",
       {from_key("ranks, in order")},
       {rounds_key()}},
      {"tree-allreduce",
       "up a binary tree, then down",
       {from_key("ranks, the root first")},
       {rounds_key()}},
      {"all-to-all",
       "`bytes` from every rank to every other",
       {from_key("ranks")},
       {rounds_key(),
        count_key("parallel", &W::parallel, 0, 1e6, "messages of a rank at once; 0: all")}},
      {"storage-read",
       "clients READ from random servers",
       {from_key("clients"), to_key("servers")},
       {count_key("requests", &W::requests, 1, 1e6, "of each client"),
        count_key("depth", &W::depth, 1, 1e6, "of them at once")}},
      {"list",
       "a CSV file: src, dst, size_B, start_ns, and columns that are passed over",
       {text_key("file", &F::file, "beside the scenario")},
       {}},
  };
  return kKinds;
}

}  // namespace verbena::scenario
