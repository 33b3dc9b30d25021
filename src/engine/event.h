// What the engine reports besides completions; the host takes the list after every step and wakes
// whoever waits. Nothing calls upward.
#pragma once

#include "engine/verbs.h"

namespace verbena::engine {

class CompletionQueue;
class QueuePair;
struct SharedReceiveQueue;

struct Event {
  // kLeftService: `qp` left RTR/RTS; the host revokes what it still offers by reference. It comes
  // in the same step as the flush completions, so before anyone can see them.
  enum Kind : uint8_t { kCompletion, kCq, kQp, kSrq, kLeftService } kind = kCompletion;
  AsyncType type = AsyncType::kCqErr;  // for kCq, kQp, kSrq
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  SharedReceiveQueue* srq = nullptr;
};

}  // namespace verbena::engine
