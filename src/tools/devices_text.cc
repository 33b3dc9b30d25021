// Both forms print the same facts; the limits come from one list.
#include "tools/devices_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace verbena::tools {
namespace {

std::vector<std::pair<const char*, uint64_t>> limit_list(const host::Limits& limits) {
  return {{"max_qp", limits.max_qp},
          {"max_qp_wr", limits.max_qp_wr},
          {"max_sge", limits.max_sge},
          {"max_cq", limits.max_cq},
          {"max_cqe", limits.max_cqe},
          {"max_mr", limits.max_mr},
          {"max_mr_size", limits.max_mr_size},
          {"max_pd", limits.max_pd},
          {"max_srq", limits.max_srq},
          {"max_srq_wr", limits.max_srq_wr},
          {"max_srq_sge", limits.max_srq_sge},
          {"max_ah", limits.max_ah},
          {"max_qp_rd_atom", limits.max_qp_rd_atom},
          {"max_qp_init_rd_atom", limits.max_qp_init_rd_atom},
          {"max_inline", limits.max_inline},
          {"max_mcast_grp", limits.max_mcast_grp},
          {"max_mw", limits.max_mw}};
}

std::string mtu_reason(const host::DeviceModel& device) {
  const uint32_t fits = host::path_mtu_for(device.interface_mtu);
  if (fits != device.path_mtu)
    return fmt::format("configured; {} with {} bytes could carry {}", device.interface,
                       device.interface_mtu, fits);
  return fmt::format("the largest whose packets fit {}'s {} bytes", device.interface,
                     device.interface_mtu);
}

std::string device_text(const host::DeviceModel& device, bool verbose) {
  std::string text = fmt::format("{} on {}\n", device.name, device.interface);
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<16} {}\n", name, value);
  };
  line("port 1", device.port_active
                     ? "ACTIVE, Ethernet (RoCE v2)"
                     : fmt::format("DOWN: {} is down or has no carrier", device.interface));
  line("node GUID", host::guid_groups(device.node_guid));
  line("path MTU", fmt::format("{} ({})", device.path_mtu, mtu_reason(device)));
  line("rate", fmt::format("{} Gb/s", device.rate_gbps));
  line("firmware", device.firmware_version);
  if (device.gids.empty())
    line("GIDs", fmt::format("none: {} has no address of a configured kind", device.interface));
  for (size_t i = 0; i < device.gids.size(); ++i) {
    const host::GidEntry& entry = device.gids[i];
    line(fmt::format("GID {}", i).c_str(),
         fmt::format("{}  {}", host::gid_groups(entry.gid), entry.reason));
  }
  if (verbose)
    for (const auto& [name, value] : limit_list(device.limits))
      line(name, fmt::format("{}", value));
  return text;
}

nlohmann::ordered_json device_json(const host::DeviceModel& device) {
  nlohmann::ordered_json out;
  out["name"] = device.name;
  out["interface"] = device.interface;
  out["port_state"] = device.port_active ? "ACTIVE" : "DOWN";
  out["node_guid"] = host::guid_groups(device.node_guid);
  out["interface_mtu"] = device.interface_mtu;
  out["path_mtu"] = device.path_mtu;
  out["rate_gbps"] = device.rate_gbps;
  out["firmware"] = device.firmware_version;
  out["gids"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < device.gids.size(); ++i) {
    const host::GidEntry& entry = device.gids[i];
    nlohmann::ordered_json gid;
    gid["index"] = i;
    gid["gid"] = host::gid_groups(entry.gid);
    if (!entry.empty()) {
      gid["address"] = engine::address_text(entry.gid);
      gid["type"] = "RoCE v2";
      gid["interface"] = entry.interface;
    }
    gid["reason"] = entry.reason;
    out["gids"].push_back(std::move(gid));
  }
  for (const auto& [name, value] : limit_list(device.limits)) out["limits"][name] = value;
  return out;
}

}  // namespace

std::string devices_text(std::span<const host::DeviceModel> devices, bool verbose) {
  std::string text;
  for (const host::DeviceModel& device : devices) {
    if (!text.empty()) text += "\n";
    text += device_text(device, verbose);
  }
  return text;
}

std::string devices_json(std::span<const host::DeviceModel> devices) {
  nlohmann::ordered_json out;
  out["devices"] = nlohmann::ordered_json::array();
  for (const host::DeviceModel& device : devices) out["devices"].push_back(device_json(device));
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace verbena::tools
