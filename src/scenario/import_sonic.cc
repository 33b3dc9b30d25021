// From tables to ports, as orchagent applies them: a port without PORT_QOS_MAP has no map at all, a
// DSCP that a map does not name goes to traffic class 0, and a profile "NULL" or none on a lossless
// group is computed from CABLE_LENGTH and the speed.
#include "scenario/import_sonic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scenario/headroom.h"
#include "scenario/sonic_file.h"
#include "scenario/sonic_ports.h"
#include "scenario/sonic_tables.h"

namespace verbena::scenario {
namespace {

constexpr uint64_t kLeastBuffer = 10'000;

// Ports of the PORT table; without one, those that any other row names.
std::vector<std::string> port_names(const SonicFile& file) {
  std::set<std::string> names;
  for (const SonicRow& row : file.table("PORT")) names.insert(row.key);
  if (names.empty())
    for (std::string_view table : {"PORT_QOS_MAP", "QUEUE", "BUFFER_PG", "BUFFER_QUEUE", "PFC_WD"})
      for (const SonicRow& row : file.table(std::string(table)))
        if (row.key != "global" && row.key != "GLOBAL")
          if (const auto& key = row.parts) names.insert(key->ports.begin(), key->ports.end());
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end(), natural_before);
  return sorted;
}

// A row for a port that PORT does not have is a slip: nothing would come of it.
void check_keys(const SonicFile& file, const std::vector<std::string>& ports,
                Diagnostics& diagnostics) {
  const std::set<std::string_view> known(ports.begin(), ports.end());
  for (std::string_view table : {"PORT_QOS_MAP", "QUEUE", "BUFFER_PG", "BUFFER_QUEUE", "PFC_WD"})
    for (const SonicRow& row : file.table(std::string(table))) {
      if (row.key == "global" || row.key == "GLOBAL") continue;
      const std::optional<SonicKey>& key = row.parts;
      if (!key) {
        diagnostics.error(row.line,
                          fmt::format("{}: '{}' names no ports and numbers", table, row.key),
                          "keys look like Ethernet0,Ethernet4|3-4");
        continue;
      }
      for (const std::string& port : key->ports)
        if (!known.contains(port))
          diagnostics.error(row.line, fmt::format("{}: there is no port {} in PORT", table, port),
                            "add it to PORT, or take it out of the key");
      if (!key->numbers.empty() && key->numbers.back() >= fabric::kPriorities)
        diagnostics.note(row.line, fmt::format("{}: queues above 7 are not simulated", table));
    }
}

// The buffer: the ingress pool is what is shared and reserved; headroom lies outside of it.
void pool(const SonicFile& file, Imported& out, Diagnostics& diagnostics) {
  uint64_t shared = 0, headroom_pool = 0;
  int line = 0;
  for (const SonicRow& row : file.table("BUFFER_POOL")) {
    if (row.text("type") == "egress") continue;
    const auto size = number_of(row.text("size"));
    if (!row.text("size").empty() && !size)
      diagnostics.error(row.line, fmt::format("BUFFER_POOL|{}: size '{}' is no number", row.key,
                                              row.text("size")));
    if (size && *size > shared) {
      shared = std::min<uint64_t>(*size, uint64_t{1} << 40);
      line = row.line;
    }
    if (const auto xoff = number_of(row.text("xoff"))) headroom_pool = *xoff;
  }
  if (shared == 0) return;
  uint64_t headroom = 0;
  for (const auto& [number, port] : out.settings.ports)
    for (const fabric::GroupSettings& group : port.groups)
      if (group.lossless) headroom += group.headroom_bytes;
  out.settings.buffer_bytes = std::max<uint64_t>(shared + headroom, kLeastBuffer);
  out.lines["switch.buffer"] = line;
  if (headroom_pool != 0 && headroom_pool < headroom)
    diagnostics.warn(
        line,
        fmt::format("headroom is oversubscribed {:.1f} to 1: {} bytes of profiles share a pool of "
                    "{}, so some pauses at once lose lossless packets (here each group has all of "
                    "its headroom)",
                    static_cast<double>(headroom) / static_cast<double>(headroom_pool), headroom,
                    headroom_pool),
        fmt::format("set the pool's xoff to {}", headroom), 11);
}

}  // namespace

Imported import_sonic(std::string_view text, const ImportDefaults& defaults) {
  Imported out;
  out.format = Format::kSonic;
  out.has_switch = true;
  Diagnostics diagnostics;
  if (const auto file = SonicFile::parse(text, diagnostics)) {
    check_sonic_tables(*file, diagnostics);
    std::vector<std::string> names = port_names(*file);
    if (names.size() > kMostPorts) {
      diagnostics.error(file->line_of("PORT"), fmt::format("{} ports", names.size()),
                        fmt::format("a switch has {} at most", kMostPorts));
      names.resize(kMostPorts);
    }
    check_keys(*file, names, diagnostics);
    SonicPorts ports(*file, defaults, diagnostics, out);
    for (uint32_t number = 0; number < names.size(); ++number) {
      out.port_names[number] = names[number];
      out.settings.ports[number] = ports.port(names[number], number);
    }
    if (names.empty()) {
      diagnostics.error(0, "no table names a port", "a CONFIG_DB has its ports in PORT");
    } else {
      out.settings.port = out.settings.ports[0];
    }
    pool(*file, out, diagnostics);
  }
  out.diagnostics = diagnostics.all();
  return out;
}

}  // namespace verbena::scenario
