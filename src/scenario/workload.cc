// Each kind is one function that appends flows. Dependencies are numbers of flows, so every kind
// counts from the number that its first flow has.
#include "scenario/workload.h"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>

namespace verbena::scenario {
namespace {

struct FlowMaker {
  const Workload& workload;
  const Topology& topology;
  Prng& prng;
  std::vector<Flow>& flows;

  Flow flow(uint32_t source, uint32_t destination) const {
    Flow flow;
    flow.source = source;
    flow.destination = destination;
    flow.bytes = workload.bytes;
    flow.start = workload.start;
    flow.verb = workload.verb;
    flow.dscp = workload.dscp;
    flow.priority = workload.priority;
    flow.group = workload.name;
    return flow;
  }
  // Room for `count` more.
  Result<void> room(uint64_t count) const {
    if (count > kMaxFlows || flows.size() + count > kMaxFlows)
      return fail(EINVAL, fmt::format("{} flows; {} in all are the most", count, kMaxFlows));
    flows.reserve(flows.size() + count);
    return {};
  }
  uint32_t next() const { return static_cast<uint32_t>(flows.size()); }
};

Result<void> needs(const Workload& w, size_t hosts) {
  if (w.from.size() < hosts)
    return fail(EINVAL, fmt::format("{} hosts; it takes {} at least", w.from.size(), hosts));
  std::vector<uint32_t> sorted = w.from;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return fail(EINVAL, fmt::format("host {} is named twice", *twice));
  return {};
}

Result<void> finite(const Workload& w) {
  if (w.bytes == kEndless) return fail(EINVAL, "needs bytes: how much each message has");
  return {};
}

Result<void> long_flows(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (w.to.size() != 1 && w.to.size() != w.from.size())
    return fail(EINVAL, fmt::format("{} in from and {} in to; give one in to, or as many",
                                    w.from.size(), w.to.size()));
  if (auto room = make.room(w.from.size()); !room) return room;
  for (size_t i = 0; i < w.from.size(); ++i) {
    const uint32_t to = w.to.size() == 1 ? w.to[0] : w.to[i];
    if (to == w.from[i]) {
      if (w.to.size() == 1) continue;  // "all to one" leaves that one out
      return fail(EINVAL, fmt::format("host {} would send to itself", to));
    }
    make.flows.push_back(make.flow(w.from[i], to));
  }
  return {};
}

Result<void> incast(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (w.to.size() != 1)
    return fail(EINVAL, fmt::format("{} in to; an incast has one receiver", w.to.size()));
  if (w.bytes == kEndless && w.rounds > 1) return finite(w);
  std::vector<uint32_t> senders;
  for (uint32_t host : w.from)
    if (host != w.to[0]) senders.push_back(host);
  if (senders.empty()) return fail(EINVAL, "no host in from but the receiver");
  if (auto room = make.room(uint64_t{w.rounds} * senders.size()); !room) return room;
  constexpr Time kLatest = 3600 * fabric::kSecond;
  if (w.interval != 0 && w.rounds > (kLatest - std::min(w.start, kLatest)) / w.interval + 1)
    return fail(EINVAL, "its last round would begin after more than an hour");
  for (uint32_t round = 0; round < w.rounds; ++round)
    for (uint32_t sender : senders) {
      Flow flow = make.flow(sender, w.to[0]);
      if (w.interval != 0)
        flow.start += round * w.interval;
      else if (round > 0) {
        flow.start = 0;
        flow.after = {make.next() - static_cast<uint32_t>(senders.size())};
      }
      make.flows.push_back(std::move(flow));
    }
  return {};
}

// Sattolo's shuffle: one cycle through all hosts, so nobody sends to itself.
Result<void> permutation(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto enough = needs(w, 2); !enough) return enough;
  if (auto room = make.room(w.from.size()); !room) return room;
  std::vector<uint32_t> to = w.from;
  for (size_t i = to.size() - 1; i > 0; --i) std::swap(to[i], to[make.prng.below(i)]);
  for (size_t i = 0; i < to.size(); ++i) make.flows.push_back(make.flow(w.from[i], to[i]));
  return {};
}

Result<void> shift(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto enough = needs(w, 2); !enough) return enough;
  if (w.step % w.from.size() == 0)
    return fail(EINVAL, fmt::format("a step of {} among {} hosts leads back to the sender", w.step,
                                    w.from.size()));
  if (auto room = make.room(w.from.size()); !room) return room;
  for (size_t i = 0; i < w.from.size(); ++i)
    make.flows.push_back(make.flow(w.from[i], w.from[(i + w.step) % w.from.size()]));
  return {};
}

