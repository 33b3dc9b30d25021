// [host]: settings of every adapter, then what [host.NAME] changes.
#include <algorithm>

#include "scenario/schema_devices.h"
#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

constexpr std::string_view kHostTables[] = {"pfc",   "queue", "receive", "storm",
                                            "dcqcn", "np",    "swift",   "hpcc"};

Status read_dcqcn(Reader& in, const toml::table& table, const std::string& path,
                  engine::CongestionSettings& congestion) {
  const auto inside = in.inner(table, path, "dcqcn");
  if (!inside) return tl::unexpected(inside.error());
  if (*inside != nullptr && (*inside)->get("profile") != nullptr) {
    const Key<engine::DcqcnSettings>& key = dcqcn_keys().front();
    const auto value = in.value(*(*inside)->get("profile"), path + ".dcqcn.profile", key);
    if (!value) return tl::unexpected(value.error());
    const std::string_view name = key.choices[value->whole];
    if (const auto profile = engine::dcqcn_profile(name)) congestion.dcqcn = *profile;
    if (name == "paper" || name == "authors")  // N of both: one CNP in 50 us
      congestion.np.min_time_between_cnps = microseconds(50);
  }
  return in.read_inner(table, path, "dcqcn", dcqcn_keys(), congestion.dcqcn);
}

Status read_host_queues(Reader& in, const toml::table& table, const std::string& path,
                        fabric::HostSettings& port) {
  const std::string at = path + ".queue";
  const auto found = in.inner(table, path, "queue");
  if (!found) return tl::unexpected(found.error());
  if (*found == nullptr) return {};
  if (auto good = in.read(**found, at, {}, kClassNumbers); !good) return good;
  for (size_t n = 0; n < std::size(kClassNumbers); ++n)
    if (auto good = in.read_inner(**found, at, kClassNumbers[n], queue_keys(), port.queues[n]);
        !good)
      return good;
  return {};
}

Status check_host(const Reader& in, const std::string& path, const Host& host) {
  const fabric::HostSettings& port = host.port;
  if (port.receive_xon_bytes > port.receive_xoff_bytes ||
      port.receive_xoff_bytes > port.receive_buffer_bytes)
    return in.error(
        {path + ".receive.xon", path + ".receive.xoff", path + ".receive.buffer"},
        fmt::format("xon = {}, xoff = {} and buffer = {} must rise",
                    format_bytes(port.receive_xon_bytes), format_bytes(port.receive_xoff_bytes),
                    format_bytes(port.receive_buffer_bytes)));
  if (port.storm_mask != 0 && port.storm_until <= port.storm_from)
    return in.error({path + ".storm.until", path + ".storm.from"},
                    fmt::format("is {}, not after from = {}", format_time(port.storm_until),
                                format_time(port.storm_from)));
  return {};
}

Status read_host(Reader& in, const toml::table& table, const std::string& path, Host& host,
                 std::span<const std::string_view> others) {
  HostForm form;
  if (const toml::node* node = table.get("profile")) {
    const Key<HostForm>& key = host_form_keys().front();
    const auto value = in.value(*node, join_path(path, "profile"), key);
    if (!value) return tl::unexpected(value.error());
    host = host_profile(value->whole == HostForm::kHpccNs3);
  }
  std::vector<BoundKey> bound;
  bind_keys(bound, host_form_keys(), form);
  bind_keys(bound, adapter_keys(), host.adapter);
  bind_keys(bound, congestion_keys(), host.adapter.congestion);
  if (auto good = in.read(table, path, bound, others); !good) return good;
  engine::CongestionSettings& congestion = host.adapter.congestion;
  fabric::HostSettings& port = host.port;
  Status good = read_dcqcn(in, table, path, congestion);
  if (good) good = in.read_inner(table, path, "np", np_keys(), congestion.np);
  if (good) good = in.read_inner(table, path, "swift", swift_keys(), congestion.swift);
  if (good) good = in.read_inner(table, path, "hpcc", hpcc_keys(), congestion.hpcc);
  if (good) good = in.read_inner(table, path, "pfc", pfc_keys(), port.pfc);
  if (good) good = in.read_inner(table, path, "receive", receive_keys(), port);
  if (good) good = in.read_inner(table, path, "storm", storm_keys(), port);
  if (good) good = read_host_queues(in, table, path, port);
  if (good) good = check_host(in, path, host);
  return good;
}

// What [host] may hold that is no host.
std::vector<std::string_view> host_words() {
  std::vector<std::string_view> words(std::begin(kHostTables), std::end(kHostTables));
  for (const auto& key : adapter_keys()) words.push_back(key.name);
  return words;
}

}  // namespace

Status read_hosts(Reader& in, const toml::table& root, bool as_hpcc, Scenario& scenario) {
  const Topology& topology = scenario.topology;
  Host base = host_profile(as_hpcc);
  const toml::node* node = root.get("host");
  if (node == nullptr) {
    scenario.hosts.assign(topology.hosts, base);
    return {};
  }
  const auto table = in.table(*node, "host");
  if (!table) return tl::unexpected(table.error());
  const auto names =
      device_names(in, **table, "host", host_words(), NodeNames(topology).words(false));
  if (!names) return tl::unexpected(names.error());
  std::vector<std::string_view> others = *names;
  others.insert(others.end(), std::begin(kHostTables), std::end(kHostTables));
  if (auto good = read_host(in, **table, "host", base, others); !good) return good;
  scenario.hosts.assign(topology.hosts, base);
  for (std::string_view name : *names)
    for (uint32_t h = 0; h < topology.hosts; ++h) {
      if (!name_matches(name, topology.nodes[h].name)) continue;
      const toml::table& change = *(*table)->get(name)->as_table();
      if (auto good =
              read_host(in, change, join_path("host", name), scenario.hosts[h], kHostTables);
          !good)
        return good;
    }
  return {};
}

}  // namespace verbena::scenario
