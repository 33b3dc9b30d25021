// Defaults are those of the user guide 5.11 to 5.14, "Quality of Service" and "RDMA over Converged
// Ethernet": without RoCE, ECN from 150 000 to 1 500 000 bytes on traffic class 0, DWRR of 12 and
// 13 percent, trust l2, no PFC.
#include "scenario/nvue_ports.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenario/profiles.h"

namespace verbena::scenario {

using fabric::kPriorities;
using fabric::PortSettings;

namespace {

using fabric::PortSettings;

constexpr uint64_t kRoceCable = 100;  // metres, unless cable-length says so
constexpr uint64_t kPlainCable = 10;
constexpr uint64_t kXonDelta = 2000;  // bytes, of a PFC profile
constexpr uint64_t kUsualXoff = 10'000, kUsualBuffer = 25'000;
constexpr uint64_t kLeastThreshold = 1500;

// alpha_1_4 is a quarter. None and no limit are the ends of what a scenario can say.
double alpha_of(std::string_view name) {
  name.remove_prefix(std::string_view("alpha_").size());
  if (name == "infinity") return 1000;
  if (name == "0") return 0.0001;
  if (name.starts_with("1_")) return 1.0 / static_cast<double>(*number_of(name.substr(2)));
  return static_cast<double>(*number_of(name));
}

}  // namespace

bool NvuePorts::switched(const std::string& path, bool usual) const {
  const NvueLeaf* found = leaf(path);
  return found == nullptr ? usual : found->value == "on";
}

uint64_t NvuePorts::number(const std::string& path, uint64_t usual) const {
  const NvueLeaf* found = leaf(path);
  return found == nullptr ? usual : *number_of(found->value);
}

void NvuePorts::remember(std::string_view setting, int line) {
  if (line > 0) out_.lines[fmt::format("{}.{}", key_, setting)] = line;
}

// The profile of a kind that is in force on this port: its own, else default-global. "" when there
// is nothing of it.
std::string NvuePorts::profile(std::string_view kind) {
  const NvueLeaf* named = leaf(fmt::format("interface/{}/qos/{}/profile", name_, kind));
  const std::string own = named != nullptr ? named->value : "default-global";
  const std::string where = fmt::format("qos/{}/{}", kind, own);
  if (tree_.line_of(where) != 0) return where;
  if (named != nullptr && own != "default-global")
    diagnostics_.error(named->line, fmt::format("{} profile '{}' is set nowhere", kind, own),
                       fmt::format("define it: nv set qos {} {} ...", kind, own));
  return "";
}

std::string NvuePorts::roce_mode() const {
  if (const NvueLeaf* own = leaf(fmt::format("interface/{}/qos/roce/mode", name_)))
    return own->value;
  if (tree_.line_of("qos/roce") == 0) return "";
  if (!switched("qos/roce/enable", true) || !switched("qos/roce/state", true)) return "";
  const NvueLeaf* mode = leaf("qos/roce/mode");
  return mode != nullptr ? mode->value : "lossless";
}

// What `nv set qos roce` in this mode, or nothing, makes of a port.
PortSettings NvuePorts::profile_port() {
  const std::string mode = roce_mode();
  const SwitchForm::Roce kind = mode.empty()                   ? SwitchForm::kOff
                                : mode.starts_with("lossless") ? SwitchForm::kLossless
                                                               : SwitchForm::kLossy;
  PortSettings port = switch_profile(SwitchForm::kCumulus, kind).settings.port;
  if (mode.empty()) {
    for (uint32_t q = 0; q < kPriorities; ++q) port.queues[q].weight = q % 2 == 0 ? 12 : 13;
    port.trust = fabric::Trust::kPcp;
    return port;
  }
  const int own = tree_.line_of(fmt::format("interface/{}/qos/roce", name_));
  const int line = own != 0 ? own : tree_.line_of("qos/roce");
  for (std::string_view setting : {"trust", "ecn", "pfc", "queue", "group"})
    remember(setting, line);
  if (mode == "lossy-multi-tc")
    diagnostics_.note(line, "lossy-multi-tc is taken as lossy: one traffic class for RoCE");
  if (mode == "lossless-single-ipool")
    diagnostics_.note(line, "lossless-single-ipool is taken as lossless: there is one pool here");
  if (kind == SwitchForm::kLossless) {
    port.pfc.cable_metres = static_cast<double>(number("qos/roce/cable-length", kRoceCable));
    flow_control_ = "qos/roce";
  }
  return port;
}

void NvuePorts::mapping(PortSettings& port) {
  const std::string where = profile("mapping");
  if (where.empty()) return;
  if (const NvueLeaf* trust = leaf(where + "/trust")) {
    port.trust = trust->value == "l2"     ? fabric::Trust::kPcp
                 : trust->value == "l3"   ? fabric::Trust::kDscp
                 : trust->value == "both" ? fabric::Trust::kBoth
                                          : fabric::Trust::kPort;
    remember("trust", trust->line);
  }
  port.default_priority =
      static_cast<uint8_t>(number(where + "/port-default-sp", port.default_priority));
  for (uint32_t pcp = 0; pcp < kPriorities; ++pcp)
    port.pcp_to_priority[pcp] = static_cast<uint8_t>(
        number(fmt::format("{}/pcp/{}/switch-priority", where, pcp), port.pcp_to_priority[pcp]));
  for (uint32_t dscp = 0; dscp < fabric::kDscps; ++dscp)
    if (const NvueLeaf* to = leaf(fmt::format("{}/dscp/{}/switch-priority", where, dscp))) {
      port.dscp_to_priority[dscp] = static_cast<uint8_t>(*number_of(to->value));
      remember(fmt::format("dscp.{}", dscp), to->line);
    }
}

void NvuePorts::remark(PortSettings& port) {
  const std::string where = profile("remark");
  if (where.empty()) return;
  const NvueLeaf* rewrite = leaf(where + "/rewrite");
  const bool layer3 = rewrite != nullptr && rewrite->value != "l2";
  for (uint32_t p = 0; p < kPriorities; ++p) {
    const NvueLeaf* dscp = leaf(fmt::format("{}/switch-priority/{}/dscp", where, p));
    if (dscp == nullptr) continue;
    if (!layer3) {
      diagnostics_.warn(dscp->line, "the DSCP is not rewritten",
                        fmt::format("add: nv set {} rewrite l3",
                                    std::string(where).replace(where.find('/'), 1, " ")));
      continue;
    }
    port.remark_dscp[p] = static_cast<uint8_t>(*number_of(dscp->value));
    remember("remark", dscp->line);
  }
}

void NvuePorts::queues(PortSettings& port) {
  for (const std::string& name : tree_.below("qos/egress-queue-mapping"))
    if (name != "default-global")
      diagnostics_.error(tree_.line_of("qos/egress-queue-mapping/" + name),
                         fmt::format("egress-queue-mapping knows no profile '{}'", name),
                         "the only one is default-global");
  for (uint32_t p = 0; p < kPriorities; ++p)
    if (const NvueLeaf* queue = leaf(fmt::format(
            "qos/egress-queue-mapping/default-global/switch-priority/{}/traffic-class", p))) {
      port.priority_to_queue[p] = static_cast<uint8_t>(*number_of(queue->value));
      remember("queue", queue->line);
    }
}

void NvuePorts::scheduler(PortSettings& port) {
  const std::string where = profile("egress-scheduler");
  if (where.empty()) return;
  uint64_t sum = 0;
  for (const std::string& q : tree_.below(where + "/traffic-class")) {
    const std::string queue = fmt::format("{}/traffic-class/{}", where, q);
    fabric::QueueSettings& settings = port.queues[*number_of(q)];
    if (const NvueLeaf* mode = leaf(queue + "/mode")) settings.strict = mode->value == "strict";
    const uint64_t share = number(queue + "/bw-percent", settings.strict ? 0 : settings.weight);
    sum += settings.strict ? 0 : share;
    settings.weight = std::max<uint32_t>(1, static_cast<uint32_t>(share));
    remember(fmt::format("queue.{}", q), tree_.line_of(queue));
  }
  if (sum > 100)
    diagnostics_.error(tree_.line_of(where),
                       fmt::format("the bw-percent of the DWRR queues sum to {}", sum),
                       "make them 100 at most");
}

void NvuePorts::check_ecn(int line, const fabric::EcnSettings& ecn, uint32_t queue) {
  if (ecn.min_bytes > ecn.max_bytes)
    diagnostics_.error(line,
                       fmt::format("traffic class {}: min-threshold {} is above "
                                   "max-threshold {}",
                                   queue, ecn.min_bytes, ecn.max_bytes),
                       "set the smaller one as min-threshold");
  if (ecn.max_bytes < kLeastThreshold)
    diagnostics_.warn(line,
                      fmt::format("traffic class {}: thresholds of {} and {} bytes are less "
                                  "than one packet",
                                  queue, ecn.min_bytes, ecn.max_bytes),
                      "NVUE counts bytes, not kilobytes: 150000, not 150");
}

void NvuePorts::congestion(PortSettings& port) {
  const std::string where = profile("congestion-control");
  if (!where.empty()) {
    // A profile names every queue that marks; RoCE's own settings stay beside default-global's.
    const bool beside = !roce_mode().empty() && where.ends_with("/default-global");
    if (!beside)
      for (fabric::QueueSettings& queue : port.queues) queue.ecn.mark = false;
    for (const std::string& q : tree_.below(where + "/traffic-class")) {
      const std::string queue = fmt::format("{}/traffic-class/{}", where, q);
      fabric::EcnSettings& ecn = port.queues[*number_of(q)].ecn;
      ecn.min_bytes = number(queue + "/min-threshold", ecn.min_bytes);
      ecn.max_bytes = number(queue + "/max-threshold", ecn.max_bytes);
      ecn.probability = static_cast<double>(number(queue + "/probability", 100)) / 100;
      ecn.mark = switched(queue + "/ecn", true);
      ecn.drop = switched(queue + "/red", false);
      const int line = tree_.line_of(queue);
      check_ecn(line, ecn, static_cast<uint32_t>(*number_of(q)));
      remember("ecn", line);
      for (const auto& [setting, word] : {std::pair{"min", "min-threshold"},
                                          {"max", "max-threshold"},
                                          {"probability", "probability"},
                                          {"mark", "ecn"}})
        remember(fmt::format("queue.{}.ecn.{}", q, setting),
                 tree_.line_of(fmt::format("{}/{}", queue, word)));
    }
  }
  interface_ecn(port);
}

// "interface swp1 qos ecn threshold min A max B", which names no traffic class: those that mark.
void NvuePorts::interface_ecn(PortSettings& port) {
  const std::string where = fmt::format("interface/{}/qos/ecn", name_);
  const int line = tree_.line_of(where);
  if (line == 0) return;
  std::vector<uint32_t> which;
  for (uint32_t q = 0; q < kPriorities; ++q)
    if (port.queues[q].ecn.mark) which.push_back(q);
  for (uint32_t q : which) {
    fabric::EcnSettings& ecn = port.queues[q].ecn;
    ecn.min_bytes = number(where + "/min", ecn.min_bytes);
    ecn.max_bytes = number(where + "/max", ecn.max_bytes);
    check_ecn(line, ecn, q);
    remember(fmt::format("queue.{}.ecn.min", q), line);
    remember(fmt::format("queue.{}.ecn.max", q), line);
  }
  remember("ecn", line);
  diagnostics_.note(
      line,
      which.empty()
          ? std::string("no traffic class of this port marks, so its thresholds do nothing")
          : fmt::format("taken for traffic class {}, which mark ECN on this port",
                        fmt::join(which, " and ")),
      "the documented form: nv set qos congestion-control NAME traffic-class TC "
      "min-threshold|max-threshold BYTES");
}

void NvuePorts::pfc(PortSettings& port) {
  const std::string where = profile("pfc");
  if (where.empty()) return;
  uint8_t mask = 0;
  for (const std::string& p : tree_.below(where + "/switch-priority"))
    mask = static_cast<uint8_t>(mask | 1u << *number_of(p));
  const int line = tree_.line_of(where);
  if (mask == 0 && port.pfc.tx_mask == 0) {
    diagnostics_.warn(line, "this PFC profile names no switch priority, so nothing is lossless",
                      "add: nv set qos pfc NAME switch-priority 3");
    return;
  }
  if (mask == 0) mask = port.pfc.tx_mask;
  port.pfc.rx_mask = switched(where + "/rx", true) ? mask : 0;
  port.pfc.tx_mask = switched(where + "/tx", true) ? mask : 0;
  remember("pfc", line);
  const double usual = port.pfc.cable_metres;
  port.pfc.cable_metres = static_cast<double>(
      number(where + "/cable-length", usual > 0 ? static_cast<uint64_t>(usual) : kPlainCable));
  flow_control_ = where;
}

void NvuePorts::link_pause(PortSettings& port) {
  const std::string where = profile("link-pause");
  if (where.empty()) return;
  if (port.pfc.rx_mask != 0 || port.pfc.tx_mask != 0) {
    diagnostics_.error(tree_.line_of(where), "link pause and PFC are both set on one port",
                       "keep one of them: the switch refuses both");
    return;
  }
  port.link_pause = true;
  port.pfc.rx_mask = switched(where + "/rx", true) ? 0xff : 0;
  port.pfc.tx_mask = switched(where + "/tx", true) ? 0xff : 0;
  remember("link_pause", tree_.line_of(where));
  port.pfc.cable_metres = static_cast<double>(number(where + "/cable-length", kPlainCable));
  flow_control_ = where;
}

// Lossless priorities have a group each.
void NvuePorts::lossless(PortSettings& port) {
  for (uint8_t p = 0; p < kPriorities; ++p)
    if ((port.pfc.tx_mask >> p & 1) != 0) port.priority_to_group[p] = p;
  follow_pfc(port);
  if (port.pfc.tx_mask != 0) thresholds(port, flow_control_);
  buffers(port);
}

// XOFF, XON and headroom of the lossless groups: bytes as given, else from the cable's length.
void NvuePorts::thresholds(PortSettings& port, const std::string& where) {
  const NvueLeaf* buffer = leaf(where + "/port-buffer");
  const NvueLeaf* xoff = leaf(where + "/xoff-threshold");
  for (fabric::GroupSettings& group : port.groups)
    if (group.lossless) group.xon_offset_bytes = number(where + "/xon-threshold", kXonDelta);
  if (buffer == nullptr && xoff == nullptr) {
    const int cable = tree_.line_of(where + "/cable-length");
    remember("group.headroom", cable != 0 ? cable : tree_.line_of(where));
    return;
  }
  const uint64_t fixed = xoff != nullptr ? *number_of(xoff->value) : kUsualXoff;
  const uint64_t whole = buffer != nullptr ? *number_of(buffer->value) : kUsualBuffer;
  const int line = buffer != nullptr ? buffer->line : xoff->line;
  remember("group.headroom", line);
  if (whole < fixed)
    diagnostics_.error(line, fmt::format("xoff-threshold {} is above port-buffer {}", fixed, whole),
                       "make port-buffer the larger one by the headroom");
  for (fabric::GroupSettings& group : port.groups) {
    if (!group.lossless) continue;
    group.headroom_bytes = whole > fixed ? whole - fixed : 0;
    group.dynamic = false;
    group.static_bytes = fixed;
  }
}

void NvuePorts::buffers(PortSettings& port) {
  const std::string where = "qos/advance-buffer-config/default-global";
  const auto set_group = [&](const std::string& path, bool lossless) {
    for (fabric::GroupSettings& group : port.groups) {
      if (group.lossless != lossless) continue;
      if (const NvueLeaf* alpha = leaf(path + "/shared-alpha")) {
        group.dynamic = true;
        group.alpha = alpha_of(alpha->value);
        remember("group.alpha", alpha->line);
      } else if (const NvueLeaf* bytes = leaf(path + "/shared-bytes")) {
        group.dynamic = false;
        group.static_bytes = *number_of(bytes->value);
      }
      group.reserved_bytes = number(path + "/reserved", group.reserved_bytes);
    }
  };
  set_group(where + "/ingress-lossless-buffer", true);
  for (const std::string& group : tree_.below(where + "/ingress-lossy-buffer/priority-group"))
    set_group(fmt::format("{}/ingress-lossy-buffer/priority-group/{}", where, group), false);
  for (uint32_t q = 0; q < kPriorities; ++q) {
    const std::string queue = fmt::format("{}/egress-lossy-buffer/traffic-class/{}", where, q);
    if (const NvueLeaf* alpha = leaf(queue + "/shared-alpha"))
      port.queues[q].alpha = alpha_of(alpha->value);
    port.queues[q].max_bytes = number(queue + "/shared-bytes", port.queues[q].max_bytes);
  }
}

void NvuePorts::watchdog(PortSettings& port) {
  const NvueLeaf* state = leaf(fmt::format("interface/{}/qos/pfc-watchdog/state", name_));
  if (state == nullptr || state->value != "on") return;
  if (port.pfc.tx_mask == 0 && port.pfc.rx_mask == 0)
    diagnostics_.warn(state->line,
                      fmt::format("{} has no PFC, so its watchdog watches nothing", name_),
                      "enable PFC on it: nv set qos roce mode lossless, or a pfc profile");
  port.watchdog.machine = fabric::WatchdogSettings::kCumulus;
  port.watchdog.mask = static_cast<uint8_t>(port.pfc.rx_mask | port.pfc.tx_mask);
  port.watchdog.poll = static_cast<fabric::Time>(number("qos/pfc-watchdog/polling-interval", 100)) *
                       fabric::kMillisecond;
  port.watchdog.robustness = static_cast<uint32_t>(number("qos/pfc-watchdog/robustness", 3));
  remember("watchdog", state->line);
}

PortSettings NvuePorts::port(const std::string& name, const std::string& key) {
  name_ = name;
  key_ = key;
  flow_control_.clear();
  PortSettings port = profile_port();
  const std::string mtu = fmt::format("interface/{}/link/mtu", name);
  port.mtu = static_cast<uint32_t>(number(mtu, port.mtu));
  remember("mtu", tree_.line_of(mtu));
  mapping(port);
  remark(port);
  queues(port);
  scheduler(port);
  congestion(port);
  pfc(port);
  link_pause(port);
  lossless(port);
  watchdog(port);
  return port;
}

}  // namespace verbena::scenario
