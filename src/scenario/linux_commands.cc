// dcb's objects here; mlnx_qos and what is written into files are in linux_files.cc.
#include "scenario/linux_commands.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::scenario {

using fabric::kPriorities;

namespace {

constexpr std::string_view kCommands[] = {"dcb",    "mlnx_qos", "cma_roce_tos", "cma_roce_mode",
                                          "ip",     "ethtool",  "echo",         "export",
                                          "sysctl", "modprobe", "ibv_devinfo",  "show_gids"};
constexpr uint64_t kMostBuffer = 1ull << 30;

bool is_variable(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != word.npos && equals > 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<ptrdiff_t>(equals), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

}  // namespace

bool is_linux_setting(std::string_view word) {
  return std::find(std::begin(kCommands), std::end(kCommands), word) != std::end(kCommands) ||
         is_variable(word);
}

void LinuxCommands::refuse(std::string what, std::string to_do) {
  diagnostics_.error(line_, std::move(what), std::move(to_do));
}

void LinuxCommands::command(int line, const std::vector<std::string>& all) {
  line_ = line;
  const Words words = Words(all).subspan(1);
  const std::string& name = all[0];
  const auto no_effect = [&](std::string_view why) {
    diagnostics_.note(line, fmt::format("'{}' has no effect here: {}", fmt::join(all, " "), why));
  };
  if (name == "dcb") {
    dcb(words);
  } else if (name == "mlnx_qos") {
    mlnx_qos(words);
  } else if (name == "cma_roce_tos") {
    roce_tos(words);
  } else if (name == "cma_roce_mode") {
    roce_mode(words);
  } else if (name == "ip") {
    ip_link(words);
  } else if (name == "ethtool") {
    no_effect("only PFC is simulated at hosts, not global pause");
  } else if (name == "echo") {
    const size_t arrow = static_cast<size_t>(
        std::find_if(words.begin(), words.end(),
                     [](const std::string& w) { return w.starts_with('>') || w == "|"; }) -
        words.begin());
    if (arrow == 0 || arrow >= words.size())
      return refuse("echo without a file", "the form is: echo VALUE > /sys/...");
    const std::string& last = words.back();
    std::string value;
    for (const std::string& word : words.first(arrow)) value += (value.empty() ? "" : " ") + word;
    write_file(value, last.substr(std::min(last.find_first_not_of('>'), last.size())));
  } else if (name == "export" && !words.empty()) {
    for (const std::string& assignment : words) environment(assignment);
  } else if (is_variable(name)) {
    environment(name);
  } else if (is_linux_setting(name)) {
    no_effect("it does not set how packets are queued");
  } else {
    refuse(fmt::format("'{}' is no command that sets up RoCE", name),
           fmt::format("known: {}", fmt::join(kCommands, ", ")));
  }
}

std::vector<std::pair<uint32_t, std::string>> LinuxCommands::pairs(Words values, uint32_t most) {
  std::vector<std::pair<uint32_t, std::string>> all;
  for (const std::string& word : values) {
    const size_t colon = word.find(':');
    const std::string_view key = std::string_view(word).substr(0, colon);
    const auto number = number_of(key);
    if (colon == word.npos || (key != "all" && (!number || *number > most))) {
      refuse(fmt::format("'{}' is no mapping", word),
             fmt::format("mappings are KEY:VALUE with a key of 0-{} or all", most));
      return {};
    }
    const std::string value = word.substr(colon + 1);
    if (key == "all") {
      for (uint32_t i = 0; i <= most; ++i) all.emplace_back(i, value);
    } else {
      all.emplace_back(static_cast<uint32_t>(*number), value);
    }
  }
  return all;
}

// dcb [options] OBJECT set|add|replace|del|flush|show dev DEV [KEYWORD VALUES...]...
void LinuxCommands::dcb(Words words) {
  while (!words.empty() && words[0].starts_with('-')) words = words.subspan(1);
  if (words.size() < 2)
    return refuse("dcb without an object and a command",
                  "for example: dcb pfc set dev eth0 prio-pfc 3:on");
  const std::string &object = words[0], &verb = words[1];
  if (verb == "show" || verb == "help") return;
  if (words.size() < 4 || words[2] != "dev")
    return refuse(fmt::format("dcb {} {} without a device", object, verb),
                  fmt::format("the form is: dcb {} {} dev DEV ...", object, verb));
  dcb_object(object, verb, devices_[words[3]], words.subspan(4));
}

void LinuxCommands::dcb_object(const std::string& object, const std::string& verb,
                               LinuxDevice& device, Words words) {
  static const std::map<std::string_view, std::string_view> kKeywords = {
      {"pfc", "prio-pfc delay macsec-bypass"},
      {"ets", "willing tc-tsa reco-tc-tsa tc-bw pg-bw reco-tc-bw prio-tc reco-prio-tc"},
      {"buffer", "prio-buffer buffer-size"},
      {"app",
       "dscp-prio pcp-prio default-prio ethtype-prio stream-port-prio dgram-port-prio "
       "port-prio"},
      {"apptrust", "order"},
      {"rewr", "prio-dscp prio-pcp"},
      {"maxrate", "tc-maxrate"},
      {"dcbx", "host lld-managed cee ieee static"}};
  const auto known = kKeywords.find(object);
  if (known == kKeywords.end())
    return refuse(fmt::format("dcb has no object '{}'", object),
                  "objects: app, apptrust, buffer, dcbx, ets, maxrate, pfc, rewr");
  const std::vector<std::string> keywords = words_of(known->second);
  const auto is_keyword = [&](const std::string& word) {
    return std::find(keywords.begin(), keywords.end(), word) != keywords.end();
  };
  if (object == "app" && verb == "flush" && words.empty()) device.dscp_to_priority = {};
  while (!words.empty()) {
    if (!is_keyword(words[0])) {
      return refuse(fmt::format("dcb {} takes no '{}'", object, words[0]),
                    fmt::format("keywords: {}", fmt::join(keywords, ", ")));
    }
    size_t end = 1;
    while (end < words.size() && !is_keyword(words[end])) ++end;
    const std::string& word = words[0];
    const Words values = words.subspan(1, end - 1);
    bool used = false;
    if (object == "pfc") used = dcb_pfc(device, word, values);
    if (object == "ets") used = dcb_ets(device, word, values);
    if (object == "buffer") used = dcb_buffer(device, word, values);
    if (object == "app" || object == "apptrust" || object == "rewr")
      used = dcb_app(object == "app" ? verb : object, device, word, values);
    if (!used) diagnostics_.note(line_, fmt::format("dcb {}: {} has no effect here", object, word));
    words = words.subspan(end);
  }
}

bool LinuxCommands::dcb_pfc(LinuxDevice& device, const std::string& word, Words values) {
  if (word == "delay") {
    constexpr uint64_t kMost = 65'535;
    const uint64_t bits = values.size() == 1 ? number_of(values[0]).value_or(kMost + 1) : kMost + 1;
    if (bits > kMost) refuse("dcb pfc: delay takes 0-65535 bits");
    device.pfc_delay_bits = bits > kMost ? 0 : bits;
    return true;
  }
  if (word != "prio-pfc") return false;
  for (const auto& [priority, value] : pairs(values, kPriorities - 1)) {
    if (value != "on" && value != "off") {
      refuse(fmt::format("dcb pfc: {} is on or off, not '{}'", priority, value));
      return true;
    }
    const auto bit = static_cast<uint8_t>(1u << priority);
    device.pfc = static_cast<uint8_t>(value == "on" ? device.pfc | bit : device.pfc & ~bit);
  }
  device.pfc_line = line_;
  return true;
}

bool LinuxCommands::dcb_ets(LinuxDevice& device, const std::string& word, Words values) {
  if (word != "tc-tsa" && word != "tc-bw" && word != "prio-tc") return false;
  for (const auto& [key, value] : pairs(values, kPriorities - 1)) {
    const auto number = number_of(value);
    if (word == "tc-tsa") {
      const bool known = value == "strict" || value == "ets" || value == "vendor";
      if (!known)
        refuse(fmt::format("dcb ets: tc-tsa {} is not simulated", value), "use strict or ets");
      device.select[key] = value == "strict" ? LinuxDevice::Select::kStrict
                           : value == "ets"  ? LinuxDevice::Select::kEts
                                             : LinuxDevice::Select::kVendor;
    } else if (!number || *number > (word == "tc-bw" ? 100u : kPriorities - 1)) {
      refuse(fmt::format("dcb ets: {} {}:{} is out of range", word, key, value),
             word == "tc-bw" ? "0-100 percent" : "traffic classes 0-7");
    } else {
      (word == "tc-bw" ? device.bandwidth : device.priority_to_class)[key] =
          static_cast<uint8_t>(*number);
    }
  }
  device.class_line = line_;
  return true;
}

bool LinuxCommands::dcb_buffer(LinuxDevice& device, const std::string& word, Words values) {
  device.buffer_line = line_;
  if (word == "prio-buffer" && !device.priority_to_buffer) device.priority_to_buffer.emplace();
  for (const auto& [key, value] : pairs(values, kPriorities - 1)) {
    if (word == "buffer-size") {
      const auto bytes = bytes_of(value);
      if (!bytes || *bytes > kMostBuffer) refuse(fmt::format("dcb buffer: '{}' is no size", value));
      device.buffer_bytes[key] = bytes && *bytes <= kMostBuffer ? *bytes : 0;
      continue;
    }
    const auto number = number_of(value);
    if (!number || *number >= kPriorities)
      refuse(fmt::format("dcb buffer: there is no buffer {}", value), "buffers are 0-7");
    else
      (*device.priority_to_buffer)[key] = static_cast<uint8_t>(*number);
  }
  return true;
}

// `verb` is app's, or "apptrust" or "rewr".
bool LinuxCommands::dcb_app(const std::string& verb, LinuxDevice& device, const std::string& word,
                            Words values) {
  if (verb == "apptrust") {
    device.trust_dscp = std::find(values.begin(), values.end(), "dscp") != values.end();
    device.trust_line = line_;
    return true;
  }
  if (word == "default-prio" && values.size() == 1 && verb != "del" && verb != "flush") {
    const auto priority = number_of(values[0]);
    if (!priority || *priority >= kPriorities) refuse("dcb app: default-prio takes 0-7");
    device.default_priority = static_cast<uint8_t>(priority.value_or(0) % kPriorities);
    return true;
  }
  if (word == "prio-dscp") {
    for (const auto& [priority, value] : pairs(values, kPriorities - 1))
      if (const auto dscp = number_of(value); dscp && *dscp < fabric::kDscps)
        device.remark[priority] = static_cast<uint8_t>(*dscp);
    return true;
  }
  if (word != "dscp-prio") return false;
  for (const auto& [dscp, value] : pairs(values, fabric::kDscps - 1)) {
    const auto priority = number_of(value);
    if (!priority || *priority >= kPriorities)
      refuse(fmt::format("dcb app: dscp-prio {}:{} is out of range", dscp, value),
             "priorities are 0-7");
    else if (verb == "del")
      device.dscp_to_priority[dscp].reset();
    else
      device.dscp_to_priority[dscp] = static_cast<uint8_t>(*priority);
  }
  if (verb == "flush") device.dscp_to_priority = {};
  // Drivers trust the DSCP as soon as one rule is there, and the 802.1p value when none is left.
  device.trust_dscp = std::any_of(device.dscp_to_priority.begin(), device.dscp_to_priority.end(),
                                  [](const auto& set) { return set.has_value(); });
  device.trust_line = device.dscp_line = line_;
  return true;
}

void LinuxCommands::ip_link(Words words) {
  const auto after = [&](std::string_view word) -> const std::string* {
    const auto found = std::find(words.begin(), words.end(), word);
    return found == words.end() || found + 1 == words.end() ? nullptr : &*(found + 1);
  };
  const std::string* mtu = after("mtu");
  if (words.size() < 3 || words[0] != "link" || mtu == nullptr) {
    diagnostics_.note(line_, fmt::format("'ip {}' has no effect here", fmt::join(words, " ")));
    return;
  }
  const std::string* named = after("dev");
  const auto bytes = number_of(*mtu);
  if (!bytes || *bytes < 256 || *bytes > 65'535) return refuse("ip link: mtu takes 256-65535");
  LinuxDevice& device = devices_[named != nullptr ? *named : words[2]];
  device.mtu = static_cast<uint32_t>(*bytes);
  device.mtu_line = line_;
}

}  // namespace verbena::scenario
