// The list of devices, for the families that need it beyond one context.
#pragma once

#include <vector>

#include "abi/objects.h"
#include "base/result.h"

namespace verbena::abi {

// Reads the configuration and gives the devices there are now. Errors: host::load_devices().
Result<std::vector<Device*>> list_devices();

// Opens another context on a device; null and errno as ibv_open_device().
Context* open_context(Device* device);

}  // namespace verbena::abi
