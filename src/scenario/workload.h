// Traffic as lists of flows: what hosts send to each other, when, and after what. A workload is
// drawn once, before the run, from its own generator, so a change to one leaves the others as they
// were.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "scenario/distribution.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

struct Workload {
  enum Kind : uint8_t {
    kLong,           // from[i] -> to[i], or all to one
    kIncast,         // every `from` to the one `to`, `rounds` times
    kPermutation,    // every host sends to one and receives from one
    kShift,          // from[i] -> from[i + step]
    kPoisson,        // sizes by `cdf`, at random times, between random pairs of `from`
    kRingAllreduce,  // 2(n-1) steps of bytes/n, each after the neighbour's last
    kTreeAllreduce,  // up a binary tree and down again
    kAllToAll,       // `bytes` for every pair, a rank's sends in turn
    kStorageRead,    // every `from` READs from random ones of `to`
    kList,           // a file of flows; its reader makes them
  } kind = kLong;
  std::string name;
  std::vector<uint32_t> from, to;  // hosts
  uint64_t bytes = kEndless;
  Time start = 0;
  Verb verb = Verb::kWrite;
  uint8_t dscp = 0xff, priority = 0xff;  // 0xff: the adapter's
  uint32_t step = 1;                     // kShift
  uint32_t rounds = 1;                   // kIncast, collectives
  Time interval = 0;                     // kIncast: between rounds; 0: when the last one has ended
  Time until = 0;                        // kPoisson: no arrivals from here on
  uint32_t load_ppm = 0;                 // kPoisson: of the sender's link
  std::optional<SizeCdf> cdf;            // kPoisson
  uint32_t parallel = 0;                 // kAllToAll: a rank's messages at once; 0: all
  uint32_t requests = 1, depth = 1;      // kStorageRead: of each client; at once
};

inline constexpr size_t kMaxFlows = 2'000'000;  // each may be an event

// Appends its flows. What a flow waits for (`after`) has a lower number. EINVAL: too few hosts,
// lists that do not fit together, more than kMaxFlows.
Result<void> add_workload(const Workload& workload, const Topology& topology, Prng& prng,
                          std::vector<Flow>& flows);

}  // namespace verbena::scenario
