// [expect]: what must come out, as numbers, bounds and ranges.
#include <charconv>
#include <limits>

#include "scenario/sections.h"

namespace verbena::scenario {
namespace {

std::optional<double> bound_number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// "<= 5", ">= 1", "3..5".
bool take_bounds(std::string_view text, Expectation& to) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::optional<double> least = -kInfinity, most = kInfinity;
  if (text.starts_with("<="))
    most = bound_number(text.substr(2));
  else if (text.starts_with(">="))
    least = bound_number(text.substr(2));
  else if (const size_t dots = text.find(".."); dots != text.npos) {
    least = bound_number(text.substr(0, dots));
    most = bound_number(text.substr(dots + 2));
  } else {
    return false;
  }
  if (!least || !most || !(*least <= *most)) return false;
  to.least = *least;
  to.most = *most;
  return true;
}

bool take(const toml::node& node, Expectation& to) {
  if (const auto flag = node.value_exact<bool>()) {
    to.least = to.most = *flag ? 1 : 0;
    to.text = *flag ? "true" : "false";
    return true;
  }
  if (const auto value = node.is_number() ? node.value<double>() : std::nullopt) {
    to.least = to.most = *value;
    to.text = fmt::format("{}", *value);
    return *value == *value;
  }
  const auto text = node.value_exact<std::string>();
  if (!text) return false;
  to.text = *text;
  return take_bounds(*text, to);
}

}  // namespace

Status read_expectations(Reader& in, const toml::table& root, Scenario& scenario) {
  const toml::node* node = root.get("expect");
  if (node == nullptr) return {};
  const auto table = in.table(*node, "expect");
  if (!table) return tl::unexpected(table.error());
  for (auto&& [key, value] : **table) {
    const std::string path = join_path("expect", key.str());
    Expectation expectation;
    expectation.key = key.str();
    expectation.line = static_cast<int>(value.source().begin.line);
    if (!take(value, expectation))
      return in.error(value.source(), path,
                      "write a number, true, false, \"<= 5\", \">= 1\" or \"3..5\"");
    in.note(path, value.source());
    scenario.expectations.push_back(std::move(expectation));
  }
  return {};
}

}  // namespace verbena::scenario
