// What a run looked like over time: the queue of every switch port, which ports pauses held, the
// largest flows, and sums over the fabric, taken at equal intervals. There is a bound on it: when
// it is reached every second sample goes and the interval doubles.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/units.h"

namespace verbena::sim {

struct PortSeries {
  std::vector<uint32_t> queue_bytes;  // one a sample; empty for hosts' ports
  std::vector<uint8_t> stopped;       // queues that a pause holds then
  // Over samples after the warm-up.
  double mean() const;
  double deviation() const;
  uint64_t percentile(double share) const;
  uint64_t most() const;
  size_t skip = 0;  // samples of the warm-up
};

struct FlowSeries {
  uint32_t flow = 0;
  std::vector<uint64_t> received;  // payload, so far
  std::vector<uint64_t> rates;     // what congestion control allows, bit/s; 0: not under way
  std::vector<float> alphas;
};

// Sampled flows: the largest, at most so many.
inline constexpr size_t kSampledFlows = 8;

struct Samples {
  // Of one series, and of all ports' together.
  static constexpr size_t kMost = 1u << 16;
  static constexpr size_t kMostOfPorts = 2u << 20;

  fabric::Time interval = 0;
  std::vector<fabric::Time> at;
  std::vector<PortSeries> ports;  // by port id
  std::vector<FlowSeries> flows;
  std::vector<uint64_t> received_bytes;  // payload, all hosts, so far
  std::vector<uint32_t> paused_ports;    // ports that a pause stops
  std::vector<uint64_t> rates;           // sum of the flows' rates, bit/s
  std::vector<double> alphas;            // their mean alpha

  // The bound is reached, and the number of samples even.
  bool full() const;
  // Leaves the 2nd, 4th, ... of every series; the interval doubles.
  void thin();
};

}  // namespace verbena::sim
