// From lines to the tree, and from the tree to ports and their numbers.
#include "scenario/import_nvue.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenario/nvue_ports.h"
#include "scenario/nvue_tree.h"

namespace verbena::scenario {
namespace {

std::vector<std::string> front_ports(const NvueTree& tree, Diagnostics& diagnostics) {
  std::vector<std::string> names = tree.below("interface");
  std::erase_if(names, [&](const std::string& name) {
    if (name.starts_with("swp")) return false;
    diagnostics.warn(tree.line_of("interface/" + name),
                     fmt::format("'{}' is no port of the switch's front: not used", name),
                     "name the ports themselves: swp1, swp1s0");
    return true;
  });
  return names;
}

// swp1 is port 0. Where ports are broken out (swp1s0), numbers follow the order of the names.
std::map<uint32_t, std::string> port_numbers(std::vector<std::string> names,
                                             Diagnostics& diagnostics) {
  std::sort(names.begin(), names.end(), natural_before);
  std::map<uint32_t, std::string> ports;
  for (const std::string& name : names) {
    const auto number = name.starts_with("swp") ? number_of(name.substr(3)) : std::nullopt;
    if (!number || *number == 0 || *number > kMostPorts) break;
    ports.emplace(static_cast<uint32_t>(*number - 1), name);
  }
  if (ports.size() == names.size()) return ports;
  ports.clear();
  for (uint32_t i = 0; i < names.size(); ++i) ports.emplace(i, names[i]);
  diagnostics.note(
      0, fmt::format("ports are numbered in the order of their names: {} is port 0", names[0]));
  return ports;
}

void routing(const NvueTree& tree, Imported& out) {
  fabric::RoutingSettings& routing = out.settings.routing;
  for (std::string_view word : {"enable", "state"})
    if (const NvueLeaf* on = tree.find(fmt::format("router/adaptive-routing/{}", word))) {
      if (on->value == "on") routing.mode = fabric::RoutingSettings::kAdaptive;
      out.lines["switch.routing.mode"] = on->line;
    }
  for (const std::string& name : tree.below("interface"))
    if (const NvueLeaf* share = tree.find(
            fmt::format("interface/{}/router/adaptive-routing/link-utilization-threshold", name)))
      routing.utilisation_threshold = static_cast<double>(*number_of(share->value)) / 100;
}

}  // namespace

Imported import_nvue(std::string_view text) {
  Imported out;
  out.format = Format::kNvue;
  out.has_switch = true;
  Diagnostics diagnostics;
  NvueTree tree;
  int line = 0;
  for (std::string_view each : lines_of(text)) {
    ++line;
    const std::vector<std::string> words = without_prompt(words_of(each));
    if (words.empty()) continue;
    if (words[0] != "nv") {
      diagnostics.error(line, fmt::format("'{}' is no NVUE command", fmt::join(words, " ")),
                        "commands begin with: nv set");
      continue;
    }
    tree.command(line, {words.begin() + 1, words.end()}, diagnostics);
  }
  if (!tree.other_lines().empty())
    diagnostics.note(tree.other_lines()[0],
                     fmt::format("lines that are not about QoS are not used: {}",
                                 fmt::join(tree.other_lines(), ", ")));
  NvuePorts ports_of_tree(tree, diagnostics, out);
  out.settings.port = ports_of_tree.port("", "switch");
  std::vector<std::string> names = front_ports(tree, diagnostics);
  if (names.size() > kMostPorts) {
    diagnostics.error(tree.line_of("interface/" + names[kMostPorts]),
                      fmt::format("{} ports", names.size()),
                      fmt::format("a switch has {} at most", kMostPorts));
    names.resize(kMostPorts);
  }
  if (!names.empty()) out.port_names = port_numbers(names, diagnostics);
  for (const auto& [number, name] : out.port_names) {
    out.settings.ports[number] = ports_of_tree.port(name, fmt::format("switch.port.{}", number));
  }
  routing(tree, out);
  out.diagnostics = diagnostics.all();
  return out;
}

}  // namespace verbena::scenario
