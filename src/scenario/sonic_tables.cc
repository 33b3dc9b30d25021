// Source: SONiC's Configuration.md and its YANG models (sonic-port, sonic-buffer-*, sonic-pfcwd,
// sonic-wred-profile, sonic-scheduler, sonic-port-qos-map).
#include "scenario/sonic_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::scenario {
namespace {

struct Table {
  std::string_view name;
  std::string_view used;     // fields, a blank between two; "*" any: a map of numbers or of ports
  std::string_view nothing;  // fields that are known and have no effect here
};

constexpr Table kTables[] = {
    {"PORT", "speed mtu pfc_asym",
     "lanes alias index description admin_status fec autoneg adv_speeds interface_type "
     "adv_interface_types asic_port_name role tpid mode dhcp_rate_limit link_training subport "
     "coreId corePortId numVoq core_id core_port_id num_voq macsec mux_cable media_type "
     "override_unreliable_los tx_power laser_freq unreliable_los"},
    {"PORT_QOS_MAP",
     "dscp_to_tc_map dot1p_to_tc_map tc_to_queue_map tc_to_pg_map pfc_to_queue_map pfc_enable "
     "pfcwd_sw_enable tc_to_dscp_map",
     "pfc_to_pg_map tc_to_dot1p_map scheduler dscp_to_fc_map exp_to_fc_map"},
    {"DSCP_TO_TC_MAP", "*", ""},
    {"DOT1P_TO_TC_MAP", "*", ""},
    {"TC_TO_QUEUE_MAP", "*", ""},
    {"TC_TO_PRIORITY_GROUP_MAP", "*", ""},
    {"TC_TO_DSCP_MAP", "*", ""},
    {"MAP_PFC_PRIORITY_TO_QUEUE", "*", ""},
    {"PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "*", ""},
    {"WRED_PROFILE",
     "ecn wred_green_enable green_min_threshold green_max_threshold green_drop_probability "
     "ecn_green_min_threshold ecn_green_max_threshold ecn_green_mark_probability "
     "green_ecn_mark_probability",
     "wred_yellow_enable yellow_min_threshold yellow_max_threshold yellow_drop_probability "
     "wred_red_enable red_min_threshold red_max_threshold red_drop_probability "
     "ecn_yellow_min_threshold ecn_yellow_max_threshold ecn_yellow_mark_probability "
     "ecn_red_min_threshold ecn_red_max_threshold ecn_red_mark_probability "
     "yellow_ecn_mark_probability red_ecn_mark_probability"},
    {"SCHEDULER", "type weight", "priority meter_type cir cbs pir pbs"},
    {"QUEUE", "scheduler wred_profile", ""},
    {"BUFFER_POOL", "size type mode xoff", "percentage"},
    {"BUFFER_PROFILE", "pool size xoff xon xon_offset dynamic_th static_th headroom_type",
     "mode packet_discard_action"},
    {"BUFFER_PG", "profile", "pg_num"},
    {"BUFFER_QUEUE", "profile", ""},
    {"BUFFER_PORT_INGRESS_PROFILE_LIST", "", "profile_list"},
    {"BUFFER_PORT_EGRESS_PROFILE_LIST", "", "profile_list"},
    {"CABLE_LENGTH", "*", ""},
    {"DEFAULT_LOSSLESS_BUFFER_PARAMETER", "default_dynamic_th over_subscribe_ratio",
     "max_headroom_size"},
    {"LOSSLESS_TRAFFIC_PATTERN", "mtu small_packet_percentage", ""},
    {"PFC_WD", "action detection_time restoration_time POLL_INTERVAL BIG_RED_SWITCH",
     "pfc_stat_history"},
};

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> all;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    all.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return all;
}

bool holds(const std::vector<std::string_view>& all, std::string_view word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string_view why_nothing(std::string_view table) {
  if (table == "WRED_PROFILE") return "every packet is green here";
  if (table == "PORT") return "it does not change how packets are queued";
  if (table == "SCHEDULER") return "queues here send at line rate";
  return "the simulated switch has one shared pool and one map";
}

// Fields of one table without effect, once for the table and not for each of a hundred ports.
void check_fields(const Table& table, const std::vector<SonicRow>& rows, Diagnostics& diagnostics) {
  const std::vector<std::string_view> used = words(table.used), nothing = words(table.nothing);
  if (table.used == "*") return;
  std::vector<std::string_view> known = used;
  known.insert(known.end(), nothing.begin(), nothing.end());
  std::vector<std::string> without;
  int first = 0;
  for (const SonicRow& row : rows)
    for (const auto& [field, value] : row.fields) {
      if (holds(used, field)) continue;
      if (!holds(nothing, field)) {
        const std::string_view nearest = meant_word(field, known);
        diagnostics.error(value.line,
                          fmt::format("{}|{}: field '{}' is unknown", table.name, row.key, field),
                          nearest.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                          : fmt::format("did you mean {}?", nearest));
        continue;
      }
      if (first == 0) first = value.line;
      if (std::find(without.begin(), without.end(), field) == without.end())
        without.push_back(field);
    }
  if (!without.empty())
    diagnostics.note(first,
                     fmt::format("{}: {} {} no effect: {}", table.name, fmt::join(without, ", "),
                                 without.size() == 1 ? "has" : "have", why_nothing(table.name)));
}

}  // namespace

void check_sonic_tables(const SonicFile& file, Diagnostics& diagnostics) {
  std::vector<std::string_view> known;
  for (const Table& table : kTables) known.push_back(table.name);
  std::vector<std::string> other;
  for (const std::string& name : file.names()) {
    const auto* table = std::find_if(std::begin(kTables), std::end(kTables),
                                     [&](const Table& t) { return t.name == name; });
    if (table != std::end(kTables)) {
      check_fields(*table, file.table(name), diagnostics);
      continue;
    }
    const std::string_view nearest = meant_word(name, known);
    if (nearest.empty()) {
      other.push_back(name);
    } else {
      diagnostics.error(file.line_of(name), fmt::format("table {} is unknown", name),
                        fmt::format("did you mean {}?", nearest));
    }
  }
  if (!other.empty())
    diagnostics.note(file.line_of(other[0]),
                     fmt::format("tables that are not about queues and buffers are not used: {}",
                                 fmt::join(other, ", ")));
}

}  // namespace verbena::scenario
