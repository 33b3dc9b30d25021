// Keys of switches and hosts. What writes settings back as text goes through the same tables.
#pragma once

#include <string>
#include <vector>

#include "scenario/keys.h"
#include "scenario/profiles.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

// [switch] and [switch.NAME] have the first three; [switch.NAME.port.N] the third; the rest are
// tables within: pfc, group and group.N, ecn, queue.N, queue.N.ecn, routing, watchdog.
const std::vector<Key<SwitchForm>>& switch_form_keys();
const std::vector<Key<fabric::SwitchSettings>>& switch_keys();
const std::vector<Key<fabric::PortSettings>>& port_keys();
const std::vector<Key<fabric::PfcSettings>>& pfc_keys();
const std::vector<Key<fabric::GroupSettings>>& group_keys();
const std::vector<Key<fabric::EcnSettings>>& ecn_keys();
const std::vector<Key<fabric::QueueSettings>>& queue_keys();
const std::vector<Key<fabric::RoutingSettings>>& routing_keys();
const std::vector<Key<fabric::WatchdogSettings>>& watchdog_keys();

// [host] and [host.NAME] have the first two; tables within: pfc, queue.N, receive, storm, dcqcn,
// np, swift, hpcc.
struct HostForm {
  enum Profile : uint8_t { kRoce, kHpccNs3 } profile = kRoce;
};
const std::vector<Key<HostForm>>& host_form_keys();
const std::vector<Key<Adapter>>& adapter_keys();
const std::vector<Key<engine::CongestionSettings>>& congestion_keys();
const std::vector<Key<fabric::HostSettings>>& receive_keys();
const std::vector<Key<fabric::HostSettings>>& storm_keys();
const std::vector<Key<engine::DcqcnSettings>>& dcqcn_keys();
const std::vector<Key<engine::NpSettings>>& np_keys();
const std::vector<Key<engine::SwiftSettings>>& swift_keys();
const std::vector<Key<engine::HpccSettings>>& hpcc_keys();

}  // namespace verbena::scenario
