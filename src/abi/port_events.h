// Changes of the machine that programs hear of as asynchronous events: the port goes up or down,
// an address comes or goes.
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

// Contexts that are told. Both may be called by any thread.
void enter_audience(Context* context);
void leave_audience(Context* context);

// Tells every open context of `device` what differs between two models of it: PORT_ERR,
// PORT_ACTIVE, GID_CHANGE. A context with kMaxPortEvents undelivered ones gets no more.
void report_changes(Device* device, const host::DeviceModel& before,
                    const host::DeviceModel& after);
inline constexpr uint32_t kMaxPortEvents = 64;

// Readable when links or addresses of this network namespace changed; -1: the kernel refused.
int change_fd();
// Reads the devices anew if the kernel said that something changed.
void look_for_changes();
// ibv_get_async_event: the next event of `context`, waiting as its descriptor's flags say and
// looking for changes meanwhile. 0 or errno.
int next_event(Context* context, host::Delivery& delivery);

}  // namespace verbena::abi
