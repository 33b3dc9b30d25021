// What the engine reports besides completions; the host takes the list after every step and wakes
// whoever waits. Nothing calls upward.
#pragma once

#include "engine/verbs.h"

namespace verbena::engine {

class CompletionQueue;
class QueuePair;
struct SharedReceiveQueue;

struct Event {
  // kLeftService: `qp` left RTR/RTS, by itself or by modify; Process::deliver() revokes what it
  // still offers by reference. It comes in the same step as the flush completions, and the lock is
  // held until it was delivered, so nobody has seen them yet.
  // kPort: of the port; the engine has none, the Door makes these.
  enum Kind : uint8_t { kCompletion, kCq, kQp, kSrq, kLeftService, kPort } kind = kCompletion;
  AsyncType type = AsyncType::kCqErr;  // for kCq, kQp, kSrq
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  SharedReceiveQueue* srq = nullptr;
};

}  // namespace verbena::engine
