// What dcb, mlnx_qos and sysfs have set on one interface, and what that means for a host's adapter
// or, on a switchdev switch, for a port.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "scenario/import.h"

namespace verbena::scenario {

struct LinuxDevice {
  enum class Select : uint8_t { kVendor, kStrict, kEts };

  uint8_t pfc = 0;  // priorities
  bool trust_dscp = false;
  std::array<std::optional<uint8_t>, fabric::kDscps> dscp_to_priority;  // as set
  uint8_t default_priority = 0;
  std::array<uint8_t, fabric::kPriorities> priority_to_class{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<Select, fabric::kPriorities> select{};      // of each traffic class
  std::array<uint8_t, fabric::kPriorities> bandwidth{};  // percent of each ETS class
  std::optional<std::array<uint8_t, fabric::kPriorities>> priority_to_buffer;
  std::array<uint64_t, fabric::kPriorities> buffer_bytes{};  // 0: not set
  std::array<uint8_t, fabric::kPriorities> remark;
  uint64_t pfc_delay_bits = 0;
  double cable_metres = 0;
  uint32_t mtu = 0;  // 0: not set
  // Of the line that set it last; 0: none did.
  int pfc_line = 0, trust_line = 0, class_line = 0, buffer_line = 0, dscp_line = 0, mtu_line = 0;

  LinuxDevice() { remark.fill(fabric::kNoRemark); }
  // Priority of frames with this DSCP; an adapter fills what was not set with DSCP div 8.
  uint8_t priority_of(uint8_t dscp) const;
};

// Fills the host's port; its adapter's priority follows from the DSCP that is set already.
void apply_to_host(const LinuxDevice& device, const ImportDefaults& defaults, Host& host,
                   Diagnostics& diagnostics);
// A port of a switchdev switch: DSCPs that no line names have the default priority.
fabric::PortSettings port_of(const LinuxDevice& device, Diagnostics& diagnostics);

}  // namespace verbena::scenario
