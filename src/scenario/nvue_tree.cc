// Which commands there are is one table: a command is accepted when a row fits, and what fits none
// is refused with the row that comes closest. Words in capitals stand for a list of names or
// numbers. Source: the NVUE reference of Cumulus Linux 5.3 to 5.14, "QoS" and "Adaptive Routing".
#include "scenario/nvue_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/nearest.h"

namespace verbena::scenario {
namespace {

using Words = std::vector<std::string>;

struct Row {
  std::string_view form;
  std::string_view values;   // "" none; choices "a|b"; a range "0-7"; BYTES, RATE, SWITCH, NAME
  std::string_view nothing;  // why it has no effect here; "" when it has
};

constexpr std::string_view kAlphas =
    "alpha_0|alpha_1_128|alpha_1_64|alpha_1_32|alpha_1_16|alpha_1_8|alpha_1_4|alpha_1_2|alpha_1|"
    "alpha_2|alpha_4|alpha_8|alpha_16|alpha_32|alpha_64|alpha_infinity";
constexpr std::string_view kOnePool =
    "the simulated switch has one shared pool; thresholds decide who gets it";
constexpr std::string_view kNoShaper = "ports and queues here send at line rate";
constexpr std::string_view kUnicast = "only unicast is simulated";
constexpr std::string_view kNoPcpOut =
    "frames keep their 802.1p value here; the next hop's trust "
    "of it cannot be shown";
constexpr std::string_view kRoceModes = "lossless|lossy|lossless-single-ipool|lossy-multi-tc";

constexpr Row kRows[] = {
    {"qos roce", "", ""},
    {"qos roce enable", "SWITCH", ""},
    {"qos roce state", "SWITCH", ""},
    {"qos roce mode", kRoceModes, ""},
    {"qos roce cable-length", "1-100000", ""},
    {"qos congestion-control NAME traffic-class TC min-threshold", "BYTES", ""},
    {"qos congestion-control NAME traffic-class TC max-threshold", "BYTES", ""},
    {"qos congestion-control NAME traffic-class TC probability", "0-100", ""},
    {"qos congestion-control NAME traffic-class TC ecn", "SWITCH", ""},
    {"qos congestion-control NAME traffic-class TC red", "SWITCH", ""},
    {"qos pfc NAME switch-priority SP", "", ""},
    {"qos pfc NAME port-buffer", "BYTES", ""},
    {"qos pfc NAME xoff-threshold", "BYTES", ""},
    {"qos pfc NAME xon-threshold", "BYTES", ""},
    {"qos pfc NAME cable-length", "1-100000", ""},
    {"qos pfc NAME tx", "SWITCH", ""},
    {"qos pfc NAME rx", "SWITCH", ""},
    {"qos pfc NAME small-packet-probability", "0-100",
     "headroom here counts every packet as the worst"},
    {"qos link-pause NAME port-buffer", "BYTES", ""},
    {"qos link-pause NAME xoff-threshold", "BYTES", ""},
    {"qos link-pause NAME xon-threshold", "BYTES", ""},
    {"qos link-pause NAME cable-length", "1-100000", ""},
    {"qos link-pause NAME tx", "SWITCH", ""},
    {"qos link-pause NAME rx", "SWITCH", ""},
    {"qos pfc-watchdog polling-interval", "100-5000", ""},
    {"qos pfc-watchdog robustness", "1-1000", ""},
    {"qos mapping NAME trust", "l2|l3|both|port", ""},
    {"qos mapping NAME port-default-sp", "0-7", ""},
    {"qos mapping NAME pcp PCP switch-priority", "0-7", ""},
    {"qos mapping NAME dscp DSCP switch-priority", "0-7", ""},
    {"qos remark NAME rewrite", "l2|l3|both", ""},
    {"qos remark NAME switch-priority SP dscp", "0-63", ""},
    {"qos remark NAME switch-priority SP pcp", "0-7", kNoPcpOut},
    {"qos egress-queue-mapping NAME switch-priority SP traffic-class", "0-7", ""},
    {"qos egress-scheduler NAME traffic-class TC mode", "dwrr|strict", ""},
    {"qos egress-scheduler NAME traffic-class TC bw-percent", "0-100", ""},
    {"qos egress-shaper NAME traffic-class TC min-rate", "0-2147483647", kNoShaper},
    {"qos egress-shaper NAME traffic-class TC max-rate", "0-2147483647", kNoShaper},
    {"qos egress-shaper NAME port-max-rate", "0-2147483647", kNoShaper},
    {"qos traffic-pool NAME switch-priority SP", "", kOnePool},
    {"qos traffic-pool NAME memory-percent", "1-100", kOnePool},
    {"qos advance-buffer-config NAME ingress-pool NAME memory-percent", "0-100", kOnePool},
    {"qos advance-buffer-config NAME ingress-pool NAME mode", "static|dynamic", kOnePool},
    {"qos advance-buffer-config NAME ingress-pool NAME infinite", "true|false", kOnePool},
    {"qos advance-buffer-config NAME egress-pool NAME memory-percent", "0-100", kOnePool},
    {"qos advance-buffer-config NAME egress-pool NAME mode", "static|dynamic", kOnePool},
    {"qos advance-buffer-config NAME egress-pool NAME infinite", "true|false", kOnePool},
    {"qos advance-buffer-config NAME ingress-lossless-buffer shared-alpha", kAlphas, ""},
    {"qos advance-buffer-config NAME ingress-lossless-buffer shared-bytes", "BYTES", ""},
    {"qos advance-buffer-config NAME ingress-lossless-buffer service-pool", "0-15", kOnePool},
    {"qos advance-buffer-config NAME ingress-lossy-buffer priority-group NAME shared-alpha",
     kAlphas, ""},
    {"qos advance-buffer-config NAME ingress-lossy-buffer priority-group NAME shared-bytes",
     "BYTES", ""},
    {"qos advance-buffer-config NAME ingress-lossy-buffer priority-group NAME reserved", "BYTES",
     ""},
    {"qos advance-buffer-config NAME ingress-lossy-buffer priority-group NAME service-pool", "0-15",
     kOnePool},
    {"qos advance-buffer-config NAME egress-lossy-buffer traffic-class TC shared-alpha", kAlphas,
     ""},
    {"qos advance-buffer-config NAME egress-lossy-buffer traffic-class TC shared-bytes", "BYTES",
     ""},
    {"qos advance-buffer-config NAME egress-lossy-buffer traffic-class TC reserved", "BYTES",
     kOnePool},
    {"qos advance-buffer-config NAME egress-lossy-buffer traffic-class TC service-pool", "0-15",
     kOnePool},
    {"qos advance-buffer-config NAME egress-lossy-buffer multicast-port shared-bytes", "BYTES",
     kUnicast},
    {"qos advance-buffer-config NAME egress-lossy-buffer multicast-switch-priority SP "
     "shared-alpha",
     kAlphas, kUnicast},
    {"qos advance-buffer-config NAME egress-lossless-buffer shared-alpha", kAlphas,
     "lossless queues have no egress threshold here"},
    {"qos advance-buffer-config NAME egress-lossless-buffer shared-bytes", "BYTES",
     "lossless queues have no egress threshold here"},
    {"qos advance-buffer-config NAME egress-lossless-buffer service-pool", "0-15", kOnePool},
    {"interface IF qos roce mode", kRoceModes, ""},
    {"interface IF qos pfc profile", "NAME", ""},
    {"interface IF qos link-pause profile", "NAME", ""},
    {"interface IF qos congestion-control profile", "NAME", ""},
    {"interface IF qos mapping profile", "NAME", ""},
    {"interface IF qos remark profile", "NAME", ""},
    {"interface IF qos egress-scheduler profile", "NAME", ""},
    {"interface IF qos egress-shaper profile", "NAME", kNoShaper},
    {"interface IF qos pfc-watchdog state", "SWITCH", ""},
    {"interface IF qos ecn min", "BYTES", ""},
    {"interface IF qos ecn max", "BYTES", ""},
    {"interface IF link mtu", "552-9216", ""},
    {"interface IF link speed", "RATE", "links have the scenario's rates"},
    {"interface IF router adaptive-routing enable", "SWITCH",
     "it is one setting of the whole switch here, as 'router adaptive-routing enable' says"},
    {"interface IF router adaptive-routing link-utilization-threshold", "1-100", ""},
    {"router adaptive-routing enable", "SWITCH", ""},
    {"router adaptive-routing state", "SWITCH", ""},
    {"router adaptive-routing profile", "NAME", "the grades are those of the documents here"},
    {"router adaptive-routing link-utilization-threshold", "SWITCH", ""},
};

// What a word in capitals takes, and how many of them: names, or numbers up to `most`.
struct Capture {
  std::string_view word;
  uint32_t most;
  std::string_view takes;
};
constexpr Capture kCaptures[] = {
    {"TC", 7, "traffic classes 0-7"}, {"SP", 7, "switch priorities 0-7"},
    {"PCP", 7, "802.1p values 0-7"},  {"DSCP", 63, "DSCPs 0-63"},
    {"NAME", 0, "one name"},          {"IF", 0, "interfaces, such as swp1 or swp1-4,swp7"},
};
const Capture* capture_of(std::string_view word) {
  for (const Capture& capture : kCaptures)
    if (capture.word == word) return &capture;
  return nullptr;
}

// The names that one word stands for in the place of `capture`; empty: it fits not.
Words expanded(const Capture& capture, const std::string& word) {
  if (capture.word == "NAME") return word.find('/') == word.npos ? Words{word} : Words{};
  if (capture.word == "IF") return interface_list(word).value_or(Words{});
  Words names;
  for (uint32_t n : number_list(word, capture.most).value_or(std::vector<uint32_t>{}))
    names.push_back(fmt::format("{}", n));
  return names;
}

Words form_of(const Row& row) {
  return words_of(row.form);
}
std::string shown(const Row& row) {
  std::string text(row.form);
  if (!row.values.empty()) text += fmt::format(" {}", row.values);
  return text;
}

// How many letters, or words left out or too many, separate the words from a row.
size_t distance(const Words& form, const Words& words) {
  size_t sum = 0;
  for (size_t i = 0; i < std::max(form.size(), words.size()); ++i) {
    if (i >= form.size() || i >= words.size()) {
      sum += 3;
    } else if (capture_of(form[i]) == nullptr) {
      sum += spelling_distance(form[i], words[i]);
    }
  }
  return sum;
}

const Row& nearest_row(const Words& words) {
  const Row* nearest = &kRows[0];
  size_t least = std::numeric_limits<size_t>::max();
  for (const Row& row : kRows) {
    Words form = form_of(row);
    if (!row.values.empty()) form.emplace_back("NAME");
    if (const size_t away = distance(form, words); away < least) {
      least = away;
      nearest = &row;
    }
  }
  return *nearest;
}

// The value in its one spelling; nothing: the row does not take it.
std::optional<std::string> value_of(std::string_view values, const std::string& word) {
  if (values == "NAME") return word.find('/') == word.npos ? std::optional(word) : std::nullopt;
  if (values == "SWITCH") {
    for (std::string_view on : {"on", "enable", "enabled"})
      if (word == on) return "on";
    for (std::string_view off : {"off", "disable", "disabled"})
      if (word == off) return "off";
    return std::nullopt;
  }
  if (values == "BYTES") {
    const auto bytes = bytes_of(word);
    return bytes && *bytes <= UINT32_MAX ? std::optional(fmt::format("{}", *bytes)) : std::nullopt;
  }
  if (values == "RATE") {
    const auto rate = word == "auto" ? std::nullopt : rate_of(word);
    return rate ? std::optional(fmt::format("{}", *rate)) : std::nullopt;
  }
  if (const size_t dash = values.find('-'); values[0] >= '0' && values[0] <= '9') {
    const auto number = number_of(word);
    if (!number || *number < *number_of(values.substr(0, dash)) ||
        *number > *number_of(values.substr(dash + 1)))
      return std::nullopt;
    return fmt::format("{}", *number);
  }
  for (size_t from = 0; from < values.size();) {
    const size_t end = std::min(values.find('|', from), values.size());
    if (values.substr(from, end - from) == word) return word;
    from = end + 1;
  }
  return std::nullopt;
}

// Whether the literal words of the row's form stand at their places in the first words.
bool literals_fit(const Words& form, const Words& words, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (capture_of(form[i]) == nullptr && form[i] != words[i]) return false;
  return true;
}

// Every path of the first `count` words of `form`; empty, and `wrong` the place, when a list is
// none.
Words paths(const Words& form, const Words& words, size_t count, size_t& wrong) {
  Words all = {""};
  for (size_t i = 0; i < count; ++i) {
    const Capture* capture = capture_of(form[i]);
    const Words names = capture != nullptr ? expanded(*capture, words[i]) : Words{form[i]};
    if (names.empty()) {
      wrong = i;
      return {};
    }
    Words longer;
    for (const std::string& path : all)
      for (const std::string& name : names)
        longer.push_back(path.empty() ? name : path + "/" + name);
    all = std::move(longer);
  }
  return all;
}

// Operators' spellings that the reference does not have, turned into the rows above: more than one
// command where a line sets more than one thing.
std::vector<Words> respelled(const Words& words) {
  const auto at = [&](size_t i) { return i < words.size() ? std::string_view(words[i]) : ""; };
  if (at(0) == "interface" && at(2) == "qos") {
    if (at(3) == "pfc-watchdog" && words.size() == 5 && value_of("SWITCH", words[4]))
      return {{words[0], words[1], words[2], words[3], "state", words[4]}};
    if (at(3) == "ecn" && at(4) == "threshold" && words.size() >= 7 && words.size() % 2 == 1) {
      std::vector<Words> commands;
      for (size_t i = 5; i + 1 < words.size(); i += 2)
        commands.push_back({words[0], words[1], words[2], words[3], words[i], words[i + 1]});
      return commands;
    }
  }
  if (at(0) == "qos" && at(1) == "roce" && words.size() == 3 && value_of("SWITCH", words[2]))
    return {{words[0], words[1], "state", words[2]}};
  return {words};
}

// Whether the words are about something that is no business of a fabric's queues.
bool is_other(const Words& words) {
  if (words.empty()) return false;
  if (words[0] == "interface")
    return words.size() < 3 ||
           (words[2] != "qos" &&
            !(words[2] == "link" && words.size() > 3 &&
              (words[3] == "mtu" || words[3] == "speed")) &&
            !(words[2] == "router" && words.size() > 3 && words[3] == "adaptive-routing"));
  if (words[0] == "router") return words.size() < 2 || words[1] != "adaptive-routing";
  for (std::string_view known : {"acl", "bridge", "evpn", "mlag", "nve", "platform", "service",
                                 "system", "vrf", "maintenance", "header"})
    if (words[0] == known) return true;
  return false;
}

std::string joined(const Words& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

void NvueTree::command(int line, const Words& words, Diagnostics& diagnostics) {
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "config" || verb == "show" || verb == "action") return;
  if (verb != "set" && verb != "unset") {
    diagnostics.error(line, fmt::format("'nv {}' is no command that sets anything", joined(words)),
                      "commands: nv set ..., nv unset ...");
    return;
  }
  const Words rest(words.begin() + 1, words.end());
  if (is_other(rest)) {
    other_lines_.push_back(line);
    return;
  }
  for (const Words& one : respelled(rest))
    verb == "set" ? set(line, one, diagnostics) : unset(line, one, diagnostics);
}

void NvueTree::set(int line, const Words& words, Diagnostics& diagnostics) {
  for (const Row& row : kRows) {
    const Words form = form_of(row);
    const size_t all = form.size() + (row.values.empty() ? 0 : 1);
    // A branch that is named without a value sets nothing, but names the profile.
    if (words.size() < all && words.size() <= form.size() && words.size() > 1 &&
        literals_fit(form, words, words.size())) {
      diagnostics.warn(line, fmt::format("'nv set {}' sets nothing by itself", joined(words)),
                       fmt::format("one form that does: nv set {}", shown(row)));
      return;
    }
    if (words.size() != all || !literals_fit(form, words, form.size())) continue;
    size_t wrong = 0;
    const Words where = paths(form, words, form.size(), wrong);
    if (where.empty()) {
      diagnostics.error(line,
                        fmt::format("'{}' is not {}", words[wrong], capture_of(form[wrong])->takes),
                        fmt::format("the form is: nv set {}", shown(row)));
      return;
    }
    std::string value;
    if (!row.values.empty()) {
      const auto taken = value_of(row.values, words.back());
      if (!taken) {
        diagnostics.error(
            line, fmt::format("{} takes {}, not '{}'", form.back(), row.values, words.back()),
            fmt::format("the form is: nv set {}", shown(row)));
        return;
      }
      value = *taken;
    }
    for (const std::string& path : where) leaves_[path] = {value, line};
    if (!row.nothing.empty())
      diagnostics.note(
          line, fmt::format("'nv set {}' has no effect here: {}", joined(words), row.nothing));
    return;
  }
  diagnostics.error(line, fmt::format("'nv set {}' is unknown", joined(words)),
                    fmt::format("the nearest known form: nv set {}", shown(nearest_row(words))));
}

void NvueTree::unset(int line, const Words& words, Diagnostics& diagnostics) {
  bool known = false;
  for (const Row& row : kRows) {
    const Words form = form_of(row);
    const size_t count = std::min(form.size(), words.size());
    if (words.size() > form.size() + (row.values.empty() ? 0 : 1) || count == 0 ||
        !literals_fit(form, words, count))
      continue;
    size_t wrong = 0;
    for (const std::string& path : paths(form, words, count, wrong)) {
      known = true;
      std::erase_if(leaves_, [&](const auto& leaf) {
        return leaf.first == path || leaf.first.starts_with(path + "/");
      });
    }
  }
  if (!known)
    diagnostics.error(line, fmt::format("'nv unset {}' is unknown", joined(words)),
                      fmt::format("the nearest known form: nv set {}", shown(nearest_row(words))));
}

const NvueLeaf* NvueTree::find(const std::string& path) const {
  const auto found = leaves_.find(path);
  return found == leaves_.end() ? nullptr : &found->second;
}

std::vector<std::string> NvueTree::below(const std::string& path) const {
  std::vector<std::string> names;
  const std::string begin = path + "/";
  for (auto at = leaves_.lower_bound(begin); at != leaves_.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    std::string name =
        at->first.substr(begin.size(), at->first.find('/', begin.size()) - begin.size());
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return names;
}

int NvueTree::line_of(const std::string& path) const {
  if (const NvueLeaf* leaf = find(path)) return leaf->line;
  const auto at = leaves_.lower_bound(path + "/");
  return at != leaves_.end() && at->first.starts_with(path + "/") ? at->second.line : 0;
}

}  // namespace verbena::scenario
