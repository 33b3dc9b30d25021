// Real memory for the two ends of a flow, and the oracle of what must be in it: every byte that a
// completion tells of is compared, and none may change before or behind that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/work_queue.h"
#include "sim/adapter.h"

namespace verbena::sim {

// What was compared so far, and what was wrong.
struct PayloadVerdict {
  uint64_t checked_bytes = 0;
  uint64_t errors = 0;
  std::vector<std::string> complaints;  // the first few errors, one sentence each

  void complain(std::string what);
};

// Work requests of a flow, numbered from 0, take turns in `slots` places of `work_bytes` bytes.
class FlowMemory {
 public:
  // From `source`'s memory to `target`'s. The adapters and the verdict must outlive it.
  FlowMemory(uint32_t flow, uint64_t work_bytes, uint32_t slots, Adapter& source, Adapter& target,
             PayloadVerdict& verdict);
  ~FlowMemory();
  FlowMemory(const FlowMemory&) = delete;
  FlowMemory& operator=(const FlowMemory&) = delete;

  // Fills the bytes of work request `work`, which is about to be posted; 1..work_bytes of them.
  struct Places {
    engine::Sge source;  // the keys are good for the peer, too
    engine::Sge target;
  };
  Places prepare(uint64_t work, uint32_t length);
  // It has completed where its bytes are told of.
  void check(uint64_t work, uint32_t length);
  // Nothing that has completed, and nothing between, was written since.
  void check_rest();

 private:
  struct Side {
    Adapter& adapter;
    std::unique_ptr<uint8_t[]> bytes;
    memory::MemoryRegion region;
  };
  void register_side(Side& side);
  uint8_t* slot(Side& side, uint64_t work) { return side.bytes.get() + offset(work); }
  uint64_t offset(uint64_t work) const { return work % slots_ * stride_ + kGuard; }
  void pattern(uint64_t work, uint8_t* to, uint32_t length) const;
  bool untouched(uint64_t from, uint64_t length) const;

  static constexpr uint64_t kGuard = 64;
  static constexpr uint8_t kUntouched = 0xee;
  uint32_t flow_;
  uint32_t slots_;
  uint64_t stride_;
  Side source_, target_;
  std::vector<uint8_t> expected_;  // scratch
  PayloadVerdict& verdict_;
};

}  // namespace verbena::sim
