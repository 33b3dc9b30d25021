// verbena doctor: will this program run, and if not, why.
#include <fmt/format.h>

#include "tools/command.h"
#include "tools/doctor_report.h"
#include "tools/libraries.h"

namespace verbena::tools {
namespace {

int doctor(const std::string& program) {
  auto folder = library_folder();
  if (!folder) return complain("doctor", folder.error().message, 1);
  auto report = diagnose(program, *folder);
  if (!report) return complain("doctor", report.error().message, 1);
  fmt::print("{}", report->text);
  return report->runs ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Invocation& invocation) {
  auto program = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Say whether a program will run: libraries, symbols, search paths, privileges");
  command->add_option("PROGRAM", *program, "The program, as you would start it");
  command->footer("Exit status: 0 it will run, 1 it will not.");
  command->callback([program, &invocation] {
    std::vector<std::string> words = invocation.after_dashes;
    if (!program->empty()) words.insert(words.begin(), *program);
    invocation.status =
        words.size() == 1
            ? doctor(words[0])
            : complain("doctor",
                       words.empty() ? "no program given; write verbena doctor PROGRAM"
                                     : "one program at a time, without arguments",
                       2);
  });
}

}  // namespace verbena::tools