constexpr uint64_t kLongestGap = uint64_t{1} << 56;  // 20 hours: 44 of them are still a Time

// Each host is a Poisson source of its own, as in the HPCC generator: the mean gap is the mean
// size's time on the host's link, divided by the load.
Result<void> poisson(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto enough = needs(w, 2); !enough) return enough;
  if (!w.cdf || w.load_ppm == 0 || w.until <= w.start)
    return fail(EINVAL, "needs cdf, load and a time until which flows arrive");
  std::vector<uint64_t> rates(make.topology.hosts);
  for (const Link& link : make.topology.links)
    for (uint32_t end : {link.a, link.b})
      if (end < rates.size()) rates[end] = link.settings.bits_per_second;
  const size_t first = make.flows.size();
  for (uint32_t source : w.from) {
    const auto bits_ps = w.cdf->mean_twice_all() * 4 * 1'000'000;  // mean bits * kAll * 1e6
    const auto per_second = static_cast<unsigned __int128>(rates[source]) * w.load_ppm;
    const auto gap =
        bits_ps * (fabric::kSecond / 1'000'000) / per_second / (SizeCdf::kAll / 1'000'000);
    const auto mean = static_cast<uint64_t>(std::min<unsigned __int128>(gap, kLongestGap));
    Time at = w.start;
    while ((at += static_cast<Time>(exponential(make.prng, mean))) < w.until) {
      if (auto room = make.flows.size() < kMaxFlows ? Result<void>() : make.room(1); !room)
        return room;
      uint32_t to = source;
      while (to == source) to = w.from[make.prng.below(w.from.size())];
      Flow flow = make.flow(source, to);
      flow.start = at;
      flow.bytes = w.cdf->sample(make.prng);
      make.flows.push_back(std::move(flow));
    }
  }
  std::stable_sort(make.flows.begin() + static_cast<ptrdiff_t>(first), make.flows.end(),
                   [](const Flow& a, const Flow& b) { return a.start < b.start; });
  return {};
}

Result<void> ring_allreduce(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto enough = needs(w, 2); !enough) return enough;
  if (auto whole = finite(w); !whole) return whole;
  const auto ranks = static_cast<uint32_t>(w.from.size());
  const uint64_t steps = uint64_t{w.rounds} * 2 * (ranks - 1);
  if (auto room = make.room(steps * ranks); !room) return room;
  const uint32_t first = make.next();
  for (uint32_t step = 0; step < steps; ++step)
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Flow flow = make.flow(w.from[rank], w.from[(rank + 1) % ranks]);
      flow.bytes = (w.bytes + ranks - 1) / ranks;
      if (step > 0) {
        flow.start = 0;
        flow.after = {first + (step - 1) * ranks + (rank + ranks - 1) % ranks};
      }
      make.flows.push_back(std::move(flow));
    }
  return {};
}

