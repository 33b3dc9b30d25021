// [switch]: one set of settings that every switch begins with, then what [switch.NAME] and
// [switch.NAME.port.N] change; at the end the port's rate and cable decide what "auto" is.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "scenario/schema_devices.h"
#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

using fabric::PortSettings;

constexpr std::string_view kPortTables[] = {"pfc", "group", "ecn", "queue", "watchdog"};
constexpr std::string_view kSwitchTables[] = {"pfc",      "group",   "ecn", "queue",
                                              "watchdog", "routing", "port"};

Status check_ecn(const Reader& in, const std::string& path, const fabric::EcnSettings& ecn) {
  if (ecn.min_bytes <= ecn.max_bytes) return {};
  return in.error({path + ".min", path + ".max"},
                  fmt::format("{} (Kmin) is above max = {} (Kmax)", format_bytes(ecn.min_bytes),
                              format_bytes(ecn.max_bytes)));
}

// [switch.queue.0] to [switch.queue.7]: calls each(number, table, path) for those there are.
template <typename Each>
Status numbered(const Reader& in, const toml::table& table, const std::string& path,
                const Each& each) {
  for (size_t n = 0; n < std::size(kClassNumbers); ++n) {
    const auto found = in.inner(table, path, kClassNumbers[n]);
    if (!found) return tl::unexpected(found.error());
    if (*found == nullptr) continue;
    if (auto good = each(n, **found, join_path(path, kClassNumbers[n])); !good) return good;
  }
  return {};
}

// [switch.group] is for every lossless group, [switch.group.N] for one.
Status read_groups(Reader& in, const toml::table& table, const std::string& path,
                   PortSettings& port) {
  const auto found = in.inner(table, path, "group");
  if (!found) return tl::unexpected(found.error());
  if (*found == nullptr) return {};
  const std::string at = path + ".group";
  for (fabric::GroupSettings& group : port.groups) {
    fabric::GroupSettings ignored;
    auto& target = group.lossless ? group : ignored;
    if (auto good = in.read_all(**found, at, group_keys(), target, kClassNumbers); !good)
      return good;
  }
  return numbered(in, **found, at, [&](size_t n, const toml::table& one, const std::string& full) {
    return in.read_all(one, full, group_keys(), port.groups[n]);
  });
}

// [switch.ecn] is for every queue that marks or has a lossless class.
Status read_ecn(Reader& in, const toml::table& table, const std::string& path, PortSettings& port) {
  const auto found = in.inner(table, path, "ecn");
  if (!found) return tl::unexpected(found.error());
  if (*found == nullptr) return {};
  uint8_t wanted = 0;
  for (uint32_t p = 0; p < fabric::kPriorities; ++p)
    if (port.pfc.tx_mask >> p & 1) wanted |= static_cast<uint8_t>(1u << port.priority_to_queue[p]);
  for (uint32_t q = 0; q < fabric::kPriorities; ++q) {
    fabric::EcnSettings& ecn = port.queues[q].ecn;
    const bool meant = ecn.mark || (wanted >> q & 1);
    fabric::EcnSettings changed = ecn;
    changed.mark = true;
    if (auto good = in.read_all(**found, path + ".ecn", ecn_keys(), changed); !good) return good;
    if (!meant) continue;
    if (auto good = check_ecn(in, path + ".ecn", changed); !good) return good;
    ecn = changed;
  }
  return {};
}

Status read_queues(Reader& in, const toml::table& table, const std::string& path,
                   PortSettings& port) {
  const auto found = in.inner(table, path, "queue");
  if (!found) return tl::unexpected(found.error());
  if (*found == nullptr) return {};
  const std::string at = path + ".queue";
  if (auto good = in.read(**found, at, {}, kClassNumbers); !good) return good;
  return numbered(in, **found, at, [&](size_t n, const toml::table& one, const std::string& full) {
    constexpr std::string_view kEcn[] = {"ecn"};
    fabric::QueueSettings& queue = port.queues[n];
    if (auto good = in.read_all(one, full, queue_keys(), queue, kEcn); !good) return good;
    if (one.get("ecn") != nullptr) queue.ecn.mark = true;
    if (auto good = in.read_inner(one, full, "ecn", ecn_keys(), queue.ecn); !good) return good;
    return check_ecn(in, full + ".ecn", queue.ecn);
  });
}

bool changes_classes(const toml::table& table) {
  if (table.get("priority_to_group") != nullptr || table.get("priority_to_queue") != nullptr)
    return true;
  const toml::node* pfc = table.get("pfc");
  const toml::table* inside = pfc == nullptr ? nullptr : pfc->as_table();
  return inside != nullptr && (inside->get("priorities") || inside->get("tx"));
}

// Everything that a port can have of its own, but for the port's keys themselves.
Status read_port_tables(Reader& in, const toml::table& table, const std::string& path,
                        PortSettings& port) {
  if (auto good = in.read_inner(table, path, "pfc", pfc_keys(), port.pfc); !good) return good;
  if (changes_classes(table)) follow_pfc(port);
  if (auto good = read_groups(in, table, path, port); !good) return good;
  if (auto good = read_ecn(in, table, path, port); !good) return good;
  if (auto good = read_queues(in, table, path, port); !good) return good;
  return in.read_inner(table, path, "watchdog", watchdog_keys(), port.watchdog);
}

