// Where switches and hosts begin before a scenario's keys change them: what operators get from one
// command of their system, or what the HPCC simulator has built in.
#pragma once

#include <cstdint>

#include "scenario/headroom.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

// Stands in GroupSettings::headroom_bytes until the port's rate and cable are known.
inline constexpr uint64_t kAutoHeadroom = fabric::kNoLimit;

// "What else belongs to a switch" while it is read; settle_switch() turns it into settings.
struct SwitchForm {
  enum Profile : uint8_t { kNone, kCumulus, kSonic, kHpccNs3 } profile = kCumulus;
  enum Roce : uint8_t { kOff, kLossy, kLossless } roce = kLossless;
  enum Formula : uint8_t { kMlx5, kSonicFormula, kHpccFormula } formula = kMlx5;
  // ECN thresholds and alpha are those of a port as fast as the hosts'; faster ports have them in
  // proportion, alpha in powers of two.
  bool scale_with_rate = false;
  fabric::SwitchSettings settings;
};

// Profile and mode as given; the rest as the profile has it.
//   kCumulus   NVUE `nv set qos roce mode ...` (Cumulus Linux 5): DSCP 26 -> 3, lossless, ECN
//              150 KB to 1500 KB; 48 -> 6 strict; all else queue 0. kOff: without RoCE.
//   kSonic     CONFIG_DB of SONiC's templates: priorities 3 and 4 lossless, DSCP 26 -> 1.
//   kHpccNs3   alibaba-edu/High-Precision-Congestion-Control: one headroom a port, pauses that last
//              until they are taken back.
//   kNone      no PFC, no ECN, one queue and group for each priority.
SwitchForm switch_profile(SwitchForm::Profile profile, SwitchForm::Roce roce);

// Makes the groups and queues of the priorities that pause their senders lossless, and those that
// no longer do lossy. Groups that stay what they are keep their settings.
void follow_pfc(fabric::PortSettings& port);

// The adapter of a host: DSCP 26, priority 3, DCQCN as NVIDIA ships it; or as the HPCC simulator
// has it: 1000-byte packets, an acknowledgement for each, its mark in it, no timer.
Host host_profile(bool as_hpcc);

}  // namespace verbena::scenario
