// From settings and interfaces to devices: which interfaces get one, in which order, and what
// stands in each GID table.
#include "host/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "host/config_file.h"

namespace verbena::host {
namespace {

constexpr uint32_t kPathMtus[] = {4096, 2048, 1024, 512, 256};

bool routable(const Interface& interface) {
  return std::any_of(interface.addresses.begin(), interface.addresses.end(),
                     [](const InterfaceAddress& address) { return !address.link_local(); });
}

// A program that names no device takes the first, so the most useful one leads.
std::vector<const Interface*> default_order(const std::vector<Interface>& interfaces) {
  std::vector<const Interface*> chosen;
  for (const Interface& interface : interfaces)
    if (interface.up && !interface.addresses.empty()) chosen.push_back(&interface);
  const auto rank = [](const Interface* it) {
    return std::make_tuple(it->loopback, !routable(*it), !it->running, it->ifindex);
  };
  std::sort(chosen.begin(), chosen.end(),
            [&](const Interface* a, const Interface* b) { return rank(a) < rank(b); });
  if (chosen.size() > kMaxDevices) chosen.resize(kMaxDevices);
  return chosen;
}

const Interface* find_interface(const std::vector<Interface>& interfaces, std::string_view name) {
  for (const Interface& interface : interfaces)
    if (interface.name == name) return &interface;
  return nullptr;
}

std::string interface_names(const std::vector<Interface>& interfaces) {
  std::string names;
  for (const Interface& interface : interfaces)
    names += (names.empty() ? "" : ", ") + interface.name + (interface.up ? "" : " (down)");
  return names.empty() ? "none" : names;
}

// EUI-64 of the MAC (IEEE: ff:fe in the middle, universal/local bit flipped). An interface
// without a MAC gets a locally administered one from the host's identity.
uint64_t guid_of(const Interface& interface, const std::string& identity) {
  uint64_t mac = 0;
  for (uint8_t byte : interface.mac) mac = mac << 8 | byte;
  if (mac == 0) {
    const uint64_t hash = Fnv1a().add(identity).add('\0').add(interface.name).value();
    return (hash & ~(uint64_t{3} << 56)) | uint64_t{2} << 56;
  }
  return ((mac >> 24) << 40 | uint64_t{0xfffe} << 24 | (mac & 0xffffff)) ^ uint64_t { 2 } << 56;
}

// Two devices on one interface need two GUIDs: the second and later count down in the middle byte.
void make_unique(std::vector<DeviceModel>& devices) {
  for (size_t i = 0; i < devices.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (devices[i].node_guid == devices[j].node_guid) {
        devices[i].node_guid -= uint64_t{1} << 32;
        j = static_cast<size_t>(-1);  // compare again from the first
      }
}

bool is_kind(const InterfaceAddress& address, GidKind kind) {
  switch (kind) {
    case GidKind::kIpv4:
      return address.gid.is_ipv4();
    case GidKind::kLinkLocal:
      return address.link_local();
    case GidKind::kIpv6:
      return !address.gid.is_ipv4() && !address.link_local();
  }
  return false;
}

GidEntry entry_for(const Interface& interface, const InterfaceAddress& address,
                   std::string_view suffix) {
  const char* kind = address.gid.is_ipv4()  ? "IPv4 address"
                     : address.link_local() ? "IPv6 link-local address"
                                            : "IPv6 address";
  return GidEntry{.gid = address.gid,
                  .ifindex = interface.ifindex,
                  .interface = interface.name,
                  .reason = fmt::format("{} {}/{} of {}{}", kind, engine::address_text(address.gid),
                                        address.prefix_length, interface.name, suffix)};
}

std::vector<GidEntry> ordered_gids(const Interface& interface, const std::vector<GidKind>& order) {
  std::vector<GidEntry> gids;
  for (GidKind kind : order)
    for (const InterfaceAddress& address : interface.addresses)
      if (is_kind(address, kind) && gids.size() < kMaxGids)
        gids.push_back(entry_for(interface, address, ""));
  return gids;
}

Result<std::vector<GidEntry>> listed_gids(const Interface& interface,
                                          const DeviceSettings& settings,
                                          const std::string& where) {
  std::vector<GidEntry> gids;
  for (const std::string& text : *settings.gids) {
    if (text.empty()) {
      gids.push_back(GidEntry{.reason = "a hole, left by gids in " + where});
      continue;
    }
    const auto wanted = parse_gid(text);
    const auto owned =
        std::find_if(interface.addresses.begin(), interface.addresses.end(),
                     [&](const InterfaceAddress& a) { return wanted && a.gid == *wanted; });
    if (owned == interface.addresses.end()) {
      std::string names;
      for (const InterfaceAddress& a : interface.addresses)
        names += (names.empty() ? "" : ", ") + engine::address_text(a.gid);
      return fail(EADDRNOTAVAIL,
                  fmt::format("{}: gids lists {}, which is no address of {}; it has: {}", where,
                              text, interface.name, names.empty() ? "none" : names));
    }
    gids.push_back(entry_for(interface, *owned, ", listed in " + where));
  }
  return gids;
}

Result<DeviceModel> build_device(const Interface& interface, const DeviceSettings& settings,
                                 const ConfigSource& source, const std::string& where) {
  DeviceModel device;
  device.name = settings.name;
  device.interface = interface.name;
  device.ifindex = interface.ifindex;
  device.node_guid = settings.guid.value_or(guid_of(interface, source.identity));
  device.mac = interface.mac;
  device.interface_mtu = interface.mtu;
  device.path_mtu = std::min(path_mtu_for(interface.mtu), settings.mtu.value_or(4096));
  device.port_active = interface.up && (interface.running || interface.loopback);
  device.loopback = interface.loopback;
  device.limits = settings.limits;
  device.rate_gbps = settings.rate_gbps;
  device.lid_addressing = settings.lid_addressing;
  device.vendor_id = settings.vendor_id;
  device.vendor_part_id = settings.vendor_part_id;
  device.hardware_version = settings.hardware_version;
  device.firmware_version = settings.firmware_version;
  device.board_id = settings.board_id;
  if (!settings.gids) {
    device.gids = ordered_gids(interface, settings.gid_order);
    return device;
  }
  auto gids = listed_gids(interface, settings, where);
  if (!gids) return tl::unexpected(gids.error());
  device.gids = std::move(*gids);
  return device;
}

bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxDeviceName || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c > 0x20 && c < 0x7f && c != '/' && c != ',' && c != '=';
  });
}