// [switch] or [switch.NAME], without its ports. `others`: more tables that may stand in it.
Status read_switch(Reader& in, const toml::table& table, const std::string& path, SwitchForm& form,
                   std::span<const std::string_view> others) {
  SwitchForm chosen = form;
  for (const char* name : {"profile", "roce"})
    if (const toml::node* node = table.get(name)) {
      const auto& key = switch_form_keys()[std::string_view(name) == "profile" ? 0 : 1];
      const auto value = in.value(*node, join_path(path, name), key);
      if (!value) return tl::unexpected(value.error());
      key.store(chosen, *value);
      form = switch_profile(chosen.profile, chosen.roce);
      chosen = form;
    }
  std::vector<BoundKey> bound;
  bind_keys(bound, switch_form_keys(), form);
  bind_keys(bound, switch_keys(), form.settings);
  bind_keys(bound, port_keys(), form.settings.port);
  if (auto good = in.read(table, path, bound, others); !good) return good;
  if (auto good = read_port_tables(in, table, path, form.settings.port); !good) return good;
  if (auto good = in.read_inner(table, path, "routing", routing_keys(), form.settings.routing);
      !good)
    return good;
  const uint32_t entries = form.settings.routing.flowlet_entries;
  if ((entries & (entries - 1)) != 0)
    return in.error({path + ".routing.flowlet_entries"},
                    fmt::format("is {}; it must be a power of two", entries));
  return {};
}

// [switch.NAME.port.N], N a number or the name of the node at the other end.
Status read_ports(Reader& in, const toml::table& table, const std::string& path,
                  const Topology& topology, const std::vector<PortEnd>& ends, SwitchForm& form) {
  const auto found = in.inner(table, path, "port");
  if (!found) return tl::unexpected(found.error());
  if (*found == nullptr) return {};
  for (auto&& [key, node] : **found) {
    const std::string_view name = key.str();
    const std::string full = fmt::format("{}.port.{}", path, name);
    const auto one = in.table(node, full);
    if (!one) return tl::unexpected(one.error());
    uint32_t number = UINT32_MAX;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data(), end, number).ptr != end) number = UINT32_MAX;
    bool any = false;
    for (uint32_t i = 0; i < ends.size(); ++i) {
      if (i != number && topology.nodes[ends[i].peer].name != name) continue;
      any = true;
      PortSettings& port = form.settings.ports.try_emplace(i, form.settings.port).first->second;
      if (auto good = in.read_all(**one, full, port_keys(), port, kPortTables); !good) return good;
      if (auto good = read_port_tables(in, **one, full, port); !good) return good;
    }
    if (!any)
      return in.error(node.source(), full,
                      fmt::format("no such port; write a number, 0 to {}, or the name of the node "
                                  "behind it",
                                  ends.size() - 1));
  }
  return {};
}

// --- What the rate and the cable of a port decide.

uint64_t auto_headroom(const SwitchForm& form, const PortSettings& port, const Link& link) {
  const uint64_t rate = link.settings.bits_per_second;
  const double metres =
      port.pfc.cable_metres > 0 ? port.pfc.cable_metres : metres_of(link.settings.delay);
  switch (form.formula) {
    case SwitchForm::kMlx5:
      return mlx5_headroom(rate, metres, port.mtu).xoff_bytes;
    case SwitchForm::kSonicFormula:
      return sonic_headroom(rate, metres, port.mtu).xoff_bytes;
    case SwitchForm::kHpccFormula:
      break;
  }
  return hpcc_headroom(rate, metres * kCablePsPerMetre / fabric::kSecond).xoff_bytes;
}

void scale(PortSettings& port, double ratio) {
  for (fabric::QueueSettings& queue : port.queues) {
    if (!queue.ecn.mark) continue;
    queue.ecn.min_bytes = static_cast<uint64_t>(static_cast<double>(queue.ecn.min_bytes) * ratio);
    queue.ecn.max_bytes = static_cast<uint64_t>(static_cast<double>(queue.ecn.max_bytes) * ratio);
  }
  for (fabric::GroupSettings& group : port.groups)
    if (group.lossless && group.dynamic)
      for (double left = ratio; left > 1; left /= 2) group.alpha *= 2;
}

PortSettings settled(const SwitchForm& form, PortSettings port, const Link& link, uint64_t nic) {
  for (fabric::GroupSettings& group : port.groups)
    if (group.headroom_bytes == kAutoHeadroom)
      group.headroom_bytes = group.lossless ? auto_headroom(form, port, link) : 0;
  const uint64_t rate = link.settings.bits_per_second;
  if (form.scale_with_rate && rate > nic)
    scale(port, static_cast<double>(rate) / static_cast<double>(nic));
  return port;
}

