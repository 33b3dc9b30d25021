// verbena run: builds the device tree, decides how to put our libraries in front of the program,
// and becomes the program. No parent process is left behind.
#include <errno.h>
#include <fmt/format.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/client.h"
#include "host/tree.h"
#include "tools/command.h"
#include "tools/elf_file.h"
#include "tools/private_view.h"
#include "tools/program.h"
#include "tools/run_environment.h"
#include "tools/settings.h"

namespace verbena::tools {
namespace {

struct RunOptions {
  DeviceOptions device;
  Mode mode = Mode::kAuto;
  bool explain = false;
  bool print_env = false;
  bool sockets = false;
  std::string unknown;  // a word before the program that looks like an option
  std::vector<std::string> command;
};

int print_environment(const Environment& changes) {
  for (const auto& [name, value] : changes) fmt::print("export {}={}\n", name, shell_quoted(value));
  return 0;
}

// Only returns on failure: 126 or 127, as shells do.
int become(const std::string& path, const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  fflush(nullptr);
  execv(path.c_str(), arguments.data());
  if (errno == ENOEXEC) {  // text without "#!": what a shell would do
    arguments.insert(arguments.begin(), const_cast<char*>("/bin/sh"));
    arguments[1] = const_cast<char*>(path.c_str());
    execv("/bin/sh", arguments.data());
  }
  const int code = errno;
  return complain("run", fmt::format("cannot start {}: {}", path, strerror(code)),
                  code == ENOENT ? 127 : 126);
}

std::string no_devices_hint() {
  return "no network interface is up and has an address, so there is no RDMA device; bring one up "
         "(ip link set lo up) or name one with --device";
}

constexpr const char* kNoSockets =
    "--sockets needs rdma-core's librspreload.so, which is not installed; on Debian: apt-get "
    "install librdmacm1";

// rdma-core's library that turns sockets into rsockets; empty when it is not installed.
std::string sockets_library() {
  constexpr const char* kPatterns[] = {"/usr/lib/*/rsocket/librspreload.so",
                                       "/usr/lib64/rsocket/librspreload.so",
                                       "/usr/lib/rsocket/librspreload.so"};
  for (const char* pattern : kPatterns) {
    glob_t found{};
    std::string path;
    if (glob(pattern, 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc && path.empty(); ++i)
        if (auto file = read_elf(found.gl_pathv[i]); file && file->machine == own_machine())
          path = found.gl_pathv[i];  // of several architectures one is ours
    globfree(&found);
    if (!path.empty()) return path;
  }
  return {};
}

// The folder of our libraries, which must be fit for the variables of ld.so.
Result<std::string> preloadable_folder() {
  auto folder = library_folder();
  if (folder && folder->find_first_of(" :") != std::string::npos)
    return fail(EINVAL,
                fmt::format("the libraries lie in '{}', and LD_PRELOAD can name no path with a "
                            "space or ':'; move them, or link to them: ln -s '{}' "
                            "/tmp/verbena-lib && export VERBENA_LIB=/tmp/verbena-lib",
                            *folder, *folder));
  return folder;
}

int run(const RunOptions& options) {
  if (!options.unknown.empty())
    return complain("run",
                    fmt::format("there is no option {}; verbena run --help lists them, and a "
                                "program of that name is started by verbena run -- {}",
                                options.unknown, options.unknown),
                    2);
  if (options.command.empty() && !options.print_env)
    return complain("run", "no program given; write verbena run -- PROGRAM ARGUMENTS", 2);
  auto folder = preloadable_folder();
  if (!folder) return complain("run", folder.error().message, 1);

  Program program;
  Mode mode = options.mode == Mode::kAuto ? Mode::kEnv : options.mode;
  if (!options.command.empty()) {
    const LibrarySearch search({*folder});
    auto found = inspect_program(options.command[0], search);
    if (!found)
      return complain("run", found.error().message, found.error().code == ENOENT ? 127 : 126);
    program = std::move(*found);
    auto choice = choose_mode(options.mode, program);
    if (!choice) return complain("run", choice.error().message, 2);
    mode = choice->mode;
  }

  if (auto settings = check_settings([](const char* name) { return getenv(name); }); !settings)
    return complain("run", settings.error().message, 2);
  tell_unknown_settings("run");
  auto devices = load_chosen_devices(options.device);
  if (!devices) return complain("run", devices.error().message, 2);
  if (devices->empty()) return complain("run", no_devices_hint(), 1);
  auto tree = host::ensure_tree(*devices);
  if (!tree) return complain("run", tree.error().message, 1);

  const std::string preload = options.sockets ? sockets_library() : std::string();
  if (options.sockets && preload.empty()) return complain("run", kNoSockets, 2);

  // Without the shim, the audit module also catches a dlopen() by an absolute name.
  const bool audit = mode == Mode::kAudit || mode == Mode::kNs;
  const Environment changes = run_environment({.folder = *folder,
                                               .tree = *tree,
                                               .shim = mode != Mode::kNs,
                                               .audit = audit,
                                               .explain = options.explain,
                                               .preload = preload},
                                              [](const char* name) { return getenv(name); });
  if (options.print_env) return print_environment(changes);
  if (mode == Mode::kNs) {
    auto entered = enter_private_view(*tree);
    if (!entered) return complain("run", entered.error().message, 2);
  }
  for (const auto& [name, value] : changes) setenv(name.c_str(), value.c_str(), 1);
  // No refusal: listing devices works all the same.
  if (auto reach = broker::check_reach(); !reach)
    complain("run", "note: no queue pair can be made here: " + reach.error().message, 0);
  return become(program.path, options.command);
}

}  // namespace

void add_run(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a program with Verbena's RDMA devices: verbena run [OPTIONS] -- PROGRAM ARGUMENTS");
  add_device_options(*command, options->device);
  command
      ->add_option_function<std::string>(
          "--mode",
          [options](const std::string& word) {
            for (Mode mode : {Mode::kAuto, Mode::kEnv, Mode::kNs, Mode::kAudit}) {
              if (word != mode_name(mode)) continue;
              options->mode = mode;
              return;
            }
            throw CLI::ValidationError(
                "--mode", fmt::format("'{}' is no mode; modes: auto, env, ns, audit", word));
          },
          "How our libraries get in front: env (LD_LIBRARY_PATH and a preloaded shim), audit (also "
          "LD_AUDIT, for DT_RPATH), ns (/sys and /dev changed in a private mount namespace, "
          "LD_AUDIT, no shim), auto (env, or audit where needed)")
      ->type_name("auto|env|ns|audit");
  command->add_flag("--explain", options->explain,
                    "Say the cause of every error on stderr (VERBENA_LOG=explain)");
  command->add_flag("--sockets", options->sockets,
                    "Turn the program's TCP sockets into rsockets (rdma-core's librspreload)");
  command->add_flag("--print-env", options->print_env,
                    "Print the environment as shell exports instead of running");
  command->prefix_command();
  command->footer(
      "Exit status: the program's own; 127 no such program, 126 not executable, 2 "
      "refused (static, set-user-ID, other machine) with the reason and the next "
      "step.\nWith mpirun, pass the variables of --print-env on: mpirun -x "
      "LD_LIBRARY_PATH -x LD_PRELOAD -x VERBENA_TREE ...");
  command->callback([command, options, &invocation] {
    options->command = command->remaining();
    if (!options->command.empty() && options->command[0].rfind('-', 0) == 0)
      options->unknown = options->command[0];
    if (!options->command.empty() && invocation.dashes) options->command.push_back("--");
    options->command.insert(options->command.end(), invocation.after_dashes.begin(),
                            invocation.after_dashes.end());
    invocation.status = run(*options);
  });
}

}  // namespace verbena::tools