// Rank r has the children 2r+1 and 2r+2. A round is n-1 flows up, the last rank first, then n-1
// flows down, rank 1 first: what a flow waits for always has a lower number.
Result<void> tree_allreduce(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto enough = needs(w, 2); !enough) return enough;
  if (auto whole = finite(w); !whole) return whole;
  const auto ranks = static_cast<uint32_t>(w.from.size());
  if (auto room = make.room(uint64_t{w.rounds} * 2 * (ranks - 1)); !room) return room;
  for (uint32_t round = 0; round < w.rounds; ++round) {
    const uint32_t first = make.next();
    const auto up = [&](uint32_t rank) { return first + ranks - 1 - rank; };
    const auto down = [&](uint32_t rank) { return first + ranks - 2 + rank; };
    const uint32_t turn = 2 * (ranks - 1);
    const auto children = [&](uint32_t rank, std::vector<uint32_t>& after) {
      for (uint32_t child : {2 * rank + 1, 2 * rank + 2})
        if (child < ranks) after.push_back(up(child));
    };
    const auto add = [&](uint32_t source, uint32_t destination, std::vector<uint32_t> after) {
      Flow flow = make.flow(w.from[source], w.from[destination]);
      if (!after.empty()) flow.start = 0;
      flow.after = std::move(after);
      make.flows.push_back(std::move(flow));
    };
    for (uint32_t rank = ranks - 1; rank > 0; --rank) {
      std::vector<uint32_t> after;
      children(rank, after);
      if (after.empty() && round > 0) after = {down(rank) - turn};
      add(rank, (rank - 1) / 2, std::move(after));
    }
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      const uint32_t parent = (rank - 1) / 2;
      std::vector<uint32_t> after;
      if (parent == 0)
        children(0, after);
      else
        after = {down(parent)};
      add(parent, rank, std::move(after));
    }
  }
  return {};
}

Result<void> all_to_all(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto enough = needs(w, 2); !enough) return enough;
  if (auto whole = finite(w); !whole) return whole;
  const auto ranks = static_cast<uint32_t>(w.from.size());
  const uint64_t turns = uint64_t{w.rounds} * (ranks - 1);
  if (auto room = make.room(turns * ranks); !room) return room;
  const uint32_t at_once = w.parallel == 0 ? ranks - 1 : std::min(w.parallel, ranks - 1);
  const uint32_t first = make.next();
  for (uint32_t turn = 0; turn < turns; ++turn)
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t step = turn % (ranks - 1) + 1;
      Flow flow = make.flow(w.from[rank], w.from[(rank + step) % ranks]);
      if (turn >= at_once) {
        flow.start = 0;
        flow.after = {first + (turn - at_once) * ranks + rank};
      }
      make.flows.push_back(std::move(flow));
    }
  return {};
}

Result<void> storage_read(const FlowMaker& make) {
  const Workload& w = make.workload;
  if (auto whole = finite(w); !whole) return whole;
  if (w.from.empty() || w.to.empty()) return fail(EINVAL, "needs clients in from, servers in to");
  if (auto room = make.room(uint64_t{w.requests} * w.from.size()); !room) return room;
  for (uint32_t client : w.from) {
    std::vector<uint32_t> servers;
    for (uint32_t server : w.to)
      if (server != client) servers.push_back(server);
    if (servers.empty())
      return fail(EINVAL, fmt::format("host {} has no other to read from", client));
    const uint32_t first = make.next();
    for (uint32_t request = 0; request < w.requests; ++request) {
      Flow flow = make.flow(client, servers[make.prng.below(servers.size())]);
      flow.verb = Verb::kRead;
      if (request >= w.depth) {
        flow.start = 0;
        flow.after = {first + request - w.depth};
      }
      make.flows.push_back(std::move(flow));
    }
  }
  return {};
}

}  // namespace

Result<void> add_workload(const Workload& workload, const Topology& topology, Prng& prng,
                          std::vector<Flow>& flows) {
  const FlowMaker make{workload, topology, prng, flows};
  switch (workload.kind) {
    case Workload::kLong:
      return long_flows(make);
    case Workload::kIncast:
      return incast(make);
    case Workload::kPermutation:
      return permutation(make);
    case Workload::kShift:
      return shift(make);
    case Workload::kPoisson:
      return poisson(make);
    case Workload::kRingAllreduce:
      return ring_allreduce(make);
    case Workload::kTreeAllreduce:
      return tree_allreduce(make);
    case Workload::kAllToAll:
      return all_to_all(make);
    case Workload::kStorageRead:
      return storage_read(make);
    case Workload::kList:
      break;
  }
  return {};
}

}  // namespace verbena::scenario
