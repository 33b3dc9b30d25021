// A shared receive queue (basic or XRC) with its one-shot limit event.
#pragma once

#include "engine/completion_queue.h"
#include "engine/work_queue.h"
#include "memory/region.h"

namespace verbena::engine {

// SGEs of a receive work request, the most that any device model allows (Limits::max_srq_sge).
inline constexpr uint32_t kMaxReceiveSges = 32;

// Identity of an XRC domain: objects that hold the same pointer belong together.
struct XrcDomain {
  uint32_t handle = 0;
  uint32_t users = 0;
};

struct SharedReceiveQueue {
  SharedReceiveQueue(memory::ProtectionDomain* pd, uint32_t work_requests, uint32_t sges)
      : domain(pd), queue(work_requests, sges) {}

  memory::ProtectionDomain* domain;
  ReceiveQueue queue;
  uint32_t limit = 0;                      // event when size() drops below; 0: not armed
  uint32_t number = 0;                     // SRQ number (24 bits) for XRC
  XrcDomain* xrc_domain = nullptr;         // XRC only
  CompletionQueue* completions = nullptr;  // XRC only
  uint32_t users = 0;                      // queue pairs attached
  void* owner = nullptr;                   // the Door's object
};

}  // namespace verbena::engine
