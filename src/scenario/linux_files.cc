// mlnx_qos, the traffic class of RoCE, and congestion control as sysfs names it
// (/sys/class/net/IF/ecn/roce_{np,rp}/..., debugfs .../cc_params/...). Units are the adapter's:
// microseconds, Mb/s, bytes.
#include <fmt/format.h>

#include <algorithm>

#include "scenario/linux_commands.h"

namespace verbena::scenario {

using engine::DcqcnSettings;
using fabric::kPriorities;

namespace {

// "--pfc", "-f" -> "pfc"; "" for what is no option of mlnx_qos.
std::string option_name(std::string_view word) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"-f", "pfc"},       {"-p", "prio_tc"}, {"-s", "tsa"},       {"-t", "tcbw"},
      {"-r", "ratelimit"}, {"-d", "dcbx"},    {"-i", "interface"}, {"-a", "show_all"},
      {"-c", "cable_len"}, {"-q", "status"}};
  for (const auto& [letter, name] : kShort)
    if (letter == word) return std::string(name);
  if (!word.starts_with("--")) return "";
  word.remove_prefix(2);
  for (std::string_view name : {"pfc", "prio_tc", "tsa", "tcbw", "ratelimit", "dcbx", "interface",
                                "cable_len", "trust", "dscp2prio", "buffer_size", "prio2buffer"})
    if (name == word) return std::string(name);
  if (word == "tc_bw") return "tcbw";
  return "";
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

uint32_t to32(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
}

}  // namespace

std::vector<uint64_t> LinuxCommands::eight(const std::string& option, const std::string& value,
                                           uint64_t most) {
  std::vector<uint64_t> numbers;
  for (const std::string& part : split(value)) {
    const auto number = number_of(part);
    if (!number || *number > most) break;
    numbers.push_back(*number);
  }
  if (numbers.size() == kPriorities && split(value).size() == kPriorities) return numbers;
  refuse(fmt::format("mlnx_qos: {} takes eight numbers up to {}, not '{}'", option, most, value),
         fmt::format("for example: --{} 0,0,0,1,0,0,0,0", option));
  return {};
}

void LinuxCommands::mlnx_qos(Words words) {
  std::map<std::string, std::string> options;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].starts_with("--") ? words[i].find('=') : std::string::npos;
    const std::string name = option_name(words[i].substr(0, equals));
    if (name.empty())
      return refuse(fmt::format("mlnx_qos has no option '{}'", words[i]),
                    "options: -i, --pfc, --trust, --dscp2prio, --prio_tc, --tsa, --tcbw, "
                    "--cable_len, --buffer_size, --prio2buffer, --ratelimit, --dcbx");
    if (name == "show_all" || name == "status") continue;
    if (equals == std::string::npos && i + 1 == words.size())
      return refuse(fmt::format("mlnx_qos: {} without a value", words[i]));
    options[name] = equals != std::string::npos ? words[i].substr(equals + 1) : words[++i];
  }
  if (!options.contains("interface"))
    return refuse("mlnx_qos without an interface", "the form is: mlnx_qos -i DEV --pfc ...");
  LinuxDevice& device = devices_[options["interface"]];
  if (options.contains("cable_len") && !options.contains("pfc")) {
    if (device.pfc != 0)
      diagnostics_.warn(line_, "--cable_len without --pfc writes PFC off for every priority",
                        "give both on one line: --pfc 0,0,0,1,0,0,0,0 --cable_len N");
    device.pfc = 0;
    device.pfc_line = line_;
  }
  for (const auto& [option, value] : options)
    if (option != "interface") mlnx_option(device, option, value);
}

