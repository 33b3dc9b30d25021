// What operators get wrong, found before a packet runs: each rule looks at a scenario's settings,
// routes and flows, and says what is wrong, what will happen, and what to change. The rules, their
// numbers and where the mistakes were reported: docs/fabric-operators.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/import.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

struct Finding {
  int rule = 0;
  Severity severity = Severity::kWarning;
  int line = 0;                     // of the scenario; 0: nothing there says it
  std::vector<std::string> places;  // "s0", "h3"; empty: the whole fabric
  std::string what, then, fix;
};

class LintView;
class Findings;

struct LintRule {
  int number = 0;
  std::string_view name;      // "pfc-without-headroom"
  std::string_view about;     // one line
  std::string_view evidence;  // where it was reported
  void (*check)(const LintView& view, Findings& findings);
};
std::span<const LintRule> lint_rules();

// By line, then by rule. Findings of one rule that say the same of several places are one.
std::vector<Finding> lint(const Scenario& scenario);

// "FILE:LINE: error: PLACES: WHAT [rule NAME]", "  then: ...", "  fix: ...", each a line.
std::string text_of(const std::string& file, const Finding& finding);

}  // namespace verbena::scenario
