// The device model as text and as JSON.
#pragma once

#include <span>
#include <string>

#include "host/config.h"

namespace verbena::tools {

std::string devices_text(std::span<const host::DeviceModel> devices, bool verbose);

// {"devices": [...]}, always with the limits.
std::string devices_json(std::span<const host::DeviceModel> devices);

}  // namespace verbena::tools
