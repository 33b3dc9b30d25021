// Which channels can be in a ring at all is found by taking away, again and again, those that wait
// for nobody; a search by breadth then gives the shortest ring through one that is left.
#include "fabric/dependency.h"

#include <algorithm>

namespace verbena::fabric {

void DependencyGraph::add(std::span<const uint32_t> channels) {
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    const uint32_t from = channels[i], to = channels[i + 1];
    if (!known_.insert(uint64_t{from} << 32 | to).second) continue;
    if (next_.size() <= std::max(from, to)) next_.resize(std::max(from, to) + size_t{1});
    next_[from].push_back(to);
  }
}

std::vector<uint32_t> DependencyGraph::cycle() const {
  std::vector<std::vector<uint32_t>> before(next_.size());
  std::vector<size_t> waits(next_.size());
  std::vector<uint32_t> free;
  for (uint32_t channel = 0; channel < next_.size(); ++channel) {
    waits[channel] = next_[channel].size();
    if (waits[channel] == 0) free.push_back(channel);
    for (uint32_t to : next_[channel]) before[to].push_back(channel);
  }
  while (!free.empty()) {
    const uint32_t channel = free.back();
    free.pop_back();
    for (uint32_t from : before[channel])
      if (--waits[from] == 0) free.push_back(from);
  }
  // What is left waits for a ring; some of it may be in none.
  for (uint32_t channel = 0; channel < next_.size(); ++channel) {
    if (waits[channel] == 0) continue;
    std::vector<uint32_t> ring = ring_through(channel);
    if (ring.empty()) continue;
    std::rotate(ring.begin(), std::min_element(ring.begin(), ring.end()), ring.end());
    return ring;
  }
  return {};
}

std::vector<uint32_t> DependencyGraph::ring_through(uint32_t channel) const {
  constexpr uint32_t kNobody = UINT32_MAX;
  std::vector<uint32_t> from(next_.size(), kNobody);
  std::vector<uint32_t> queue = {channel};
  for (size_t at = 0; at < queue.size(); ++at) {
    for (uint32_t to : next_[queue[at]]) {
      if (to == channel) {
        std::vector<uint32_t> ring;
        for (uint32_t c = queue[at]; c != channel; c = from[c]) ring.push_back(c);
        ring.push_back(channel);
        std::reverse(ring.begin(), ring.end());
        return ring;
      }
      if (from[to] != kNobody) continue;
      from[to] = queue[at];
      queue.push_back(to);
    }
  }
  return {};
}

}  // namespace verbena::fabric
