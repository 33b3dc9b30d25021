// verbena devices: the device model in words, with the reason for every GID, which ibv_devinfo
// cannot say.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/devices_text.h"
#include "tools/settings.h"

namespace verbena::tools {
namespace {

struct DevicesOptions {
  DeviceOptions device;
  bool json = false;
  bool verbose = false;
};

int devices(const DevicesOptions& options) {
  tell_unknown_settings("devices");
  auto list = load_chosen_devices(options.device);
  if (!list) return complain("devices", list.error().message, 2);
  if (options.json) {
    fmt::print("{}\n", devices_json(*list));
    return 0;
  }
  if (list->empty())
    return complain("devices",
                    "no network interface is up and has an address, so there is no RDMA device; "
                    "bring one up (ip link set lo up) or name one with --device",
                    1);
  fmt::print("{}", devices_text(*list, options.verbose));
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DevicesOptions>();
  CLI::App* command =
      app.add_subcommand("devices", "List the RDMA devices and why each GID is there");
  add_device_options(*command, options->device);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("-v,--verbose", options->verbose, "Also print the limits");
  command->callback([options, &invocation] {
    if (takes_no_program("devices", invocation)) invocation.status = devices(*options);
  });
}

}  // namespace verbena::tools