void LinuxCommands::mlnx_option(LinuxDevice& device, const std::string& option,
                                const std::string& value) {
  if (option == "pfc") {
    const std::vector<uint64_t> on = eight(option, value, 1);
    if (on.empty()) return;
    device.pfc = 0;
    for (uint32_t p = 0; p < kPriorities; ++p)
      device.pfc = static_cast<uint8_t>(device.pfc | on[p] << p);
    device.pfc_line = line_;
  } else if (option == "trust") {
    if (value != "dscp" && value != "pcp")
      return refuse(fmt::format("mlnx_qos: trust is dscp or pcp, not '{}'", value));
    device.trust_dscp = value == "dscp";
    device.trust_line = line_;
  } else if (option == "dscp2prio") {
    dscp2prio(device, value);
  } else if (option == "prio_tc" || option == "tcbw" || option == "prio2buffer") {
    const std::vector<uint64_t> numbers = eight(option, value, option == "tcbw" ? 100 : 7);
    if (numbers.empty()) return;
    if (option == "prio2buffer") device.priority_to_buffer.emplace();
    auto& to = option == "prio_tc" ? device.priority_to_class
               : option == "tcbw"  ? device.bandwidth
                                   : *device.priority_to_buffer;
    for (uint32_t i = 0; i < kPriorities; ++i) to[i] = static_cast<uint8_t>(numbers[i]);
    (option == "prio2buffer" ? device.buffer_line : device.class_line) = line_;
  } else if (option == "tsa") {
    const std::vector<std::string> parts = split(value);
    if (parts.size() != kPriorities)
      return refuse("mlnx_qos: tsa takes eight of strict, ets, vendor");
    for (uint32_t i = 0; i < kPriorities; ++i) {
      if (parts[i] != "strict" && parts[i] != "ets" && parts[i] != "vendor")
        return refuse(fmt::format("mlnx_qos: tsa is strict, ets or vendor, not '{}'", parts[i]));
      device.select[i] = parts[i] == "strict" ? LinuxDevice::Select::kStrict
                         : parts[i] == "ets"  ? LinuxDevice::Select::kEts
                                              : LinuxDevice::Select::kVendor;
    }
    device.class_line = line_;
  } else if (option == "buffer_size") {
    const std::vector<uint64_t> sizes = eight(option, value, 1ull << 30);
    std::copy(sizes.begin(), sizes.end(), device.buffer_bytes.begin());
    device.buffer_line = line_;
  } else if (option == "cable_len") {
    const auto metres = number_of(value);
    if (!metres || *metres > 1000) return refuse("mlnx_qos: cable_len takes 0-1000 metres");
    device.cable_metres = static_cast<double>(*metres);
  } else {
    diagnostics_.note(line_, fmt::format("mlnx_qos: {} has no effect here", option));
  }
}

// "set,26,3", "del,26,3" or "flush".
void LinuxCommands::dscp2prio(LinuxDevice& device, const std::string& value) {
  const std::vector<std::string> parts = split(value);
  device.dscp_line = device.trust_line = line_;
  if (parts[0] == "flush") {
    device.dscp_to_priority = {};
    device.trust_dscp = false;
    return;
  }
  const uint64_t none = UINT64_MAX;
  const bool three = parts.size() == 3;
  const uint64_t dscp = three ? number_of(parts[1]).value_or(none) : none;
  const uint64_t priority = three ? number_of(parts[2]).value_or(none) : none;
  if ((parts[0] != "set" && parts[0] != "del") || dscp >= fabric::kDscps || priority >= kPriorities)
    return refuse(fmt::format(
        "mlnx_qos: dscp2prio takes set,DSCP,PRIO or del,DSCP,PRIO or flush, not '{}'", value));
  if (parts[0] == "set") {
    device.dscp_to_priority[dscp] = static_cast<uint8_t>(priority);
  } else {
    device.dscp_to_priority[dscp].reset();
  }
}

// A traffic class is a ToS byte: the DSCP in its upper six bits, ECN in the lower two.
void LinuxCommands::traffic_class(const std::string& value) {
  const auto tos = number_of(value);
  if (!tos || *tos > 255) return refuse(fmt::format("'{}' is no ToS byte", value), "0-255");
  has_adapter_ = true;
  out_.host.adapter.dscp = static_cast<uint8_t>(*tos >> 2);
  out_.lines["host.dscp"] = line_;
  if (*tos == 24 || *tos == 26 || *tos == 46 || *tos == 48)
    diagnostics_.warn(line_, fmt::format("ToS {} is DSCP {}", *tos, *tos >> 2),
                      fmt::format("DSCP {} is ToS {}", *tos, *tos << 2));
}

void LinuxCommands::roce_tos(Words words) {
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "-t") return traffic_class(words[i + 1]);
    if (words[i] != "-d" && words[i] != "-p") break;
  }
  refuse("cma_roce_tos sets nothing without -t", "the form is: cma_roce_tos -d DEV -p PORT -t TOS");
}

void LinuxCommands::roce_mode(Words words) {
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] != "-m") continue;
    has_adapter_ = true;
    if (words[i + 1] == "1")
      diagnostics_.warn(line_,
                        "rdma_cm connects with RoCE v1, which has no IP header: no DSCP, no "
                        "ECN, and routers drop it",
                        "cma_roce_mode -d DEV -p 1 -m 2", 17);
    return;
  }
  refuse("cma_roce_mode sets nothing without -m", "-m 1 is RoCE v1, -m 2 is RoCE v2");
}

void LinuxCommands::write_file(const std::string& value, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash == path.npos ? 0 : slash + 1);
  if (name == "traffic_class") {
    const size_t equals = value.rfind('=');  // "tclass=106" of some releases
    return traffic_class(equals == value.npos ? value : value.substr(equals + 1));
  }
  if (name == "default_roce_tos") return traffic_class(value);
  if (name == "default_roce_mode") {
    if (value.find("v2") == value.npos && value.find("V2") == value.npos)
      diagnostics_.warn(line_,
                        "rdma_cm connects with RoCE v1, which has no IP header: no DSCP, no "
                        "ECN, and routers drop it",
                        "write \"RoCE v2\"", 17);
    return;
  }
  for (std::string_view half : {"roce_np", "roce_rp"})
    if (path.find(fmt::format("/{}/", half)) != path.npos) {
      const bool enable = path.find("/enable/") != path.npos;
      return ecn_file(std::string(half), enable ? "enable/" + name : name, value);
    }
  if (path.find("/cc_params/") != path.npos)
    return ecn_file(name.starts_with("np_") ? "roce_np" : "roce_rp",
                    name.substr(name.starts_with("np_") || name.starts_with("rp_") ? 3 : 0), value);
  refuse(fmt::format("'{}' is no file that sets up RoCE", path),
         "known: .../tc/1/traffic_class, .../default_roce_tos, .../default_roce_mode, "
         ".../ecn/roce_np/NAME, .../ecn/roce_rp/NAME, .../cc_params/NAME");
}

