// A scenario file from top to bottom: overrides go into the parsed tree first, so that they pass
// the same checks as what is written; then one reader for each section.
#include <errno.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "scenario/schema.h"
#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

constexpr size_t kMostScenario = 16 << 20;
constexpr std::string_view kSections[] = {"scenario", "topology", "link",  "switch", "host",
                                          "flow",     "workload", "event", "expect"};

// The value of an override: TOML where it is, else the text itself: 5, true, [3, 4], 100KB.
bool insert_value(toml::table& table, std::string_view key, const std::string& text) {
  const toml::parse_result parsed = toml::parse(fmt::format("x = {}", text));
  if (parsed && parsed.table().size() == 1)
    if (const toml::node* node = parsed.table().get("x")) {
      table.insert_or_assign(key, *node);  // a copy, which forgets its line
      return true;
    }
  table.insert_or_assign(key, text);
  return true;
}

Result<std::vector<std::string>> path_parts(const std::string& key) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= key.size();) {
    const size_t dot = std::min(key.find('.', at), key.size());
    if (dot == at)
      return fail(EINVAL, fmt::format("--set {}: no key; write SECTION.KEY=VALUE", key));
    parts.push_back(key.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

Status apply_override(toml::table& root, const Override& change) {
  const auto parts = path_parts(change.key);
  if (!parts) return tl::unexpected(parts.error());
  toml::node* at = &root;
  for (size_t i = 0; i < parts->size(); ++i) {
    const std::string& part = (*parts)[i];
    if (toml::array* list = at->as_array()) {
      size_t index = 0;
      const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (code != std::errc() || end != part.data() + part.size() || index >= list->size() ||
          i + 1 == parts->size())
        return fail(EINVAL, fmt::format("--set {}: write the number of the table, 0 to {}, and "
                                        "its key",
                                        change.key, list->size() == 0 ? 0 : list->size() - 1));
      at = list->get(index);
      continue;
    }
    toml::table* table = at->as_table();
    if (table == nullptr)
      return fail(EINVAL,
                  fmt::format("--set {}: {} is a value, not a table", change.key, (*parts)[i - 1]));
    if (i + 1 == parts->size()) {
      insert_value(*table, part, change.value);
      return {};
    }
    if (table->get(part) == nullptr) table->insert_or_assign(part, toml::table{});
    at = table->get(part);
  }
  return {};
}

Status read_scenario_section(Reader& in, const toml::table& root, ScenarioForm& form,
                             Scenario& scenario) {
  if (const toml::node* node = root.get("scenario")) {
    const auto table = in.table(*node, "scenario");
    if (!table) return tl::unexpected(table.error());
    std::vector<BoundKey> bound;
    bind_keys(bound, scenario_keys(), form);
    if (auto good = in.read(**table, "scenario", bound); !good) return good;
  }
  if (form.duration != 0 && form.warm_up >= form.duration)
    return in.error({"scenario.warm_up"},
                    fmt::format("is {}, not before the end at {}", format_time(form.warm_up),
                                format_time(form.duration)));
  scenario.name = form.name;
  if (scenario.name.empty()) {
    const size_t slash = scenario.file.rfind('/');
    scenario.name = scenario.file.substr(slash == std::string::npos ? 0 : slash + 1);
    if (scenario.name.ends_with(".toml")) scenario.name.resize(scenario.name.size() - 5);
  }
  scenario.description = form.description;
  scenario.seed = form.seed;
  scenario.duration = form.duration;
  scenario.warm_up = form.warm_up;
  scenario.sample = form.sample;
  return {};
}

Status known_sections(const Reader& in, const toml::table& root) {
  for (auto&& [key, node] : root)
    if (std::find(std::begin(kSections), std::end(kSections), key.str()) == std::end(kSections))
      return in.error(node.source().begin.line == 0 ? node.source() : key.source(), key.str(),
                      fmt::format("unknown section; {}",
                                  hint(key.str(), {std::begin(kSections), std::end(kSections)})));
  return {};
}

Status something_ends(const Reader& in, const Scenario& scenario) {
  if (scenario.duration != 0) return {};
  const auto endless = std::any_of(scenario.flows.begin(), scenario.flows.end(),
                                   [](const Flow& flow) { return flow.bytes == kEndless; });
  if (endless || scenario.flows.empty())
    return in.error({"scenario.duration"},
                    endless ? "is missing, and a flow is endless; say when the run ends"
                            : "is missing, and there is no flow; say when the run ends");
  return {};
}

Status read_sections(Reader& in, toml::table& root, Scenario& scenario) {
  if (auto good = known_sections(in, root); !good) return good;
  ScenarioForm form;
  if (auto good = read_scenario_section(in, root, form, scenario); !good) return good;
  const bool as_hpcc = form.profile == ScenarioForm::kHpccNs3;
  if (as_hpcc) {  // its links have no gap between frames
    if (root.get("topology") == nullptr) root.insert("topology", toml::table{});
    if (toml::table* topology = root["topology"].as_table()) topology->insert("gap", 0);
  }
  if (auto good = read_topology(in, root, scenario.topology); !good) return good;
  if (auto good = read_switches(in, root, as_hpcc, scenario); !good) return good;
  if (auto good = read_hosts(in, root, as_hpcc, scenario); !good) return good;
  if (auto good = read_traffic(in, root, scenario); !good) return good;
  if (auto good = read_events(in, root, scenario); !good) return good;
  if (auto good = read_expectations(in, root, scenario); !good) return good;
  return something_ends(in, scenario);
}

}  // namespace

Result<Scenario> parse_scenario(const std::string& file, std::string_view text,
                                const std::vector<Override>& overrides) {
  Result<toml::table> parsed = parse_toml(text, file);
  if (!parsed) return tl::unexpected(parsed.error());
  toml::table& root = *parsed;
  for (const Override& change : overrides)
    if (auto good = apply_override(root, change); !good) return tl::unexpected(good.error());
  Scenario scenario;
  scenario.file = file;
  Reader in(file, scenario.lines);
  if (auto good = read_sections(in, root, scenario); !good) return tl::unexpected(good.error());
  return scenario;
}

Result<Scenario> read_scenario(const std::string& file, const std::vector<Override>& overrides) {
  const auto text = read_text_file(file, kMostScenario);
  if (!text) return tl::unexpected(text.error());
  return parse_scenario(file, *text, overrides);
}

}  // namespace verbena::scenario
