// What a VERBENA_CONFIG file may say, as plain data: names, order and limits ("personality").
// Whether its interfaces and addresses exist is decided in config.cc, where the machine is known.
//
//   mtu = 1024                        # cap of the path MTU, for every device
//   gid_order = ["ipv4", "ipv6", "link-local"]
//   [limits]
//   max_qp = 4096
//   [[device]]
//   name = "mlx5_0"
//   interface = "eth0"
//   gids = ["", "", "", "192.0.2.2"]  # the whole GID table; "" is a hole
//   [device.limits]
//   max_qp_wr = 8192
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/config.h"

namespace verbena::host {

enum class GidKind : uint8_t { kIpv4, kIpv6, kLinkLocal };

struct DeviceSettings : Personality {
  std::string name;
  std::string interface;
  uint32_t line = 0;             // of the [[device]] header
  std::optional<uint64_t> guid;  // host order, not 0
  std::optional<uint32_t> mtu;   // a path MTU
  std::vector<GidKind> gid_order = {GidKind::kIpv4, GidKind::kIpv6, GidKind::kLinkLocal};
  std::optional<std::vector<std::string>> gids;  // addresses; "" is a hole
};

struct ConfigFile {
  std::string path;
  DeviceSettings defaults;              // the keys outside any [[device]]
  std::vector<DeviceSettings> devices;  // in file order, at most kMaxDevices
};

// Reads `text`; `path` is only for messages. Errors: EINVAL "PATH:LINE: ...".
Result<ConfigFile> parse_config(std::string_view text, const std::string& path);

// Reads the file at `path`. Errors: parse_config's, ENOENT, EACCES, EFBIG above kMaxConfigFile.
Result<ConfigFile> read_config(const std::string& path);

}  // namespace verbena::host
