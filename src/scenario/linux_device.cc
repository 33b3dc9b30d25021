// Sources: dcb-pfc(8), dcb-buffer(8), dcb-ets(8), dcb-app(8); the driver mlx5_core
// (en/port_buffer.c) for thresholds inside a buffer; mlxsw for a buffer of two frames and the room
// behind XOFF.
#include "scenario/linux_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenario/headroom.h"
#include "scenario/profiles.h"

namespace verbena::scenario {

using fabric::kPriorities;

namespace {

// Of the queue that serves a traffic class.
void schedule(const LinuxDevice& device, uint32_t traffic_class, fabric::QueueSettings& queue) {
  queue.strict = device.select[traffic_class] == LinuxDevice::Select::kStrict;
  queue.weight = std::max<uint32_t>(1, device.bandwidth[traffic_class]);
}

void check_bandwidth(const LinuxDevice& device, Diagnostics& diagnostics) {
  uint32_t sum = 0;
  bool ets = false;
  for (uint32_t tc = 0; tc < kPriorities; ++tc) {
    if (device.select[tc] != LinuxDevice::Select::kEts) continue;
    ets = true;
    sum += device.bandwidth[tc];
  }
  if (ets && sum != 100)
    diagnostics.error(device.class_line,
                      fmt::format("the bandwidths of the ETS classes sum to {}, not 100", sum),
                      "the driver refuses it: make them 100");
}

}  // namespace

uint8_t LinuxDevice::priority_of(uint8_t dscp) const {
  if (!trust_dscp) return default_priority;
  return dscp_to_priority[dscp].value_or(static_cast<uint8_t>(dscp / 8));
}

void apply_to_host(const LinuxDevice& device, const ImportDefaults& defaults, Host& host,
                   Diagnostics& diagnostics) {
  host.port.pfc.rx_mask = host.port.pfc.tx_mask = device.pfc;
  check_bandwidth(device, diagnostics);
  for (uint32_t p = 0; p < kPriorities; ++p)
    schedule(device, device.priority_to_class[p], host.port.queues[p]);
  host.adapter.priority = device.priority_of(host.adapter.dscp);
  uint64_t buffer = 0;
  for (uint32_t p = 0; p < kPriorities; ++p)
    if ((device.pfc >> p & 1) != 0)
      buffer = device.buffer_bytes[device.priority_to_buffer ? (*device.priority_to_buffer)[p]
                                                             : uint8_t{0}];
  if (buffer == 0) return;
  const uint32_t mtu = device.mtu != 0 ? device.mtu : 1500;
  const Headroom headroom = mlx5_headroom(defaults.bits_per_second, device.cable_metres, mtu);
  if (buffer <= headroom.xoff_bytes) {
    diagnostics.error(device.buffer_line,
                      fmt::format("a receive buffer of {} bytes is all headroom: {} bytes arrive "
                                  "after XOFF",
                                  buffer, headroom.xoff_bytes),
                      fmt::format("make it {} or more", headroom.xoff_bytes + 2 * uint64_t{9216}));
    return;
  }
  host.port.receive_buffer_bytes = buffer;
  host.port.receive_xoff_bytes = buffer - headroom.xoff_bytes;
  const uint64_t below = std::max<uint64_t>(mtu, 9216);
  host.port.receive_xon_bytes =
      host.port.receive_xoff_bytes > below ? host.port.receive_xoff_bytes - below : 0;
}

fabric::PortSettings port_of(const LinuxDevice& device, Diagnostics& diagnostics) {
  fabric::PortSettings port = switch_profile(SwitchForm::kNone, SwitchForm::kOff).settings.port;
  if (device.mtu != 0) port.mtu = device.mtu;
  port.trust = device.trust_dscp ? fabric::Trust::kBoth : fabric::Trust::kPcp;
  port.default_priority = device.default_priority;
  for (uint32_t dscp = 0; dscp < fabric::kDscps; ++dscp)
    port.dscp_to_priority[dscp] = device.dscp_to_priority[dscp].value_or(device.default_priority);
  port.priority_to_queue = device.priority_to_class;
  port.priority_to_group = device.priority_to_buffer.value_or(device.priority_to_class);
  port.remark_dscp = device.remark;
  port.pfc.rx_mask = port.pfc.tx_mask = device.pfc;
  check_bandwidth(device, diagnostics);
  for (uint32_t tc = 0; tc < kPriorities; ++tc) schedule(device, tc, port.queues[tc]);
  follow_pfc(port);
  const uint64_t frames = 2 * uint64_t{port.mtu};
  for (uint32_t p = 0; p < kPriorities; ++p) {
    if ((device.pfc >> p & 1) == 0) continue;
    const uint8_t number = port.priority_to_group[p];
    fabric::GroupSettings& group = port.groups[number];
    const uint64_t bytes = device.buffer_bytes[number];
    group.headroom_bytes = bytes > frames ? bytes - frames : device.pfc_delay_bits / 8;
    group.reserved_bytes = bytes > frames ? frames : 0;
    group.xon_offset_bytes = port.mtu;
  }
  return port;
}

}  // namespace verbena::scenario
