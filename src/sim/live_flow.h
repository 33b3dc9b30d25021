// A flow that is under way: its two queue pairs and how far its work requests are. For the files of
// Experiment alone.
#pragma once

#include <memory>

#include "sim/experiment.h"

namespace verbena::sim {

// Swift goes by delays, HPCC by telemetry: a mark would cost a CNP that nobody obeys.
inline bool hears_marks(const engine::CongestionSettings& congestion) {
  return congestion.algorithm != engine::CongestionSettings::kSwift &&
         congestion.algorithm != engine::CongestionSettings::kHpcc;
}

struct Experiment::Live {
  uint32_t flow = 0;
  engine::QueuePair* source = nullptr;
  engine::QueuePair* destination = nullptr;
  uint64_t posted = 0;  // payload bytes of work requests so far
  uint64_t completed = 0;
  uint32_t outstanding = 0;  // work requests
  bool over = false;         // what still completes is flushed
  // With real bytes. Work requests are told of in their order: so many of them were.
  std::unique_ptr<FlowMemory> memory;
  uint64_t prepared = 0, checked = 0;
};

}  // namespace verbena::sim