// "NAME=INTERFACE,INTERFACE,...": a name may be left out. Settings of a configured device with the
// same name are kept.
Result<std::vector<DeviceSettings>> parse_device_list(std::string_view list,
                                                      const ConfigFile& file) {
  std::vector<DeviceSettings> devices;
  const std::string_view given = list;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string name(equals == item.npos ? "" : item.substr(0, equals));
    const std::string interface(equals == item.npos ? item : item.substr(equals + 1));
    if ((equals != item.npos && !valid_name(name)) || !valid_name(interface) ||
        devices.size() >= kMaxDevices)
      return fail(EINVAL, fmt::format("VERBENA_DEVICES: '{}' is not NAME=INTERFACE (at most {} "
                                      "devices, names of 1 to {} printable characters without "
                                      "space, '/', ',' or '=')",
                                      item, kMaxDevices, kMaxDeviceName));
    DeviceSettings settings = file.defaults;
    for (const DeviceSettings& configured : file.devices)
      if (!name.empty() && configured.name == name) settings = configured;
    settings.name = name;
    settings.interface = interface;
    devices.push_back(std::move(settings));
  }
  if (devices.empty())
    return fail(EINVAL,
                fmt::format("VERBENA_DEVICES='{}' names no device; write NAME=INTERFACE,..., "
                            "or leave it empty for all",
                            given));
  return devices;
}

// Devices without a name take verbena0, verbena1, ... skipping names already given.
void fill_names(std::vector<DeviceSettings>& devices) {
  size_t next = 0;
  for (DeviceSettings& device : devices) {
    while (device.name.empty()) {
      const std::string name = fmt::format("verbena{}", next++);
      const bool taken = std::any_of(devices.begin(), devices.end(),
                                     [&](const DeviceSettings& d) { return d.name == name; });
      if (!taken) device.name = name;
    }
  }
}

std::string read_small(const char* path) {
  char bytes[256];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t got = read(fd, bytes, sizeof(bytes));
  close(fd);
  return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : std::string();
}

std::string host_identity() {
  char text[256] = {};
  std::string identity = read_small("/etc/machine-id");
  if (gethostname(text, sizeof(text) - 1) == 0) identity += text;
  const ssize_t size = readlink("/proc/self/ns/net", text, sizeof(text));
  if (size > 0) identity.append(text, static_cast<size_t>(size));
  return identity;
}

Result<std::vector<DeviceSettings>> wanted_devices(const ConfigSource& source,
                                                   const ConfigFile& file) {
  if (!source.devices.empty()) return parse_device_list(source.devices, file);
  if (!file.devices.empty()) return file.devices;
  std::vector<DeviceSettings> devices;
  for (const Interface* interface : default_order(source.interfaces)) {
    devices.push_back(file.defaults);
    devices.back().interface = interface->name;
  }
  return devices;
}

}  // namespace

