// --device, --config and --lid are three environment variables by another name, so that a program
// and its children see the devices the command line asked for.
#include <errno.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <stdlib.h>

#include "tools/command.h"

namespace verbena::tools {

void add_device_options(CLI::App& command, DeviceOptions& options) {
  command
      .add_option("--device", options.devices,
                  "NAME=INTERFACE: show only this device, under this name, on this network "
                  "interface (may be repeated; NAME= may be left out)")
      ->type_name("NAME=INTERFACE")
      ->allow_extra_args(false);
  command
      .add_option("--config", options.config, "TOML file with devices, names, limits, GID order")
      ->type_name("FILE");
  command.add_flag("--lid", options.lid,
                   "Devices look like InfiniBand and take LIDs, for programs that know no GIDs "
                   "(qperf); the same as lid = true in the file");
}

Result<std::vector<host::DeviceModel>> load_chosen_devices(const DeviceOptions& options) {
  if (!options.devices.empty())
    setenv("VERBENA_DEVICES", fmt::format("{}", fmt::join(options.devices, ",")).c_str(), 1);
  if (options.lid) setenv("VERBENA_LID", "1", 1);
  if (!options.config.empty()) setenv("VERBENA_CONFIG", options.config.c_str(), 1);
  if (const char* config = getenv("VERBENA_CONFIG"); config != nullptr && config[0] != '\0') {
    // Absolute, because the program may change its working directory.
    char* absolute = realpath(config, nullptr);
    if (absolute != nullptr) setenv("VERBENA_CONFIG", absolute, 1);
    free(absolute);
  }
  return host::load_devices();
}

bool takes_no_program(const char* command, Invocation& invocation) {
  if (invocation.after_dashes.empty()) return true;
  invocation.status = complain(
      command,
      fmt::format("'{}' is unexpected; there is no program to run", invocation.after_dashes[0]), 2);
  return false;
}

int complain(const char* command, const std::string& message, int status) {
  fmt::print(stderr, "verbena {}: {}\n", command, message);
  return status;
}

}  // namespace verbena::tools
