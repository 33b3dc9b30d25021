// Who is meant: nodes by name, hosts by number, patterns, and files beside the scenario.
#include <errno.h>

#include <algorithm>
#include <charconv>

#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

constexpr size_t kMostNamed = 100'000;  // in a list, again and again

std::optional<uint32_t> plain_number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

NodeNames::NodeNames(const Topology& topology) : topology_(topology) {
  for (size_t n = 0; n < topology.nodes.size(); ++n)
    numbers_.emplace(topology.nodes[n].name, static_cast<uint32_t>(n));
}

int64_t NodeNames::node(const std::string& name) const {
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  if (const auto host = plain_number(name); host && *host < topology_.hosts) return *host;
  return -1;
}

int64_t NodeNames::host(const std::string& name) const {
  const int64_t found = node(name);
  return found < topology_.hosts ? found : -1;
}

Result<std::vector<uint32_t>> NodeNames::hosts(const std::vector<std::string>& list) const {
  std::vector<uint32_t> hosts;
  for (const std::string& item : list) {
    if (hosts.size() > kMostNamed)
      return fail(EINVAL, fmt::format("more than {} hosts are named", kMostNamed));
    if (const int64_t one = host(item); one >= 0) {
      hosts.push_back(static_cast<uint32_t>(one));
      continue;
    }
    if (item == "all") {
      for (uint32_t h = 0; h < topology_.hosts; ++h) hosts.push_back(h);
      continue;
    }
    const size_t dash = item.find('-');
    const auto first = plain_number(std::string_view(item).substr(0, dash));
    const auto last =
        dash == item.npos ? std::nullopt : plain_number(std::string_view(item).substr(dash + 1));
    if (!first || !last || *last < *first)
      return fail(EINVAL, fmt::format("\"{}\" is no host; {}", item, hint(item, words(false))));
    for (uint32_t n = *first; n <= *last; ++n) {
      const int64_t one = host(fmt::format("{}", n));
      if (one < 0)
        return fail(EINVAL,
                    fmt::format("{} of \"{}\" is no host; there are {}", n, item, topology_.hosts));
      hosts.push_back(static_cast<uint32_t>(one));
    }
  }
  return hosts;
}

std::vector<std::string_view> NodeNames::words(bool switches) const {
  std::vector<std::string_view> words;
  for (const Node& node : topology_.nodes)
    if (node.is_switch == switches) words.emplace_back(node.name);
  return words;
}

bool name_matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

Result<std::vector<std::string_view>> device_names(const Reader& in, const toml::table& table,
                                                   std::string_view section,
                                                   const std::vector<std::string_view>& known,
                                                   const std::vector<std::string_view>& devices) {
  std::vector<std::string_view> found;
  for (auto&& [key, node] : table) {
    const std::string_view name = key.str();
    if (!node.is_table() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const bool any = std::any_of(devices.begin(), devices.end(), [&](std::string_view device) {
      return name_matches(name, device);
    });
    if (!any) {
      std::vector<std::string_view> words = devices;
      words.insert(words.end(), known.begin(), known.end());
      return in.error(
          node.source().begin.line == 0 ? node.source() : key.source(), join_path(section, name),
          fmt::format("no {} and no key has this name; {}", section, hint(name, words)));
    }
    found.push_back(name);
  }
  return found;
}

std::string path_beside(const std::string& scenario_file, const std::string& name) {
  const size_t slash = scenario_file.rfind('/');
  if (name.starts_with('/') || slash == scenario_file.npos) return name;
  return scenario_file.substr(0, slash + 1) + name;
}

}  // namespace verbena::scenario
