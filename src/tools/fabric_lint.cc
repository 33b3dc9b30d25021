// verbena fabric lint: mistakes in a scenario, or in an operator's file by itself.
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenario/lint.h"
#include "scenario/units.h"
#include "scenario/write.h"
#include "tools/fabric.h"

namespace verbena::tools {
namespace {

struct LintOptions {
  std::vector<std::string> files;
  std::string format;
  bool list = false;
  bool json = false;
};

struct Checked {
  std::string file;
  std::vector<scenario::Diagnostic> diagnostics;  // of reading an operator's file
  std::vector<scenario::Finding> findings;
};

constexpr uint32_t kFewestHosts = 2, kMostHosts = 64;
constexpr double kUsualCable = 5;  // metres
constexpr uint64_t kUsualRate = 100'000'000'000;

// The ports that the file names, one after the other; ports that it does not name have the first
// one's settings. (By itself a file of two named ports of 64 says nothing about the others.)
scenario::Imported named_ports(const scenario::Imported& imported) {
  scenario::Imported shown = imported;
  shown.settings.ports.clear();
  shown.lines.clear();
  uint32_t next = 0;
  std::map<std::string, std::string> prefixes;  // of lines
  for (const auto& [number, port] : imported.settings.ports) {
    if (next == kMostHosts) break;
    if (next == 0) shown.settings.port = port;
    prefixes[fmt::format("switch.port.{}.", number)] = fmt::format("switch.port.{}.", next);
    shown.settings.ports[next++] = port;
  }
  for (const auto& [key, line] : imported.lines) {
    const size_t end = key.starts_with("switch.port.") ? key.find('.', 12) : key.npos;
    const auto found = end == key.npos ? prefixes.end() : prefixes.find(key.substr(0, end + 1));
    if (found == prefixes.end()) {
      shown.lines.try_emplace(key, line);
      continue;
    }
    shown.lines[found->second + key.substr(end + 1)] = line;
    if (found->second == "switch.port.0.") shown.lines["switch." + key.substr(end + 1)] = line;
  }
  return shown;
}

// A switch with these settings and a host at each of its ports, each sending to the next: the
// smallest fabric in which the rules have something to look at. Hosts that the file does not speak
// of obey every pause.
std::string fabric_around(const scenario::Imported& imported) {
  const auto& ports = imported.settings.ports;
  const auto hosts = std::max(kFewestHosts, static_cast<uint32_t>(ports.size()));
  double cable = imported.settings.port.pfc.cable_metres;
  for (const auto& [number, port] : ports) cable = std::max(cable, port.pfc.cable_metres);
  return fmt::format(
      "[topology]\nkind = \"star\"\nhosts = {}\nrate = \"{}\"\ncable = \"{}\"\n\n"
      "[[workload]]\nkind = \"shift\"\nstep = 1\nbytes = \"1MB\"\n\n{}{}",
      hosts, scenario::format_rate(imported.least_rate != 0 ? imported.least_rate : kUsualRate),
      scenario::format_length(cable > 0 ? cable : kUsualCable),
      scenario::import_toml(imported, "s0"),
      imported.has_host ? "" : "\n[host.pfc]\nrx = [0, 1, 2, 3, 4, 5, 6, 7]\n");
}

Result<Checked> check_operators(const std::string& path, const std::string& text,
                                scenario::Format format) {
  const scenario::Imported imported = scenario::import_text(format, text);
  Checked checked{path, imported.diagnostics, {}};
  if (imported.failed() || (!imported.has_switch && !imported.has_host)) return checked;
  const scenario::Imported shown = named_ports(imported);
  auto scenario = scenario::parse_scenario(path, fabric_around(shown), {});
  if (!scenario)
    return fail(EINVAL, fmt::format("{}: these settings make no fabric: {}", path,
                                    scenario.error().message));
  scenario->lines = shown.lines;
  checked.findings = scenario::lint(*scenario);
  return checked;
}

Result<Checked> check(const std::string& path, const std::string& chosen) {
  const auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  if (chosen.empty() && path.ends_with(".toml")) {
    const auto scenario = scenario::parse_scenario(path, *text, {});
    if (!scenario) return tl::unexpected(scenario.error());
    return Checked{path, {}, scenario::lint(*scenario)};
  }
  const auto format = choose_format(path, *text, chosen);
  if (!format) return tl::unexpected(format.error());
  return check_operators(path, *text, *format);
}

std::string_view rule_name(int number) {
  for (const scenario::LintRule& rule : scenario::lint_rules())
    if (rule.number == number) return rule.name;
  return "";
}

void print(const Checked& checked) {
  for (const scenario::Diagnostic& diagnostic : checked.diagnostics)
    if (diagnostic.severity != scenario::Severity::kNote)
      fmt::print("{}\n", scenario::text_of(checked.file, diagnostic));
  for (const scenario::Finding& finding : checked.findings)
    fmt::print("{}", scenario::text_of(checked.file, finding));
}

nlohmann::json json_of(const Checked& checked) {
  nlohmann::json all = nlohmann::json::array();
  for (const scenario::Diagnostic& d : checked.diagnostics)
    all.push_back({{"file", checked.file},
                   {"line", d.line},
                   {"severity", scenario::severity_name(d.severity)},
                   {"rule", d.rule},
                   {"name", rule_name(d.rule)},
                   {"what", d.what},
                   {"fix", d.to_do}});
  for (const scenario::Finding& f : checked.findings)
    all.push_back({{"file", checked.file},
                   {"line", f.line},
                   {"severity", scenario::severity_name(f.severity)},
                   {"rule", f.rule},
                   {"name", rule_name(f.rule)},
                   {"places", f.places},
                   {"what", f.what},
                   {"then", f.then},
                   {"fix", f.fix}});
  return all;
}

void list() {
  for (const scenario::LintRule& rule : scenario::lint_rules())
    fmt::print("{:2}  {:22}{}\n", rule.number, rule.name, rule.about);
}

int lint(const LintOptions& options) {
  if (options.list) {
    list();
    return 0;
  }
  if (options.files.empty())
    return complain("fabric lint", "no file; give scenarios or configurations", kFabricMisuse);
  nlohmann::json all = nlohmann::json::array();
  size_t said = 0;
  for (const std::string& file : options.files) {
    const auto checked = check(file, options.format);
    if (!checked) return complain("fabric lint", checked.error().message, kFabricMisuse);
    for (const scenario::Diagnostic& diagnostic : checked->diagnostics)
      if (diagnostic.severity != scenario::Severity::kNote) ++said;
    said += checked->findings.size();
    if (options.json) {
      for (auto& each : json_of(*checked)) all.push_back(std::move(each));
    } else {
      print(*checked);
    }
  }
  if (options.json)
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{} {}, {} {}\n", options.files.size(), options.files.size() == 1 ? "file" : "files",
               said, said == 1 ? "finding" : "findings");
  return said == 0 ? 0 : kFindings;
}

}  // namespace

void add_fabric_lint(CLI::App& fabric, Invocation& invocation) {
  auto options = std::make_shared<LintOptions>();
  CLI::App* command = fabric.add_subcommand(
      "lint", "Name every mistake with its line, what will happen, and the fix");
  command->add_option("FILE", options->files,
                      "Scenarios (.toml), or configurations as `fabric import` reads them");
  command->add_option("--format", options->format, "nvue, sonic or linux; guessed when not given")
      ->check(CLI::IsMember({"nvue", "sonic", "linux"}))
      ->type_name("FORMAT");
  command->add_flag("--list", options->list, "List the rules");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "A configuration by itself is looked at as one switch with hosts at its ports. Exit status: "
      "0 "
      "clean, 1 when there are findings, 2 for a file that cannot be read.");
  command->callback([options, &invocation] {
    if (takes_no_program("fabric lint", invocation)) invocation.status = lint(*options);
  });
}

}  // namespace verbena::tools
