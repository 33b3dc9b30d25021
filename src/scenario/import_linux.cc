// A command line at a time. Each command is a table of its options, so that an unknown one is told
// with those there are.
#include "scenario/import_linux.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenario/linux_commands.h"

namespace verbena::scenario {
namespace {

// "swp3" is a port of a switch, numbered as NVUE's.
std::optional<uint32_t> switch_port(const std::string& name) {
  if (!name.starts_with("swp")) return std::nullopt;
  const auto number = number_of(std::string_view(name).substr(3));
  if (!number || *number == 0 || *number > 1024) return std::nullopt;
  return static_cast<uint32_t>(*number - 1);
}

void remember(std::map<std::string, int>& lines, const std::string& key, int line) {
  if (line != 0) lines[key] = line;
}

void finish_port(uint32_t number, const std::string& name, const LinuxDevice& device,
                 Diagnostics& diagnostics, Imported& out) {
  out.has_switch = true;
  out.port_names[number] = name;
  out.settings.ports[number] = port_of(device, diagnostics);
  const std::string key = fmt::format("switch.port.{}", number);
  remember(out.lines, key + ".pfc", device.pfc_line);
  remember(out.lines, key + ".trust", device.trust_line);
  remember(out.lines, key + ".queue", device.class_line);
  remember(out.lines, key + ".group.headroom", device.buffer_line);
  remember(out.lines, key + ".mtu", device.mtu_line);
}

void finish_host(const LinuxDevice& device, const ImportDefaults& defaults,
                 Diagnostics& diagnostics, Imported& out) {
  apply_to_host(device, defaults, out.host, diagnostics);
  out.has_host = true;
  out.host.port.pfc.cable_metres = device.cable_metres;
  remember(out.lines, "host.pfc", device.pfc_line);
  remember(out.lines, "host.trust", device.trust_line);
  remember(out.lines, "host.queue", device.class_line);
  remember(out.lines, "host.receive.buffer", device.buffer_line);
  if (device.mtu != 0) {
    // BTH, IP, UDP, the longest extension headers and the ICRC beside the payload.
    constexpr uint32_t kAround = 96;
    uint32_t path = 256;
    while (path < 4096 && path * 2 + kAround <= device.mtu) path *= 2;
    out.host.adapter.path_mtu = path;
    remember(out.lines, "host.path_mtu", device.mtu_line);
  }
}

}  // namespace

bool is_linux_command(std::string_view word) {
  return is_linux_setting(word);
}

Imported import_linux(std::string_view text, const ImportDefaults& defaults) {
  Imported out;
  out.format = Format::kLinux;
  out.formula = SwitchForm::kMlx5;
  out.host = host_profile(false);
  Diagnostics diagnostics;
  LinuxCommands commands(diagnostics, out);
  int line = 0;
  for (std::string_view each : lines_of(text)) {
    ++line;
    const std::vector<std::string> words = without_prompt(words_of(each));
    if (!words.empty()) commands.command(line, words);
  }
  std::vector<std::string> hosts;
  for (const auto& [name, device] : commands.devices()) {
    if (const auto port = switch_port(name)) {
      finish_port(*port, name, device, diagnostics, out);
    } else {
      finish_host(device, defaults, diagnostics, out);
      hosts.push_back(name);
    }
  }
  if (hosts.size() > 1)
    diagnostics.note(0, fmt::format("the host's interfaces are {}; {}, the last, is taken for its "
                                    "adapter",
                                    fmt::join(hosts, ", "), hosts.back()));
  if (out.has_switch) out.settings.port = out.settings.ports.begin()->second;
  out.has_host = out.has_host || commands.has_adapter();
  out.diagnostics = diagnostics.all();
  return out;
}

}  // namespace verbena::scenario