void LinuxCommands::ecn_file(const std::string& half, const std::string& name,
                             const std::string& value) {
  const auto number = number_of(value);
  if (!number || *number > UINT32_MAX)
    return refuse(fmt::format("{}: '{}' is no number", name, value));
  has_adapter_ = true;
  if (name.starts_with("enable/")) {
    // Only the data's priority matters; which one it is may follow in a later line.
    out_.lines[fmt::format("host.{}.{}", half, name)] = line_;
    if (*number == 0) {
      out_.host.adapter.congestion.algorithm = engine::CongestionSettings::kNone;
      out_.lines["host.congestion"] = line_;
    } else {
      out_.host.adapter.congestion.algorithm = engine::CongestionSettings::kDcqcn;
    }
    return;
  }
  const bool receiver = name == "min_time_between_cnps" || name.starts_with("cnp_");
  out_.lines[(receiver ? "host.np." : "host.dcqcn.") + name] = line_;
  congestion_control(name, *number);
}

void LinuxCommands::congestion_control(const std::string& name, uint64_t value) {
  engine::NpSettings& np = out_.host.adapter.congestion.np;
  DcqcnSettings& rp = out_.host.adapter.congestion.dcqcn;
  const auto us = [&] { return microseconds(static_cast<int64_t>(value)); };
  const uint64_t bits = value * 1'000'000;
  const std::map<std::string_view, std::function<void()>> set = {
      {"min_time_between_cnps", [&] { np.min_time_between_cnps = us(); }},
      {"cnp_dscp", [&] { np.cnp_dscp = static_cast<uint8_t>(value % fabric::kDscps); }},
      {"cnp_802p_prio", [&] { np.cnp_802p_prio = static_cast<uint8_t>(value % kPriorities); }},
      {"clamp_tgt_rate", [&] { rp.clamp_tgt_rate = value != 0; }},
      {"clamp_tgt_rate_after_time_inc", [&] { rp.clamp_tgt_rate_after_time_inc = value != 0; }},
      {"rpg_time_reset", [&] { rp.rpg_time_reset = us(); }},
      {"rpg_byte_reset", [&] { rp.rpg_byte_reset = value; }},
      {"rpg_threshold", [&] { rp.rpg_threshold = to32(value); }},
      {"rpg_max_rate", [&] { rp.rpg_max_rate = bits; }},
      {"rpg_ai_rate", [&] { rp.rpg_ai_rate = bits; }},
      {"rpg_hai_rate", [&] { rp.rpg_hai_rate = bits; }},
      {"rpg_gd", [&] { rp.rpg_gd = to32(value); }},
      {"rpg_min_dec_fac", [&] { rp.rpg_min_dec_fac = to32(value); }},
      {"rpg_min_rate", [&] { rp.rpg_min_rate = bits; }},
      {"rate_to_set_on_first_cnp", [&] { rp.rate_to_set_on_first_cnp = bits; }},
      {"rate_reduce_monitor_period", [&] { rp.rate_reduce_monitor_period = us(); }},
      {"initial_alpha_value", [&] { rp.initial_alpha_value = to32(value); }},
      {"dce_tcp_g", [&] { rp.dce_tcp_g = to32(value); }},
      {"dce_tcp_rtt", [&] { rp.dce_tcp_rtt = us(); }}};
  const auto found = set.find(name);
  if (found != set.end()) return found->second();
  std::vector<std::string_view> known;
  for (const auto& [word, action] : set) known.push_back(word);
  const std::string_view nearest = meant_word(name, known);
  refuse(fmt::format("'{}' is no parameter of congestion control", name),
         nearest.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                         : fmt::format("did you mean {}?", nearest));
}

void LinuxCommands::environment(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  const std::string value = equals == assignment.npos ? "" : assignment.substr(equals + 1);
  if (name == "NCCL_IB_TC" || name == "UCX_IB_TRAFFIC_CLASS") return traffic_class(value);
  if (name == "NCCL_IB_SL" || name == "UCX_IB_SL") {
    diagnostics_.note(line_, fmt::format("{} is the 802.1p value of tagged frames; here the "
                                         "traffic class decides",
                                         name));
    return;
  }
  diagnostics_.note(line_, fmt::format("{} has no effect here", name));
}

}  // namespace verbena::scenario
