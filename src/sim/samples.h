// What a run looked like over time: the queue of every switch port, and sums over the fabric, taken
// at equal intervals.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/units.h"

namespace verbena::sim {

struct PortSeries {
  std::vector<uint32_t> queue_bytes;  // one a sample
  // Over samples after the warm-up.
  double mean() const;
  double deviation() const;
  uint64_t percentile(double share) const;
  uint64_t most() const;
  size_t skip = 0;  // samples of the warm-up
};

struct Samples {
  fabric::Time interval = 0;
  std::vector<fabric::Time> at;
  std::vector<PortSeries> ports;         // by port id; empty for hosts' ports
  std::vector<uint64_t> received_bytes;  // payload, all hosts, so far
  std::vector<uint32_t> paused_ports;    // ports that a pause stops
  std::vector<uint64_t> rates;           // sum of the flows' rates, bit/s
  std::vector<double> alphas;            // their mean alpha
};

}  // namespace verbena::sim
