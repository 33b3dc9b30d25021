// Cyclic buffer dependency, seen before any frame runs: a channel (the egress port of a link, in a
// lossless class) waits for the next one on every path that uses both. Pauses can only deadlock
// where these waits close a ring; a fabric without one is safe whatever its traffic (Dally and
// Seitz, 1987; for PFC: Hu et al., HotNets 2016).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace verbena::fabric {

class DependencyGraph {
 public:
  // A path uses these channels in order; any numbers, small ones cost less memory.
  void add(std::span<const uint32_t> channels);
  // A ring of channels, each waiting for the next and the last for the first, begun at its smallest
  // one: the shortest through the first channel that is in any. Empty: there is none.
  std::vector<uint32_t> cycle() const;

 private:
  std::vector<uint32_t> ring_through(uint32_t channel) const;

  std::vector<std::vector<uint32_t>> next_;  // by channel: what it waits for, each once
  std::unordered_set<uint64_t> known_;       // pairs that are in next_
};

}  // namespace verbena::fabric
