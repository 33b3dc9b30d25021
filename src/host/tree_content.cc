// What stands in each file of the generated tree. Formats follow the kernel's sysfs attributes
// (Linux drivers/infiniband/core/sysfs.c by behaviour), because programs parse them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "engine/counters.h"
#include "host/tree.h"
#include "host/tree_counters.h"

namespace verbena::host {
namespace {

using Nodes = std::vector<TreeNode>;

// Counters of an adapter's port that the engine has no use for; programs list them all the same.
constexpr const char* kOtherCounters[] = {
    "counters/port_rcv_errors",
    "counters/port_xmit_discards",
    "counters/port_xmit_wait",
    "counters/port_rcv_constraint_errors",
    "counters/port_xmit_constraint_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_rcv_switch_relay_errors",
    "counters/unicast_xmit_packets",
    "counters/unicast_rcv_packets",
    "counters/multicast_xmit_packets",
    "counters/multicast_rcv_packets",
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/VL15_dropped",
    "hw_counters/out_of_buffer",
    "hw_counters/rp_cnp_ignored",
};

class Builder {
 public:
  void file(const std::string& path, std::string_view line) {
    nodes.push_back({TreeNode::Kind::kFile, path, std::string(line) + "\n"});
  }
  void bytes(const std::string& path, std::string content) {
    nodes.push_back({TreeNode::Kind::kFile, path, std::move(content)});
  }
  void link(const std::string& path, std::string target) {
    nodes.push_back({TreeNode::Kind::kLink, path, std::move(target)});
  }
  void directory(const std::string& path) {
    nodes.push_back({TreeNode::Kind::kDirectory, path, ""});
  }
  Nodes nodes;
};

std::string rate_text(const DeviceModel& device) {
  const char* speed = "EDR";
  if (device.active_speed() == 4) speed = "QDR";
  if (device.active_speed() == 64) speed = "HDR";
  if (device.active_speed() == 128) speed = "NDR";
  return fmt::format("{} Gb/sec ({}X {})", device.rate_gbps, device.active_width() == 1 ? 1 : 4,
                     speed);
}

// "ffffffff,0000000f": every processor, in the kernel's bitmap notation.
std::string cpu_mask(long cpus) {
  std::string text;
  for (long word = (cpus - 1) / 32; word >= 0; --word) {
    const long bits = std::min(cpus - word * 32, 32L);
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    text += fmt::format("{}{:08x}", text.empty() ? "" : ",", mask);
  }
  return text;
}

// The head of a PCI configuration space (PCI 3.0 section 6.1) for one who reads it raw: who made
// it and what it is, no base addresses, no capabilities.
std::string config_space(uint16_t vendor, uint16_t device) {
  std::string bytes(64, '\0');
  const auto put = [&](size_t at, uint16_t value) {
    bytes[at] = static_cast<char>(value & 0xff);
    bytes[at + 1] = static_cast<char>(value >> 8);
  };
  put(0x00, vendor);
  put(0x02, device);
  put(0x04, 0x0006);  // command: memory space, bus master
  put(0x0a, 0x0207);  // class, as in the file `class`
  put(0x2c, vendor);  // subsystem
  put(0x2e, 1);
  return bytes;
}

void add_pci(Builder& out, const std::string& slot, const DeviceModel& device, size_t index) {
  const long cpus = std::clamp(sysconf(_SC_NPROCESSORS_CONF), 1L, 8192L);
  const bool mellanox = device.vendor_id == 0x2c9;  // the OUI; its PCI vendor number is 15b3
  const uint16_t vendor = mellanox ? 0x15b3 : 0xfffe;
  const auto part = static_cast<uint16_t>(device.vendor_part_id & 0xffff);
  out.file(slot + "/vendor", fmt::format("{:#06x}", vendor));
  out.file(slot + "/device", fmt::format("{:#06x}", part));
  out.file(slot + "/subsystem_vendor", fmt::format("{:#06x}", vendor));
  out.file(slot + "/subsystem_device", "0x0001");
  out.file(slot + "/class", "0x020700");  // network controller, InfiniBand
  out.file(slot + "/revision", "0x00");
  out.file(slot + "/irq", "0");
  out.file(slot + "/enable", "1");
  out.file(slot + "/modalias",
           fmt::format("pci:v{:08X}d{:08X}sv{:08X}sd00000001bc02sc07i00", vendor, part, vendor));
  out.bytes(slot + "/config", config_space(vendor, part));
  // libpci wants one line for each of 6 base addresses, the ROM and 6 SR-IOV ones.
  std::string resource;
  for (int i = 0; i < 13; ++i)
    resource += fmt::format("{:#018x} {:#018x} {:#018x}{}", 0, 0, 0, i < 12 ? "\n" : "");
  out.file(slot + "/resource", resource);
  out.link(slot + "/subsystem", "../../../bus/pci");
  out.file(slot + "/numa_node", "-1");
  out.file(slot + "/local_cpus", cpu_mask(cpus));
  out.file(slot + "/local_cpulist", cpus == 1 ? "0" : fmt::format("0-{}", cpus - 1));
  for (const char* which : {"max", "current"}) {
    out.file(fmt::format("{}/{}_link_speed", slot, which), "16.0 GT/s PCIe");
    out.file(fmt::format("{}/{}_link_width", slot, which), "16");
  }
  out.file(slot + "/uevent", fmt::format("DRIVER=verbena\nPCI_SLOT_NAME={}", pci_address(index)));
  out.link(slot + "/driver", "../../../bus/pci/drivers/verbena");
  out.link(slot + "/net/" + device.interface, "/sys/class/net/" + device.interface);
}

void add_gids(Builder& out, const std::string& port, const DeviceModel& device) {
  out.directory(port + "/gids");
  out.directory(port + "/gid_attrs/types");
  out.directory(port + "/gid_attrs/ndevs");
  for (size_t i = 0; i < device.gids.size(); ++i) {
    const GidEntry& entry = device.gids[i];
    out.file(fmt::format("{}/gids/{}", port, i), gid_groups(entry.gid));
    if (entry.empty()) continue;  // a kernel refuses to read these; here they are absent
    out.file(fmt::format("{}/gid_attrs/types/{}", port, i), "RoCE v2");
    out.file(fmt::format("{}/gid_attrs/ndevs/{}", port, i), entry.interface);
  }
}

void add_port(Builder& out, const std::string& port, const DeviceModel& device) {
  out.file(port + "/state", device.port_active ? "4: ACTIVE" : "1: DOWN");
  out.file(port + "/phys_state", device.port_active ? "5: LinkUp" : "3: Disabled");
  out.file(port + "/rate", rate_text(device));
  out.file(port + "/lid", fmt::format("{:#x}", device.lid()));
  out.file(port + "/lid_mask_count", "0");
  out.file(port + "/sm_lid", fmt::format("{:#x}", device.lid()));
  out.file(port + "/sm_sl", "0");
  out.file(port + "/link_layer", device.lid() ? "InfiniBand" : "Ethernet");
  out.file(port + "/cap_mask", "0x04010000");  // communication management, IP-based GIDs
  out.file(port + "/pkeys/0", "0xffff");
  add_gids(out, port, device);
  const std::string zero = counter_text(0).substr(0, kCounterBytes - 1);  // file() ends it
  for (const engine::CounterInfo& counter : engine::kCounterInfo)
    out.file(fmt::format("{}/{}/{}", port, counter_folder(counter.name), counter.name), zero);
  for (const char* name : kOtherCounters) out.file(port + "/" + name, zero);
  // Milliseconds a number may be old, as Linux has it.
  out.file(port + "/hw_counters/lifespan", fmt::format("{}", kCounterLifespanMs));
}

void add_device(Builder& out, const DeviceModel& device, size_t index) {
  const std::string address = pci_address(index);
  const std::string below = fmt::format("devices/pcibe00:{:02x}/{}", index, address);
  const std::string slot = "sys/" + below;
  add_pci(out, slot, device, index);

  out.link("sys/bus/pci/devices/" + address, "../../../" + below);

  const std::string verbs = fmt::format("uverbs{}", index);
  const std::string root = slot + "/infiniband/" + device.name;
  out.file(root + "/node_guid", guid_groups(device.node_guid));
  out.file(root + "/sys_image_guid", guid_groups(device.node_guid));
  out.file(root + "/node_type", "1: CA");
  out.file(root + "/node_desc", device.name);
  out.file(root + "/fw_ver", device.firmware_version);
  out.file(root + "/hca_type", fmt::format("VT{}", device.vendor_part_id));
  out.file(root + "/board_id", device.board_id);
  out.file(root + "/hw_rev", fmt::format("{:x}", device.hardware_version));
  out.link(root + "/device", "../../../" + address);
  add_port(out, root + "/ports/1", device);
  out.link("sys/class/infiniband/" + device.name,
           fmt::format("../../{}/infiniband/{}", below, device.name));

  const std::string uverbs = slot + "/infiniband_verbs/" + verbs;
  out.file(uverbs + "/ibdev", device.name);
  out.file(uverbs + "/abi_version", "1");
  out.file(uverbs + "/dev", fmt::format("231:{}", 192 + index));
  out.link(uverbs + "/device", "../../../" + address);
  out.link("sys/class/infiniband_verbs/" + verbs,
           fmt::format("../../{}/infiniband_verbs/{}", below, verbs));

  const std::string bus = fmt::format("be00:{:02x}", index);
  out.directory(fmt::format("sys/devices/pci{}/pci_bus/{}", bus, bus));
  out.link("sys/class/pci_bus/" + bus, fmt::format("../../devices/pci{}/pci_bus/{}", bus, bus));

  out.link("dev/infiniband/" + verbs, "/dev/null");
  if (device.name != verbs) out.link("dev/infiniband/" + device.name, "/dev/null");
}

}  // namespace

std::string pci_address(size_t index) {
  return fmt::format("be00:{:02x}:00.0", index);
}

const char* counter_folder(std::string_view name) {
  return name.starts_with("port_") ? "counters" : "hw_counters";
}

std::vector<TreeNode> tree_content(std::span<const DeviceModel> devices) {
  Builder out;
  out.directory("sys/class/infiniband");
  out.directory("sys/bus/pci/drivers/verbena");
  out.file("sys/class/infiniband_verbs/abi_version", "6");
  out.file("sys/class/infiniband_mad/abi_version", "5");
  // No dev/infiniband/rdma_cm: the system's librdmacm would take a node that swallows its commands
  // for a kernel and wait for ever; without one it says that there is no rdma_cm.
  out.directory("dev/infiniband");
  for (size_t i = 0; i < devices.size(); ++i) add_device(out, devices[i], i);
  return std::move(out.nodes);
}

}  // namespace verbena::host
