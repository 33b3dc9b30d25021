// Values with their source beside them.
#include "scenario/profiles.h"

namespace verbena::scenario {
namespace {

using fabric::GroupSettings;
using fabric::PortSettings;
using fabric::QueueSettings;

constexpr uint8_t kRoce = 3, kCnp = 6;  // priorities

// Lossy traffic may use what is free; its queue stops it, not its group.
constexpr double kLossyGroupAlpha = 8, kLossyQueueAlpha = 1;
// XON below XOFF: "xon delta" of Cumulus' PFC profile; xon_offset of SONiC's buffer profiles.
constexpr uint64_t kCumulusXon = 2'000, kSonicXon = 3'556;

void make_lossless(GroupSettings& group) {
  group.lossless = true;
  group.headroom_bytes = kAutoHeadroom;
  group.xon_offset_bytes = kCumulusXon;
  group.dynamic = true;
  group.alpha = 0.125;
}

void make_lossy(GroupSettings& group) {
  group.lossless = false;
  group.headroom_bytes = 0;
  group.xon_offset_bytes = 0;
  group.dynamic = true;
  group.alpha = kLossyGroupAlpha;
}

void make_lossless(QueueSettings& queue) {
  queue.max_bytes = fabric::kNoLimit;
  queue.alpha = 0;
}

void make_lossy(QueueSettings& queue) {
  queue.alpha = kLossyQueueAlpha;
}

void all_lossy(PortSettings& port) {
  for (GroupSettings& group : port.groups) make_lossy(group);
  for (QueueSettings& queue : port.queues) make_lossy(queue);
}

// Cumulus Linux 5.11 and 5.14, "RDMA over Converged Ethernet - RoCE".
void cumulus(SwitchForm& form) {
  PortSettings& port = form.settings.port;
  port.trust = fabric::Trust::kBoth;
  if (form.roce == SwitchForm::kOff) {
    port.queues[0].ecn.mark = true;
    return;
  }
  for (auto* map : {&port.priority_to_queue, &port.priority_to_group}) {
    map->fill(0);
    (*map)[kRoce] = kRoce;
    (*map)[kCnp] = kCnp;
  }
  for (uint8_t queue : {uint8_t{0}, kRoce}) {
    port.queues[queue].ecn.mark = true;
    port.queues[queue].weight = 50;
  }
  port.queues[kCnp].strict = true;
  if (form.roce == SwitchForm::kLossless) port.pfc.rx_mask = port.pfc.tx_mask = 1 << kRoce;
}

// sonic-buildimage, files/build_templates/qos_config.j2.
void sonic(SwitchForm& form) {
  form.formula = SwitchForm::kSonicFormula;
  PortSettings& port = form.settings.port;
  port.trust = fabric::Trust::kDscp;
  port.dscp_to_priority.fill(1);
  port.dscp_to_priority[3] = 3;
  port.dscp_to_priority[4] = 4;
  port.dscp_to_priority[5] = 2;
  port.dscp_to_priority[8] = 0;
  port.dscp_to_priority[46] = 5;
  port.dscp_to_priority[48] = 6;
  port.priority_to_group.fill(0);
  port.priority_to_group[3] = 3;
  port.priority_to_group[4] = 4;
  port.priority_to_group[7] = 7;
  for (QueueSettings& queue : port.queues) queue.weight = 14;
  for (size_t lossless : {3, 4}) {
    QueueSettings& queue = port.queues[lossless];
    queue.weight = 15;
    queue.ecn.mark = queue.ecn.drop = true;  // WRED_PROFILE AZURE_LOSSLESS: the same thresholds
    queue.ecn.min_bytes = 1 << 20;
    queue.ecn.max_bytes = 2 << 20;
    queue.ecn.probability = 0.05;
  }
  if (form.roce == SwitchForm::kLossless) port.pfc.rx_mask = port.pfc.tx_mask = 1 << 3 | 1 << 4;
}

// The simulator's scratch/third.cc and its switch-mmu: Kmin 400 KB, Kmax 1600 KB, Pmax 0.2.
void hpcc(SwitchForm& form) {
  form.formula = SwitchForm::kHpccFormula;
  form.scale_with_rate = true;
  form.settings.headroom = fabric::SwitchSettings::kPerPort;
  PortSettings& port = form.settings.port;
  port.trust = fabric::Trust::kDscp;
  port.pfc.expires = false;
  port.pfc.rx_mask = port.pfc.tx_mask = 1 << kRoce;
  port.queues[kRoce].ecn.mark = true;
  port.queues[kRoce].ecn.min_bytes = 400'000;
  port.queues[kRoce].ecn.max_bytes = 1'600'000;
  port.queues[kRoce].ecn.probability = 0.2;
  port.queues[kCnp].strict = true;  // acknowledgements: before everything, never stopped or lost
  make_lossless(port.queues[kCnp]);
}

}  // namespace

SwitchForm switch_profile(SwitchForm::Profile profile, SwitchForm::Roce roce) {
  SwitchForm form;
  form.profile = profile;
  form.roce = roce;
  PortSettings& port = form.settings.port;
  all_lossy(port);
  if (profile == SwitchForm::kCumulus) cumulus(form);
  if (profile == SwitchForm::kSonic) sonic(form);
  if (profile == SwitchForm::kHpccNs3) hpcc(form);
  follow_pfc(port);
  for (GroupSettings& group : port.groups) {
    if (!group.lossless) continue;
    if (profile == SwitchForm::kSonic) group.xon_offset_bytes = kSonicXon;
    if (profile == SwitchForm::kHpccNs3) {
      group.xon_offset_bytes = 3 * 1024;
      group.reserved_bytes = 4 * 1024;
    }
  }
  return form;
}

void follow_pfc(PortSettings& port) {
  uint8_t groups = 0, queues = 0;
  for (uint32_t p = 0; p < fabric::kPriorities; ++p)
    if (port.pfc.tx_mask >> p & 1) {
      groups |= static_cast<uint8_t>(1u << port.priority_to_group[p]);
      queues |= static_cast<uint8_t>(1u << port.priority_to_queue[p]);
    }
  for (uint32_t i = 0; i < fabric::kPriorities; ++i) {
    const bool lossless = groups >> i & 1;
    GroupSettings& group = port.groups[i];
    if (lossless != group.lossless) lossless ? make_lossless(group) : make_lossy(group);
    QueueSettings& queue = port.queues[i];
    if (queues >> i & 1)
      make_lossless(queue);
    else if (queue.alpha == 0 && queue.max_bytes == fabric::kNoLimit && !queue.strict)
      make_lossy(queue);
  }
}

Host host_profile(bool as_hpcc) {
  Host host;
  host.port.pfc.rx_mask = host.port.pfc.tx_mask = 1 << kRoce;
  host.port.queues[kCnp].strict = true;
  if (!as_hpcc) return host;
  host.port.pfc.expires = false;
  host.port.pfc.tx_mask = 0;  // its hosts never pause
  Adapter& adapter = host.adapter;
  adapter.path_mtu = 1000;
  adapter.header_bytes = 48;
  adapter.ack_bytes = 60;
  adapter.ack_every = 1;
  adapter.ack_priority = kCnp;
  adapter.timeout = 0;
  adapter.congestion.np.echo_in_acknowledgements = true;
  if (const auto dcqcn = engine::dcqcn_profile("hpcc-ns3")) adapter.congestion.dcqcn = *dcqcn;
  return host;
}

}  // namespace verbena::scenario