Status check_buffer(const Reader& in, const std::string& name, const fabric::SwitchSettings& s,
                    size_t ports) {
  long double sum = 0;
  for (uint32_t i = 0; i < ports; ++i) {
    const auto own = s.ports.find(i);
    const PortSettings& port = own == s.ports.end() ? s.port : own->second;
    long double most = 0, all = 0;
    for (const fabric::GroupSettings& group : port.groups) {
      sum += static_cast<long double>(group.reserved_bytes);
      all += static_cast<long double>(group.headroom_bytes);
      most = std::max<long double>(most, group.headroom_bytes);
    }
    sum += s.headroom == fabric::SwitchSettings::kPerPort ? most : all;
  }
  if (sum < static_cast<long double>(s.buffer_bytes)) return {};
  return in.error({"switch." + name + ".group.headroom", "switch." + name + ".buffer",
                   "switch.group.headroom", "switch.buffer", "switch.pfc.cable", "topology.kind"},
                  fmt::format("headroom and reserved bytes of the {} ports of {} are {:.0f}; its "
                              "buffer of {} must be larger",
                              ports, name, static_cast<double>(sum), format_bytes(s.buffer_bytes)));
}

// Ports of one rate and delay are alike; the most frequent kind is `port`, the others are named.
fabric::SwitchSettings settle_switch(const SwitchForm& form, const Topology& topology,
                                     const std::vector<PortEnd>& ends, uint64_t nic) {
  fabric::SwitchSettings result = form.settings;
  result.ports.clear();
  std::map<std::pair<uint64_t, Time>, uint32_t> kinds;
  std::pair<uint64_t, Time> usual{};
  uint32_t most = 0;
  const auto kind_of = [&](const PortEnd& end) {
    const fabric::LinkSettings& link = topology.links[end.link].settings;
    return std::pair{link.bits_per_second, link.delay};
  };
  for (const PortEnd& end : ends)
    if (const uint32_t count = ++kinds[kind_of(end)]; count > most) {
      most = count;
      usual = kind_of(end);
    }
  for (uint32_t i = 0; i < ends.size(); ++i) {
    const Link& link = topology.links[ends[i].link];
    const auto own = form.settings.ports.find(i);
    if (own != form.settings.ports.end())
      result.ports[i] = settled(form, own->second, link, nic);
    else if (kind_of(ends[i]) != usual)
      result.ports[i] = settled(form, form.settings.port, link, nic);
    else
      result.port = settled(form, form.settings.port, link, nic);
  }
  return result;
}

uint64_t host_rate(const Topology& topology) {
  uint64_t rate = 0;
  for (const Link& link : topology.links)
    if (link.a < topology.hosts || link.b < topology.hosts)
      rate = std::max(rate, link.settings.bits_per_second);
  return rate;
}

// What [switch] may hold that is no switch.
std::vector<std::string_view> switch_words() {
  std::vector<std::string_view> words;
  for (const auto& key : switch_form_keys()) words.push_back(key.name);
  for (const auto& key : switch_keys()) words.push_back(key.name);
  for (const auto& key : port_keys()) words.push_back(key.name);
  words.insert(words.end(), std::begin(kSwitchTables), std::end(kSwitchTables));
  return words;
}

}  // namespace

Status read_switches(Reader& in, const toml::table& root, bool as_hpcc, Scenario& scenario) {
  const Topology& topology = scenario.topology;
  SwitchForm base =
      switch_profile(as_hpcc ? SwitchForm::kHpccNs3 : SwitchForm::kCumulus, SwitchForm::kLossless);
  static const toml::table kEmpty;
  const toml::table* table = &kEmpty;
  if (const toml::node* node = root.get("switch")) {
    const auto found = in.table(*node, "switch");
    if (!found) return tl::unexpected(found.error());
    table = *found;
  }
  const auto names =
      device_names(in, *table, "switch", switch_words(), NodeNames(topology).words(true));
  if (!names) return tl::unexpected(names.error());
  if (const toml::node* port = table->get("port"))
    return in.error(port->source(), "switch.port",
                    "ports belong to one switch: [switch.NAME.port.N]");
  std::vector<std::string_view> others = *names;
  others.insert(others.end(), std::begin(kSwitchTables), std::end(kSwitchTables) - 1);
  if (auto good = read_switch(in, *table, "switch", base, others); !good) return good;
  const auto ends = ports_of(topology);
  const uint64_t nic = host_rate(topology);
  for (uint32_t n = topology.hosts; n < topology.nodes.size(); ++n) {
    SwitchForm form = base;
    const std::string& own = topology.nodes[n].name;
    for (std::string_view name : *names) {
      if (!name_matches(name, own)) continue;
      const toml::table& change = *table->get(name)->as_table();
      const std::string path = join_path("switch", name);
      if (auto good = read_switch(in, change, path, form, kSwitchTables); !good) return good;
      if (auto good = read_ports(in, change, path, topology, ends[n], form); !good) return good;
    }
    scenario.switches.push_back(settle_switch(form, topology, ends[n], nic));
    if (auto good = check_buffer(in, own, scenario.switches.back(), ends[n].size()); !good)
      return good;
  }
  return {};
}

}  // namespace verbena::scenario
