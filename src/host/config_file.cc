// TOML in, DeviceSettings out. Every key is listed in one table below with its range, so an unknown
// key or a number out of range is one message with its line and the way out.
#include "host/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/toml.h"

namespace verbena::host {
namespace {

using Status = Result<bool>;  // true; a value only because an expected needs one

struct Reader {
  std::string path;
  Status error(const toml::source_region& where, const std::string& message) const {
    return fail(EINVAL, fmt::format("{}:{}: {}", path, where.begin.line, message));
  }
};

struct LimitKey {
  std::string_view name;
  uint32_t Limits::* field;
  uint32_t min;
  uint32_t max;
};

// The largest values are what the engine's tables hold; see Limits.
constexpr LimitKey kLimitKeys[] = {
    {"max_qp", &Limits::max_qp, 1, 65535},
    {"max_qp_wr", &Limits::max_qp_wr, 1, 32768},
    {"max_sge", &Limits::max_sge, 1, 32},
    {"max_cq", &Limits::max_cq, 1, 65535},
    {"max_cqe", &Limits::max_cqe, 1, 4194303},
    {"max_mr", &Limits::max_mr, 1, 1048575},
    {"max_pd", &Limits::max_pd, 1, 65535},
    {"max_srq", &Limits::max_srq, 0, 65535},
    {"max_srq_wr", &Limits::max_srq_wr, 1, 32768},
    {"max_srq_sge", &Limits::max_srq_sge, 1, engine::kMaxReceiveSges},
    {"max_ah", &Limits::max_ah, 1, 65535},
    {"max_qp_rd_atom", &Limits::max_qp_rd_atom, 1, 128},
    {"max_qp_init_rd_atom", &Limits::max_qp_init_rd_atom, 1, 128},
    {"max_inline", &Limits::max_inline, 0, 1024},
    {"max_mcast_grp", &Limits::max_mcast_grp, 0, 8192},
    {"max_mw", &Limits::max_mw, 0, 65535},
};

Status read_number(const Reader& in, std::string_view key, const toml::node& node, uint64_t min,
                   uint64_t max, uint64_t& out) {
  const auto value = node.value_exact<int64_t>();
  if (!value)
    return in.error(node.source(), fmt::format("{} is {}; write an integer from {} to {}", key,
                                               toml_type_name(node), min, max));
  if (*value < 0 || static_cast<uint64_t>(*value) < min || static_cast<uint64_t>(*value) > max)
    return in.error(node.source(),
                    fmt::format("{} is {}; it may be {} to {}", key, *value, min, max));
  out = static_cast<uint64_t>(*value);
  return true;
}

Status read_u32(const Reader& in, std::string_view key, const toml::node& node, uint32_t min,
                uint32_t max, uint32_t& out) {
  uint64_t value = 0;
  Status status = read_number(in, key, node, min, max, value);
  if (status) out = static_cast<uint32_t>(value);
  return status;
}

Status read_choice(const Reader& in, std::string_view key, const toml::node& node,
                   std::initializer_list<uint32_t> choices, uint32_t& out) {
  const auto value = node.value_exact<int64_t>();
  if (value)
    for (uint32_t choice : choices)
      if (*value == choice) {
        out = choice;
        return true;
      }
  return in.error(node.source(),
                  fmt::format("{} must be one of {}", key, fmt::join(choices, ", ")));
}

// Bytes that are safe in a path, in /sys text and in a C program's fixed buffers.
bool plain_text(std::string_view text, size_t max) {
  if (text.empty() || text.size() > max) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > 0x20 && c < 0x7f && c != '/' && c != ',' && c != '=';
  });
}

Status read_text(const Reader& in, std::string_view key, const toml::node& node, size_t max,
                 std::string& out) {
  const auto value = node.value_exact<std::string>();
  if (!value || !plain_text(*value, max) || *value == "." || *value == "..")
    return in.error(node.source(),
                    fmt::format("{} must be a string of 1 to {} printable characters without "
                                "space, '/', ',' or '='",
                                key, max));
  out = *value;
  return true;
}

