// The `verbena` command: one subcommand per file. See docs/verbena.1.
#include <errno.h>
#include <fmt/format.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <system_error>

#include "tools/command.h"

namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// The first word that is no option, when no command has that name; else "". (The parser would only
// say that a command is required.)
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    const std::vector<std::string> names = command_names(app);
    return std::find(names.begin(), names.end(), argv[i]) == names.end() ? argv[i] : "";
  }
  return "";
}

// "verbena devices: MESSAGE; verbena devices --help", and no more: the parser would add a line
// without a name.
std::string misuse(const CLI::App* app, const CLI::Error& error) {
  std::string who = "verbena";
  for (auto chosen = app->get_subcommands(); !chosen.empty(); chosen = chosen[0]->get_subcommands())
    who += " " + chosen[0]->get_name();
  std::string message = error.what();
  if (!message.empty() && message[0] >= 'A' && message[0] <= 'Z' &&
      (message.size() < 2 || message[1] < 'A' || message[1] > 'Z'))
    message[0] = static_cast<char>(message[0] - 'A' + 'a');
  return fmt::format("{}: {}; {} --help says what there is\n", who, message, who);
}

// Of a reader that has gone away nobody needs to hear.
int cannot_print(int error) {
  if (error != EPIPE) fmt::print(stderr, "verbena: cannot write the output: {}\n", strerror(error));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace verbena::tools;
  CLI::App app(
      "RDMA without the hardware: runs unmodified RDMA programs over RoCE v2 in user space");
  app.name("verbena");
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.require_subcommand(0, 1);
  app.failure_message(
      [](const CLI::App* parser, const CLI::Error& error) { return misuse(parser, error); });
  app.footer(
      "verbena COMMAND --help describes a command. Environment: VERBENA_CONFIG=FILE and "
      "VERBENA_DEVICES=NAME=INTERFACE,... choose the devices, VERBENA_LOG=explain says the "
      "cause of every error.");

  // The parser would hand what follows "--" to the wrong level, so it is cut off first.
  Invocation invocation;
  int parsed = argc;
  for (int i = 1; i < argc && !invocation.dashes; ++i) {
    if (strcmp(argv[i], "--") != 0) continue;
    invocation.dashes = true;
    invocation.after_dashes.assign(argv + i + 1, argv + argc);
    parsed = i;
  }
  add_run(app, invocation);
  add_devices(app, invocation);
  add_stats(app, invocation);
  add_explain(app, invocation);
  add_doctor(app, invocation);
  add_sim(app, invocation);
  add_fabric(app, invocation);

  if (parsed > 1 && strcmp(argv[1], "help") == 0) {  // "help run" is "run --help"
    static char option[] = "--help";
    std::rotate(argv + 1, argv + 2, argv + parsed);
    argv[parsed - 1] = option;
  }
  if (const std::string word = unknown_command(app, parsed, argv); !word.empty()) {
    fmt::print(stderr, "verbena: '{}' is no command; commands: {}\n", word,
               fmt::join(command_names(app), ", "));
    return 2;
  }
  int status = 0;
  errno = 0;
  try {
    app.parse(parsed, argv);
    status = invocation.status;
    if (app.get_subcommands().empty()) {
      fmt::print(stderr, "{}", app.help());
      return 2;
    }
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
  } catch (const std::system_error& error) {  // {fmt}: standard output does not take it
    return cannot_print(error.code().value());
  }
  if (fflush(stdout) != 0 || ferror(stdout)) return cannot_print(errno);
  return status;
}
