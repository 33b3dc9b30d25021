// What the engine reports besides completions; the host takes the list after every step and wakes
// whoever waits. Nothing calls upward.
#pragma once

#include "engine/verbs.h"

namespace verbena::engine {

class CompletionQueue;
class QueuePair;
struct SharedReceiveQueue;

struct Event {
  enum Kind : uint8_t { kCompletion, kCq, kQp, kSrq } kind = kCompletion;
  AsyncType type = AsyncType::kCqErr;  // for kCq, kQp, kSrq
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  SharedReceiveQueue* srq = nullptr;
};

}  // namespace verbena::engine
