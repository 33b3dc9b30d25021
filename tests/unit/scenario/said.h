// Diagnostics as lines of text, for tests that hold a reader to its words.
#pragma once

#include <string>
#include <vector>

#include "scenario/import.h"

namespace verbena::scenario {

// "2 error: WHAT; TO DO" of each.
inline std::vector<std::string> said(const Imported& imported) {
  std::vector<std::string> all;
  for (const Diagnostic& d : imported.diagnostics) {
    std::string text =
        std::to_string(d.line) + " " + std::string(severity_name(d.severity)) + ": " + d.what;
    if (!d.to_do.empty()) text += "; " + d.to_do;
    all.push_back(text);
  }
  return all;
}

// The same without notes.
inline std::vector<std::string> complaints(const Imported& imported) {
  Imported rest = imported;
  std::erase_if(rest.diagnostics,
                [](const Diagnostic& d) { return d.severity == Severity::kNote; });
  return said(rest);
}

}  // namespace verbena::scenario
