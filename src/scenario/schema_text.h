// The schema in words, made from the tables of keys: what docs/scenarios.md holds below its prose.
#pragma once

#include <string>

namespace verbena::scenario {

// Markdown: a heading for each section, a table row for each key: name, values, default, meaning.
std::string schema_markdown();

}  // namespace verbena::scenario
