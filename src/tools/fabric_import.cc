// verbena fabric import: an operator's file as sections of a scenario.
#include <errno.h>
#include <fmt/format.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <memory>

#include "scenario/write.h"
#include "tools/fabric.h"
#include "tools/whole_file.h"

namespace verbena::tools {
namespace {

struct ImportOptions {
  std::string file, format, into;
  std::string name = "s0";
  bool quiet = false;
};

// Puts the sections into the scenario, if it can be read with them.
Result<void> put_into(const std::string& path, const scenario::Imported& imported,
                      const std::string& name) {
  if (imported.failed())
    return fail(EINVAL, fmt::format("{}: left as it was, since lines are refused", path));
  auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  std::string changed = *text;
  if (imported.has_switch)
    changed = scenario::replace_sections(
        changed, "switch",
        scenario::switch_toml(imported.settings, imported.formula, name, imported.port_names));
  if (imported.has_host)
    changed = scenario::replace_sections(changed, "host", scenario::host_toml(imported.host));
  if (const auto good = scenario::parse_scenario(path, changed, {}); !good)
    return fail(EINVAL,
                fmt::format("left as it was, since with these settings: {}", good.error().message));
  return write_whole_file(path, changed);
}

int import(const ImportOptions& options) {
  const auto text = read_text(options.file);
  if (!text) return complain("fabric import", text.error().message, kFabricMisuse);
  const auto format = choose_format(options.file, *text, options.format);
  if (!format) return complain("fabric import", format.error().message, kFabricMisuse);
  const scenario::Imported imported = scenario::import_text(*format, *text);
  bool findings = false;
  for (const scenario::Diagnostic& diagnostic : imported.diagnostics) {
    const bool note = diagnostic.severity == scenario::Severity::kNote;
    findings = findings || !note;
    if (!note || !options.quiet)
      fmt::print(stderr, "{}\n", scenario::text_of(options.file, diagnostic));
  }
  if (options.into.empty()) {
    fmt::print("{}", scenario::import_toml(imported, options.name));
  } else if (const auto done = put_into(options.into, imported, options.name); !done) {
    return complain("fabric import", done.error().message, kFabricMisuse);
  }
  return findings ? kFindings : 0;
}

}  // namespace

void add_fabric_import(CLI::App& fabric, Invocation& invocation) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = fabric.add_subcommand(
      "import", "Turn NVUE commands, a SONiC CONFIG_DB or dcb lines into a scenario's settings");
  command->add_option("FILE", options->file, "The configuration; - is standard input")->required();
  command->add_option("--format", options->format, "nvue, sonic or linux; guessed when not given")
      ->check(CLI::IsMember({"nvue", "sonic", "linux"}))
      ->type_name("FORMAT");
  command
      ->add_option("--into", options->into,
                   "Write them into this scenario, in place of its [switch] and [host] sections")
      ->type_name("SCENARIO");
  command->add_option("--switch", options->name, "Switch of the scenario that the ports are of")
      ->type_name("NAME");
  command->add_flag("-q,--quiet", options->quiet, "No notes, only warnings and errors");
  command->footer(
      "Each line is applied, or named on standard error with its number: as without effect here "
      "(note), doubtful (warning) or refused (error). Exit status: 0, 1 when there are warnings or "
      "errors, 2 for a file that cannot be read.");
  command->callback([options, &invocation] {
    if (takes_no_program("fabric import", invocation)) invocation.status = import(*options);
  });
}

}  // namespace verbena::tools
