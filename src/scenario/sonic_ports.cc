// Defaults of tables that a port refers to but the file lacks are those of SONiC's qos_config.j2
// ("AZURE"): DSCP 3 and 4 to traffic classes 3 and 4, 5 to 2, 8 to 0, 46 to 5, 48 to 6, the rest,
// 26 too, to 1.
#include "scenario/sonic_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "scenario/headroom.h"
#include "scenario/profiles.h"

namespace verbena::scenario {

using fabric::GroupSettings;
using fabric::kPriorities;
using fabric::PortSettings;
using fabric::QueueSettings;

namespace {

constexpr std::string_view kAzure = "AZURE";
constexpr uint32_t kLeastMtu = 256;
constexpr uint64_t kWredMax = 2ull << 20;

void azure_map(const std::string& table, std::span<uint8_t> to) {
  if (table == "DSCP_TO_TC_MAP") {
    std::fill(to.begin(), to.end(), uint8_t{1});
    for (const auto& [dscp, tc] :
         {std::pair<int, uint8_t>{3, 3}, {4, 4}, {5, 2}, {8, 0}, {46, 5}, {48, 6}})
      to[static_cast<size_t>(dscp)] = tc;
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<uint8_t>(i);
  if (table == "TC_TO_PRIORITY_GROUP_MAP")
    for (size_t tc : {1, 2, 5, 6}) to[tc] = 0;
}

std::optional<int> signed_number(const std::string& text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const SonicRow* SonicPorts::row(const std::string& table, int number) const {
  for (const SonicRow& row : file_.table(table)) {
    const std::optional<SonicKey>& key = row.parts;
    if (!key || std::find(key->ports.begin(), key->ports.end(), name_) == key->ports.end())
      continue;
    if (number < 0 || std::find(key->numbers.begin(), key->numbers.end(),
                                static_cast<uint32_t>(number)) != key->numbers.end())
      return &row;
  }
  return nullptr;
}

uint64_t SonicPorts::number(const SonicRow& row, const std::string& table, const std::string& field,
                            uint64_t usual, uint64_t most) {
  const SonicField* found = row.find(field);
  if (found == nullptr) return usual;
  const auto value = number_of(found->value);
  if (value && *value <= most) return *value;
  diagnostics_.error(found->line, fmt::format("{}|{}: {} takes a number up to {}, not '{}'", table,
                                              row.key, field, most, found->value));
  return usual;
}

uint8_t SonicPorts::mask(const SonicRow& row, const std::string& field) {
  const SonicField* found = row.find(field);
  if (found == nullptr || found->value.empty()) return 0;
  const auto list = number_list(found->value, kPriorities - 1);
  if (!list)
    diagnostics_.error(found->line,
                       fmt::format("PORT_QOS_MAP|{}: {} takes priorities 0-7, not "
                                   "'{}'",
                                   row.key, field, found->value),
                       "for example \"3,4\"");
  uint8_t bits = 0;
  for (uint32_t p : list.value_or(std::vector<uint32_t>{}))
    bits = static_cast<uint8_t>(bits | 1u << p);
  return bits;
}

const SonicRow* SonicPorts::refer(const SonicRow& row, const std::string& field,
                                  const std::string& table) {
  const SonicField* found = row.find(field);
  if (found == nullptr) return nullptr;
  const SonicRow* referred = file_.referred(table, found->value);
  if (referred == nullptr)
    diagnostics_.error(found->line,
                       fmt::format("{}: there is no {}|{}", field, table, sonic_name(found->value)),
                       fmt::format("add it to {}", table));
  return referred;
}

void SonicPorts::remember(std::string_view setting, int line) {
  if (line == 0) return;
  out_.lines[fmt::format("switch.port.{}.{}", number_, setting)] = line;
  if (number_ == 0) out_.lines[fmt::format("switch.{}", setting)] = line;
}

void SonicPorts::link(PortSettings& port) {
  rate_ = defaults_.bits_per_second;
  cable_ = 0;
  if (const SonicRow* link = row("PORT")) {
    if (const SonicField* speed = link->find("speed")) {
      const auto rate = rate_of(speed->value);
      if (!rate)
        diagnostics_.error(
            speed->line,
            fmt::format("PORT|{}: speed '{}' is no rate in Mb/s", link->key, speed->value),
            "100G is 100000");
      rate_ = rate.value_or(rate_);
      if (out_.least_rate == 0 || rate_ < out_.least_rate) out_.least_rate = rate_;
    }
    port.mtu = static_cast<uint32_t>(number(*link, "PORT", "mtu", port.mtu, 16'384));
    if (const SonicField* mtu = link->find("mtu")) {
      remember("mtu", mtu->line);
      if (port.mtu < kLeastMtu) {
        diagnostics_.error(mtu->line,
                           fmt::format("PORT|{}: an MTU of {} is too short", link->key, port.mtu),
                           fmt::format("{} or more", kLeastMtu));
        port.mtu = kLeastMtu;
      }
    }
  }
  for (const SonicRow& row : file_.table("CABLE_LENGTH"))
    if (const SonicField* length = row.find(name_)) {
      std::string_view metres = length->value;
      if (metres.ends_with('m')) metres.remove_suffix(1);
      const auto value = number_of(metres);
      if (!value || *value > 100'000)
        diagnostics_.error(
            length->line, fmt::format("CABLE_LENGTH|{}: '{}' is no length", row.key, length->value),
            "for example \"40m\"");
      cable_ = static_cast<double>(value && *value <= 100'000 ? *value : 0);
      port.pfc.cable_metres = cable_;
      remember("pfc.cable", length->line);
    }
}

// One map of one port: a key that it does not name goes to 0, as in the chip's table.
void SonicPorts::map(const SonicRow& qos, const std::string& field, const std::string& table,
                     std::span<uint8_t> to, uint32_t keys, std::string_view setting) {
  const SonicField* reference = qos.find(field);
  if (reference == nullptr) return;
  const SonicRow* entries = file_.referred(table, reference->value);
  remember(setting, reference->line);
  if (entries == nullptr && sonic_name(reference->value) == kAzure) {
    azure_map(table, to);
    diagnostics_.note(reference->line, fmt::format("{}|AZURE is not in the file: SONiC's default "
                                                   "is taken",
                                                   table));
    return;
  }
  if (entries == nullptr) {
    static_cast<void>(refer(qos, field, table));
    return;
  }
  std::fill(to.begin(), to.end(), uint8_t{0});
  for (const auto& [key, value] : entries->fields) {
    const auto from = number_of(key), target = number_of(value.value);
    if (!from || *from >= keys || !target || *target >= kPriorities) {
      diagnostics_.error(
          value.line,
          fmt::format("{}|{}: '{}' to '{}' is out of range", table, entries->key, key, value.value),
          fmt::format("keys are 0-{}, values 0-7", keys - 1));
      continue;
    }
    to[*from] = static_cast<uint8_t>(*target);
    if (table == "DSCP_TO_TC_MAP") remember(fmt::format("dscp.{}", *from), value.line);
  }
}

void SonicPorts::maps(PortSettings& port, const SonicRow& qos) {
  const bool dscp = qos.find("dscp_to_tc_map") != nullptr;
  const bool pcp = qos.find("dot1p_to_tc_map") != nullptr;
  port.trust = dscp && pcp ? fabric::Trust::kBoth
               : dscp      ? fabric::Trust::kDscp
               : pcp       ? fabric::Trust::kPcp
                           : fabric::Trust::kPort;
  map(qos, "dscp_to_tc_map", "DSCP_TO_TC_MAP", port.dscp_to_priority, fabric::kDscps, "trust");
  map(qos, "dot1p_to_tc_map", "DOT1P_TO_TC_MAP", port.pcp_to_priority, kPriorities, "trust");
  map(qos, "tc_to_queue_map", "TC_TO_QUEUE_MAP", port.priority_to_queue, kPriorities, "queue");
  map(qos, "tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", port.priority_to_group, kPriorities,
      "group");
  map(qos, "pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", port.pfc_priority_to_queue, kPriorities,
      "pfc_queue");
  if (const SonicField* remark = qos.find("tc_to_dscp_map")) {
    const SonicRow* entries = refer(qos, "tc_to_dscp_map", "TC_TO_DSCP_MAP");
    if (entries == nullptr) return;
    for (const auto& [key, value] : entries->fields) {
      const auto tc = number_of(key), to = number_of(value.value);
      if (tc && *tc < kPriorities && to && *to < fabric::kDscps)
        port.remark_dscp[*tc] = static_cast<uint8_t>(*to);
    }
    remember("remark", remark->line);
  }
}

void SonicPorts::pfc(PortSettings& port, const SonicRow& qos) {
  port.pfc.rx_mask = port.pfc.tx_mask = mask(qos, "pfc_enable");
  if (const SonicField* enable = qos.find("pfc_enable")) remember("pfc", enable->line);
  const SonicRow* link = row("PORT");
  if (link == nullptr || link->text("pfc_asym") != "on") return;
  port.pfc.rx_mask = 0xff;  // asymmetric: every priority obeys, only the lossless ones ask
  remember("pfc", link->find("pfc_asym")->line);
}

void SonicPorts::ecn(QueueSettings& queue, uint32_t number_of_queue, const SonicRow& profile) {
  fabric::EcnSettings& ecn = queue.ecn;
  const std::string mode = profile.text("ecn");
  static constexpr std::string_view kModes[] = {
      "ecn_none",         "ecn_green",     "ecn_yellow",     "ecn_red",
      "ecn_green_yellow", "ecn_green_red", "ecn_yellow_red", "ecn_all"};
  if (!mode.empty() && std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes))
    diagnostics_.error(profile.find("ecn")->line,
                       fmt::format("WRED_PROFILE|{}: ecn is {}, not "
                                   "'{}'",
                                   profile.key, fmt::join(kModes, "|"), mode));
  ecn.mark = mode == "ecn_all" || mode.find("green") != mode.npos;
  ecn.drop = profile.text("wred_green_enable") == "true";
  // Marks have thresholds of their own in newer releases; else they share WRED's.
  const bool own = ecn.mark && profile.find("ecn_green_max_threshold") != nullptr;
  const std::string prefix = own ? "ecn_green" : "green";
  const std::string table = "WRED_PROFILE";
  ecn.min_bytes = number(profile, table, prefix + "_min_threshold", 0);
  ecn.max_bytes = number(profile, table, prefix + "_max_threshold", kWredMax);
  const std::string share = own ? "ecn_green_mark_probability"
                            : profile.find("green_ecn_mark_probability") != nullptr && ecn.mark
                                ? "green_ecn_mark_probability"
                                : "green_drop_probability";
  ecn.probability = static_cast<double>(number(profile, table, share, 100, 100)) / 100;
  for (const auto& [setting, field] :
       {std::pair<const char*, std::string>{"min", prefix + "_min_threshold"},
        {"max", prefix + "_max_threshold"},
        {"probability", share},
        {"mark", "ecn"}})
    if (const SonicField* found = profile.find(field))
      remember(fmt::format("queue.{}.ecn.{}", number_of_queue, setting), found->line);
  remember("ecn", profile.line);
  if (ecn.min_bytes > ecn.max_bytes)
    diagnostics_.error(profile.line, fmt::format("WRED_PROFILE|{}: the minimum {} is above the "
                                                 "maximum {}",
                                                 profile.key, ecn.min_bytes, ecn.max_bytes));
}

void SonicPorts::queues(PortSettings& port) {
  for (uint32_t q = 0; q < kPriorities; ++q) {
    QueueSettings& queue = port.queues[q];
    if (const SonicRow* own = row("QUEUE", static_cast<int>(q))) {
      if (const SonicRow* scheduler = refer(*own, "scheduler", "SCHEDULER")) {
        queue.strict = scheduler->text("type") == "STRICT";
        queue.weight = static_cast<uint32_t>(
            std::max<uint64_t>(1, number(*scheduler, "SCHEDULER", "weight", 1, 100)));
        remember(fmt::format("queue.{}", q), scheduler->line);
      }
      if (const SonicRow* wred = refer(*own, "wred_profile", "WRED_PROFILE")) ecn(queue, q, *wred);
    }
    const SonicRow* buffer = row("BUFFER_QUEUE", static_cast<int>(q));
    if (buffer == nullptr || (port.pfc.tx_mask >> q & 1) != 0) continue;
    if (const SonicRow* profile = refer(*buffer, "profile", "BUFFER_PROFILE")) {
      bool dynamic = false;
      threshold(*profile, queue.alpha, queue.max_bytes, dynamic);
      if (!dynamic) queue.alpha = 0;
    }
  }
}

// dynamic_th is the logarithm of alpha to base 2; static_th is bytes.
void SonicPorts::threshold(const SonicRow& profile, double& alpha, uint64_t& bytes, bool& dynamic) {
  if (const SonicField* exponent = profile.find("dynamic_th")) {
    const auto value = signed_number(exponent->value);
    if (!value || *value < -8 || *value > 8) {
      diagnostics_.error(exponent->line, fmt::format("BUFFER_PROFILE|{}: dynamic_th takes -8 to 8 "
                                                     "(alpha is 2 to it), not '{}'",
                                                     profile.key, exponent->value));
      return;
    }
    alpha = std::ldexp(1.0, *value);
    dynamic = true;
    remember("group.alpha", exponent->line);
  } else if (profile.find("static_th") != nullptr) {
    bytes = number(profile, "BUFFER_PROFILE", "static_th", bytes);
    dynamic = false;
  }
}

void SonicPorts::group(GroupSettings& group, const SonicRow& profile, uint32_t mtu) {
  const std::string table = "BUFFER_PROFILE";
  if (profile.text("headroom_type") == "dynamic" && profile.find("xoff") == nullptr)
    computed(group, profile.line, mtu);
  threshold(profile, group.alpha, group.static_bytes, group.dynamic);
  group.reserved_bytes = number(profile, table, "size", 0);
  group.headroom_bytes = number(profile, table, "xoff", group.headroom_bytes);
  const uint64_t xon = number(profile, table, "xon", 0);
  group.xon_offset_bytes = number(profile, table, "xon_offset", xon);
  remember("group.headroom",
           profile.find("xoff") != nullptr ? profile.find("xoff")->line : profile.line);
  // The size of a lossless profile holds XON, and on some chips XOFF as well.
  if (group.reserved_bytes >= group.headroom_bytes && profile.find("xoff") != nullptr)
    group.reserved_bytes -= group.headroom_bytes;
}

void SonicPorts::computed(GroupSettings& group, int line, uint32_t mtu) {
  group.dynamic = true;
  if (cable_ == 0) {
    group.headroom_bytes = 0;
    diagnostics_.warn(line,
                      fmt::format("{} has no cable length, so its headroom cannot be computed "
                                  "and is 0",
                                  name_),
                      "add the port to CABLE_LENGTH", 10);
    return;
  }
  const Headroom headroom = sonic_headroom(rate_, cable_, mtu);
  group.headroom_bytes = headroom.xoff_bytes;
  group.xon_offset_bytes = headroom.xon_bytes;
  diagnostics_.note(
      line, fmt::format("headroom {} bytes: {:g} m at {:g} Gb/s with an MTU of {}",
                        headroom.xoff_bytes, cable_, static_cast<double>(rate_) / 1e9, mtu));
  for (const SonicRow& row : file_.table("DEFAULT_LOSSLESS_BUFFER_PARAMETER")) {
    SonicRow profile = row;
    profile.fields["dynamic_th"] = {
        row.text("default_dynamic_th").empty() ? "0" : row.text("default_dynamic_th"), row.line};
    threshold(profile, group.alpha, group.static_bytes, group.dynamic);
  }
}

void SonicPorts::groups(PortSettings& port) {
  follow_pfc(port);
  for (GroupSettings& group : port.groups) group.headroom_bytes = 0;  // unless BUFFER_PG gives some
  for (uint32_t g = 0; g < kPriorities; ++g) {
    GroupSettings& settings = port.groups[g];
    const SonicRow* own = row("BUFFER_PG", static_cast<int>(g));
    if (own == nullptr) continue;
    const std::string reference = own->text("profile");
    const std::string_view name = sonic_name(reference);
    if (name.empty() || name == "NULL") {
      if (settings.lossless) computed(settings, own->line, port.mtu);
    } else if (const SonicRow* profile = refer(*own, "profile", "BUFFER_PROFILE")) {
      group(settings, *profile, port.mtu);
    }
    if (!settings.lossless && settings.headroom_bytes > 0) {
      diagnostics_.warn(own->line,
                        fmt::format("group {} of {} has headroom, but no priority of it "
                                    "has PFC",
                                    g, name_),
                        "add the priority to pfc_enable in PORT_QOS_MAP");
      settings.headroom_bytes = 0;
    }
  }
}

void SonicPorts::watchdog(PortSettings& port) {
  const SonicRow* own = row("PFC_WD");
  const SonicRow* global = nullptr;
  for (const SonicRow& row : file_.table("PFC_WD"))
    if (row.key == "GLOBAL") global = &row;
  if (global != nullptr && global->text("BIG_RED_SWITCH") == "enable")
    diagnostics_.warn(global->find("BIG_RED_SWITCH")->line,
                      "BIG_RED_SWITCH drops on every lossless queue at all times; it is off here",
                      "set it to disable once the storm is over");
  if (own == nullptr) return;
  fabric::WatchdogSettings& watchdog = port.watchdog;
  watchdog.machine = fabric::WatchdogSettings::kSonic;
  const auto time = [&](const SonicRow& row, const std::string& field, uint64_t usual,
                        uint64_t least, uint64_t most) {
    uint64_t value = number(row, "PFC_WD", field, usual, most);
    if (value < least) {
      diagnostics_.error(row.find(field)->line, fmt::format("PFC_WD|{}: {} is {} to {} ms, not {}",
                                                            row.key, field, least, most, value));
      value = usual;
    }
    return static_cast<fabric::Time>(value) * fabric::kMillisecond;
  };
  watchdog.detection = time(*own, "detection_time", 200, 100, 5'000);
  watchdog.restoration =
      time(*own, "restoration_time",
           static_cast<uint64_t>(2 * watchdog.detection / fabric::kMillisecond), 100, 60'000);
  watchdog.poll = 200 * fabric::kMillisecond;
  if (global != nullptr) watchdog.poll = time(*global, "POLL_INTERVAL", 200, 100, 3'000);
  const std::string action = own->text("action");
  watchdog.action = action == "forward" ? fabric::WatchdogSettings::kForward
                    : action == "alert" ? fabric::WatchdogSettings::kAlert
                                        : fabric::WatchdogSettings::kDrop;
  if (!action.empty() && action != "drop" && action != "forward" && action != "alert")
    diagnostics_.error(own->find("action")->line, fmt::format("PFC_WD|{}: action is drop, forward "
                                                              "or alert, not '{}'",
                                                              own->key, action));
  const SonicRow* qos = row("PORT_QOS_MAP");
  watchdog.mask = qos != nullptr && qos->find("pfcwd_sw_enable") != nullptr
                      ? mask(*qos, "pfcwd_sw_enable")
                      : port.pfc.tx_mask;
  remember("watchdog", own->line);
  if (watchdog.mask == 0)
    diagnostics_.warn(own->line, fmt::format("the watchdog of {} watches no priority", name_),
                      "set pfc_enable and pfcwd_sw_enable in PORT_QOS_MAP");
}

PortSettings SonicPorts::port(const std::string& name, uint32_t number) {
  name_ = name;
  number_ = number;
  PortSettings port = switch_profile(SwitchForm::kNone, SwitchForm::kOff).settings.port;
  link(port);
  port.trust = fabric::Trust::kPort;
  const SonicRow* qos = row("PORT_QOS_MAP");
  if (qos == nullptr) {
    for (const SonicRow& row : file_.table("PORT_QOS_MAP"))
      if (row.key == "global") qos = &row;
  }
  if (qos != nullptr) {
    maps(port, *qos);
    pfc(port, *qos);
  } else {
    diagnostics_.warn(0, fmt::format("{} has no PORT_QOS_MAP: all its traffic is class 0", name),
                      "add it: dscp_to_tc_map, tc_to_queue_map, tc_to_pg_map, pfc_enable");
  }
  queues(port);
  groups(port);
  watchdog(port);
  return port;
}

}  // namespace verbena::scenario