uint32_t path_mtu_for(uint32_t interface_mtu) {
  for (uint32_t mtu : kPathMtus)
    if (interface_mtu >= mtu + kRoceOverhead) return mtu;
  return 256;
}

Result<ConfigSource> ConfigSource::from_environment() {
  ConfigSource source;
  const char* config = getenv("VERBENA_CONFIG");
  const char* devices = getenv("VERBENA_DEVICES");
  if (config != nullptr) source.config_path = config;
  if (devices != nullptr) source.devices = devices;
  const char* setting = getenv("VERBENA_LID");
  const std::string_view lid = setting != nullptr ? setting : "";
  if (!lid.empty() && lid != "0" && lid != "1")
    return fail(EINVAL, fmt::format("VERBENA_LID={} is not known; use 0 or 1", lid));
  source.lid = lid == "1";
  source.identity = host_identity();
  auto interfaces = read_interfaces();
  if (!interfaces) return tl::unexpected(interfaces.error());
  source.interfaces = std::move(*interfaces);
  return source;
}

Result<std::vector<DeviceModel>> load_devices(const ConfigSource& source) {
  ConfigFile file;
  if (!source.config_path.empty()) {
    auto read = read_config(source.config_path);
    if (!read) return tl::unexpected(read.error());
    file = std::move(*read);
  }
  auto wanted = wanted_devices(source, file);
  if (!wanted) return tl::unexpected(wanted.error());
  fill_names(*wanted);
  for (DeviceSettings& settings : *wanted) settings.lid_addressing |= source.lid;

  std::vector<DeviceModel> devices;
  for (const DeviceSettings& settings : *wanted) {
    const std::string where = settings.line > 0 ? fmt::format("{}:{}", file.path, settings.line)
                              : source.devices.empty() ? std::string("the interfaces")
                                                       : std::string("VERBENA_DEVICES");
    const Interface* interface = find_interface(source.interfaces, settings.interface);
    if (interface == nullptr)
      return fail(ENODEV, fmt::format("{}: device {} wants interface '{}', which does not exist; "
                                      "interfaces here: {}",
                                      where, settings.name, settings.interface,
                                      interface_names(source.interfaces)));
    for (const DeviceModel& other : devices)
      if (other.name == settings.name)
        return fail(EINVAL, fmt::format("{}: two devices are named '{}'", where, settings.name));
    auto device = build_device(*interface, settings, source, where);
    if (!device) return tl::unexpected(device.error());
    devices.push_back(std::move(*device));
  }
  make_unique(devices);
  return devices;
}

Result<std::vector<DeviceModel>> load_devices() {
  auto source = ConfigSource::from_environment();
  if (!source) return tl::unexpected(source.error());
  return load_devices(*source);
}

size_t DeviceModel::lid_gid_index() const {
  for (size_t i = 0; i < gids.size(); ++i)
    if (!gids[i].empty() && gids[i].gid.is_ipv4()) return i;
  return gids.size();
}

uint16_t DeviceModel::lid() const {
  size_t index = lid_gid_index();
  if (!lid_addressing || index == gids.size()) return 0;
  const auto& bytes = gids[index].gid.bytes;
  return static_cast<uint16_t>(bytes[14] << 8 | bytes[15]);
}

engine::Gid DeviceModel::gid_of_lid(uint16_t wanted) const {
  if (lid() == 0 || wanted == 0) return {};
  engine::Gid gid = gids[lid_gid_index()].gid;
  gid.bytes[14] = static_cast<uint8_t>(wanted >> 8);
  gid.bytes[15] = static_cast<uint8_t>(wanted);
  return gid;
}

uint8_t DeviceModel::active_width() const {
  return rate_gbps == 10 || rate_gbps == 25 || rate_gbps == 50 ? 1 : 2;
}

uint8_t DeviceModel::active_speed() const {
  switch (rate_gbps) {
    case 10:  // 1X QDR
    case 40:
      return 4;  // 4X QDR
    case 50:     // 1X HDR
    case 200:
      return 64;  // 4X HDR
    case 400:
      return 128;  // 4X NDR
    default:
      return 32;  // EDR: 1X is 25, 4X is 100
  }
}

std::string gid_groups(const engine::Gid& gid) {
  std::string text;
  for (int i = 0; i < 16; i += 2)
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  return text;
}

std::optional<engine::Gid> parse_gid(std::string_view text) {
  const std::string copy(text);
  engine::Gid gid;
  if (inet_pton(AF_INET6, copy.c_str(), gid.bytes.data()) == 1) return gid;
  uint8_t ipv4[4];
  if (inet_pton(AF_INET, copy.c_str(), ipv4) == 1) return engine::Gid::from_ipv4(ipv4);
  return std::nullopt;
}

std::string guid_groups(uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48 & 0xffff, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

}  // namespace verbena::host
