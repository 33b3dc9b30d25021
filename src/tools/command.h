// The subcommands of `verbena`: each adds itself to the parser and, when chosen, leaves the exit
// status in `Invocation`. 0 is success, 1 a failure, 2 a misuse or a refusal; `run` also uses 126
// and 127 as shells do.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/config.h"

namespace verbena::tools {

struct Invocation {
  int status = 0;
  bool dashes = false;                    // the command line held "--"
  std::vector<std::string> after_dashes;  // what followed it: the program of `run`
};

void add_run(CLI::App& app, Invocation& invocation);
void add_devices(CLI::App& app, Invocation& invocation);
void add_stats(CLI::App& app, Invocation& invocation);
void add_explain(CLI::App& app, Invocation& invocation);
void add_doctor(CLI::App& app, Invocation& invocation);
void add_sim(CLI::App& app, Invocation& invocation);
void add_fabric(CLI::App& app, Invocation& invocation);

// The options that choose the device model, shared by run and devices.
struct DeviceOptions {
  std::vector<std::string> devices;  // NAME=INTERFACE
  std::string config;                // a TOML file
  bool lid = false;                  // every device takes LIDs without a GRH
};

void add_device_options(CLI::App& command, DeviceOptions& options);

// Puts the options into VERBENA_DEVICES, VERBENA_CONFIG and VERBENA_LID of this process (so
// children have them too) and loads the devices.
Result<std::vector<host::DeviceModel>> load_chosen_devices(const DeviceOptions& options);

// Whether nothing followed "--"; else says so and leaves status 2.
bool takes_no_program(const char* command, Invocation& invocation);

// Prints "verbena COMMAND: MESSAGE" on stderr and gives `status` back.
int complain(const char* command, const std::string& message, int status);

}  // namespace verbena::tools
