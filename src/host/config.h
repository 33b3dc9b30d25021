// The device model: which RDMA devices this host shows, with which names, limits, GIDs and path
// MTU. The libraries, the generated sysfs tree and the `verbena` command all read this one model,
// so `ibv_devinfo`, /sys/class/infiniband and `verbena devices` cannot disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/address.h"
#include "engine/shared_receive_queue.h"
#include "host/interfaces.h"

namespace verbena::host {

inline constexpr size_t kMaxDevices = 32;          // devices in one model
inline constexpr size_t kMaxGids = 256;            // GID table entries of one device
inline constexpr size_t kMaxDeviceName = 63;       // IBV_SYSFS_NAME_MAX without its NUL
inline constexpr size_t kMaxConfigFile = 1 << 20;  // bytes of a VERBENA_CONFIG file
// What RoCE v2 adds around a path MTU: IPv6 40, UDP 8, BTH 12, RETH 16, ICRC 4. IPv4 needs less;
// one number for both keeps the path MTU independent of the GID chosen.
inline constexpr uint32_t kRoceOverhead = 80;

// What ibv_query_device reports and create verbs enforce. Counts of objects unless stated.
struct Limits {
  uint32_t max_qp = 65535;  // a QPN is 8 bits of slot and 16 bits of index
  uint32_t max_qp_wr = 16384;
  uint32_t max_sge = 32;
  uint32_t max_cq = 65535;
  uint32_t max_cqe = 4194303;
  uint32_t max_mr = 1048575;
  uint64_t max_mr_size = uint64_t{1} << 63;  // bytes
  uint32_t max_pd = 65535;
  uint32_t max_srq = 65535;
  uint32_t max_srq_wr = 16384;
  uint32_t max_srq_sge = engine::kMaxReceiveSges;
  uint32_t max_ah = 65535;
  uint32_t max_qp_rd_atom = 128;       // outstanding reads and atomics as responder, per QP
  uint32_t max_qp_init_rd_atom = 128;  // the same as requester
  uint32_t max_inline = 1024;          // bytes
  uint32_t max_mcast_grp = 8192;
  uint32_t max_mw = 65535;
  bool operator==(const Limits&) const = default;
};

// One slot of the GID table. A hole (a zero GID) has an empty interface; every other entry is
// RoCE v2.
struct GidEntry {
  engine::Gid gid;
  uint32_t ifindex = 0;
  std::string interface;
  std::string reason;  // why the entry is there, for `verbena devices`
  bool empty() const { return gid == engine::Gid{}; }
};

// What a device shows of itself whatever interface it stands on: a file may say it.
struct Personality {
  Limits limits;
  uint32_t rate_gbps = 100;  // 10, 25, 40, 50, 100, 200 or 400
  // The port looks like InfiniBand and takes addresses without a GRH, for programs that know LIDs
  // only: a LID is the low 16 bits of an IPv4 address in the device's own /16.
  bool lid_addressing = false;
  uint32_t vendor_id = 0xfffffe;
  uint32_t vendor_part_id = 1;
  uint32_t hardware_version = 0;
  std::string firmware_version = "0.1.0";
  std::string board_id = "VRB0000000001";
};

struct DeviceModel : Personality {
  std::string name;       // "verbena0"
  std::string interface;  // "eth0"
  uint32_t ifindex = 0;
  uint64_t node_guid = 0;  // host order, never 0; also the system image GUID
  std::array<uint8_t, 6> mac{};
  uint32_t interface_mtu = 0;  // bytes, of the network interface
  uint32_t path_mtu = 1024;    // bytes: 256, 512, 1024, 2048 or 4096
  bool port_active = true;     // the interface is up and has a carrier
  bool loopback = false;
  std::vector<GidEntry> gids;  // at most kMaxGids; index is the GID index

  // The port's LID: 0 without lid_addressing or without an IPv4 GID.
  uint16_t lid() const;
  // The GID that a LID stands for here; empty when lid() is 0 or `lid` is.
  engine::Gid gid_of_lid(uint16_t lid) const;
  // The entry lid() is made from; gids.size() when there is none.
  size_t lid_gid_index() const;

  // The ibv_port_attr codes whose product is rate_gbps.
  uint8_t active_width() const;  // 1 is 1X, 2 is 4X
  uint8_t active_speed() const;  // 4 QDR, 32 EDR, 64 HDR, 128 NDR
};

// Where the model comes from. Tests fill the fields; programs use from_environment().
struct ConfigSource {
  std::string config_path;  // VERBENA_CONFIG: a TOML file, or empty
  std::string devices;      // VERBENA_DEVICES: "NAME=INTERFACE,...", or empty
  bool lid = false;         // VERBENA_LID=1: `lid = true` for every device
  std::string identity;     // bytes that differ between hosts and network namespaces
  std::vector<Interface> interfaces;

  // Reads the three variables, the interfaces and the host's identity. Errors: EINVAL a VERBENA_LID
  // other than 0 or 1, and what read_interfaces() gives.
  static Result<ConfigSource> from_environment();
};

// The devices of `source`, in the order programs see them. An empty list (no interface is up and
// has an address) is not an error. Errors, one line each: EINVAL a malformed file, as
// "FILE:LINE: ..."; ENODEV an interface that does not exist, naming those that do; ENOENT, EACCES
// a file that cannot be read.
Result<std::vector<DeviceModel>> load_devices(const ConfigSource& source);

// load_devices(ConfigSource::from_environment()).
Result<std::vector<DeviceModel>> load_devices();

// The largest path MTU (256..4096) whose packets fit an interface of `interface_mtu` bytes; 256
// when none does.
uint32_t path_mtu_for(uint32_t interface_mtu);

// "fe80:0000:...": the eight 16-bit groups in full, as sysfs and ibv_devinfo print them.
std::string gid_groups(const engine::Gid& gid);
// Reads an IPv4 or IPv6 address into a GID.
std::optional<engine::Gid> parse_gid(std::string_view text);
// "0002:c9ff:fe00:0001"
std::string guid_groups(uint64_t guid);

}  // namespace verbena::host