Status read_guid(const Reader& in, const toml::node& node, std::optional<uint64_t>& out) {
  const auto value = node.value_exact<std::string>();
  std::string digits;
  bool good = value.has_value();
  if (good) {
    for (char c : *value)
      if (c != ':') digits += c;
    good = digits.size() == 16 &&
           digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  }
  const uint64_t guid = good ? strtoull(digits.c_str(), nullptr, 16) : 0;
  if (guid == 0)
    return in.error(node.source(),
                    "guid must be a string of 16 hex digits, not all 0, such as "
                    "\"0002:c9ff:fe00:0001\"");
  out = guid;
  return true;
}

Status read_gid_order(const Reader& in, const toml::node& node, std::vector<GidKind>& out) {
  const char* kHint =
      "gid_order must be an array of \"ipv4\", \"ipv6\" and \"link-local\", each "
      "at most once; a kind left out gets no GID";
  const toml::array* list = node.as_array();
  if (list == nullptr) return in.error(node.source(), kHint);
  std::vector<GidKind> order;
  for (const toml::node& item : *list) {
    const std::string word = item.value_exact<std::string>().value_or("");
    GidKind kind;
    if (word == "ipv4")
      kind = GidKind::kIpv4;
    else if (word == "ipv6")
      kind = GidKind::kIpv6;
    else if (word == "link-local")
      kind = GidKind::kLinkLocal;
    else
      return in.error(item.source(), kHint);
    if (std::find(order.begin(), order.end(), kind) != order.end())
      return in.error(item.source(), kHint);
    order.push_back(kind);
  }
  out = std::move(order);
  return true;
}

Status read_gids(const Reader& in, const toml::node& node,
                 std::optional<std::vector<std::string>>& out) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->size() > kMaxGids)
    return in.error(node.source(),
                    fmt::format("gids must be an array of at most {} addresses", kMaxGids));
  std::vector<std::string> gids;
  for (const toml::node& item : *list) {
    const auto text = item.value_exact<std::string>();
    if (!text || (!text->empty() && !parse_gid(*text)))
      return in.error(
          item.source(),
          fmt::format("gids[{}] must be an IPv4 or IPv6 address, or \"\" for a hole", gids.size()));
    gids.push_back(*text);
  }
  out = std::move(gids);
  return true;
}

Status read_limits(const Reader& in, const toml::node& node, Limits& out) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return in.error(node.source(), "limits must be a table: [limits]");
  for (auto&& [key, value] : *table) {
    const std::string_view name = key.str();
    Status status = true;
    if (name == "max_mr_size") {
      status =
          read_number(in, name, value, 4096, std::numeric_limits<int64_t>::max(), out.max_mr_size);
    } else {
      const auto* known = std::find_if(std::begin(kLimitKeys), std::end(kLimitKeys),
                                       [&](const LimitKey& entry) { return entry.name == name; });
      if (known == std::end(kLimitKeys)) {
        std::string names = "max_mr_size";
        for (const LimitKey& entry : kLimitKeys) names += fmt::format(", {}", entry.name);
        return in.error(key.source(),
                        fmt::format("unknown limit '{}'; known limits: {}", name, names));
      }
      status = read_u32(in, name, value, known->min, known->max, out.*(known->field));
    }
    if (!status) return status;
  }
  return true;
}

constexpr std::string_view kSettingKeys =
    "mtu, gid_order, limits, rate_gbps, lid, vendor_id, vendor_part_id, hw_ver, fw_ver, board_id";

// One key that may stand at the top (for every device) or in a [[device]]. False: not such a key.
Status read_setting(const Reader& in, const toml::key& key, const toml::node& value,
                    DeviceSettings& out) {
  const std::string_view name = key.str();
  if (name == "mtu") {
    uint32_t mtu = 0;
    Status status = read_choice(in, name, value, {256, 512, 1024, 2048, 4096}, mtu);
    if (status) out.mtu = mtu;
    return status;
  }
  if (name == "gid_order") return read_gid_order(in, value, out.gid_order);
  if (name == "limits") return read_limits(in, value, out.limits);
  if (name == "rate_gbps")
    return read_choice(in, name, value, {10, 25, 40, 50, 100, 200, 400}, out.rate_gbps);
  if (name == "lid") {
    const auto given = value.value_exact<bool>();
    if (!given) return in.error(value.source(), "lid must be true or false");
    out.lid_addressing = *given;
    return true;
  }
  if (name == "vendor_id") return read_u32(in, name, value, 0, 0xffffff, out.vendor_id);
  if (name == "vendor_part_id") return read_u32(in, name, value, 0, 0x7fffffff, out.vendor_part_id);
  if (name == "hw_ver") return read_u32(in, name, value, 0, 0x7fffffff, out.hardware_version);
  if (name == "fw_ver") return read_text(in, name, value, 63, out.firmware_version);
  if (name == "board_id") return read_text(in, name, value, 63, out.board_id);
  return false;
}

