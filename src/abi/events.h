// Where events go, and the rule that an object lives until its delivered events are acknowledged.
#pragma once

#include "abi/objects.h"
#include "host/process.h"

namespace verbena::abi {

// Process::Router: the completion channel of the queue, or the context's async channel. Locked.
host::EventChannel* route_event(const engine::Event& event, host::Delivery& delivery);

// Waits until `*completed` (guarded by `mutex`, signalled by `cond`) has reached `delivered`.
void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond,
                               const uint32_t& completed, uint32_t delivered);

}  // namespace verbena::abi