Status read_device(const Reader& in, const toml::table& table, DeviceSettings& out) {
  out.line = table.source().begin.line;
  for (auto&& [key, value] : table) {
    const std::string_view name = key.str();
    Status status = true;
    if (name == "name")
      status = read_text(in, name, value, kMaxDeviceName, out.name);
    else if (name == "interface")
      status = read_text(in, name, value, 15, out.interface);
    else if (name == "guid")
      status = read_guid(in, value, out.guid);
    else if (name == "gids")
      status = read_gids(in, value, out.gids);
    else
      status = read_setting(in, key, value, out);
    if (!status) return status;
    if (!*status)
      return in.error(key.source(),
                      fmt::format("unknown key '{}' in [[device]]; known keys: name, interface, "
                                  "guid, gids, {}",
                                  name, kSettingKeys));
  }
  if (out.interface.empty())
    return in.error(table.source(), "this [[device]] has no interface; add interface = \"eth0\"");
  return true;
}

Status read_devices(const Reader& in, const toml::node& node, ConfigFile& file) {
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return in.error(node.source(), "device must be an array of tables: write [[device]]");
  if (list->size() > kMaxDevices)
    return in.error(node.source(), fmt::format("more than {} devices", kMaxDevices));
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr)
      return in.error(item.source(), "device must be an array of tables: write [[device]]");
    DeviceSettings device = file.defaults;
    Status status = read_device(in, *table, device);
    if (!status) return status;
    file.devices.push_back(std::move(device));
  }
  return true;
}

}  // namespace

Result<ConfigFile> parse_config(std::string_view text, const std::string& path) {
  const Reader in{path};
  const Result<toml::table> parsed = parse_toml(text, path);
  if (!parsed) return tl::unexpected(parsed.error());
  const toml::table& root = *parsed;
  ConfigFile file{.path = path};
  for (auto&& [key, value] : root) {
    if (key.str() == "device") continue;
    Status status = read_setting(in, key, value, file.defaults);
    if (status && !*status)
      status = in.error(key.source(), fmt::format("unknown key '{}'; known keys: device, {}",
                                                  key.str(), kSettingKeys));
    if (!status) return tl::unexpected(status.error());
  }
  if (const toml::node* devices = root.get("device")) {
    Status status = read_devices(in, *devices, file);
    if (!status) return tl::unexpected(status.error());
  }
  return file;
}

Result<ConfigFile> read_config(const std::string& path) {
  // A FIFO without a writer would keep a blocking open(2) for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail(errno, fmt::format("cannot read VERBENA_CONFIG={}: {}", path, strerror(errno)));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return fail(EINVAL, fmt::format("cannot read VERBENA_CONFIG={}: {}; name a TOML file", path,
                                    S_ISDIR(info.st_mode) ? "a directory" : "no regular file"));
  }
  std::string text(kMaxConfigFile + 1, '\0');
  size_t size = 0;
  ssize_t got = 0;
  while (size < text.size() && (got = read(fd, text.data() + size, text.size() - size)) > 0)
    size += static_cast<size_t>(got);
  const int code = errno;
  close(fd);
  if (got < 0)
    return fail(code, fmt::format("cannot read VERBENA_CONFIG={}: {}", path, strerror(code)));
  if (size > kMaxConfigFile)
    return fail(EFBIG, fmt::format("{} is larger than {} bytes", path, kMaxConfigFile));
  text.resize(size);
  return parse_config(text, path);
}

}  // namespace verbena::host
