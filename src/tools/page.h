// One HTML page that needs nothing beside itself: style, script and data are inside.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/text_table.h"

namespace verbena::tools {

// Text between tags and in attributes.
std::string escape_html(std::string_view text);
std::string html_table(const TextTable& table);
// Sentences under a title; `kind` colours them: "good", "bad" or "". Nothing when there are none.
std::string html_words(const char* title, const std::vector<std::string>& lines, const char* kind);
// `body` is HTML; `data` is for the script.
std::string whole_page(const std::string& title, const std::string& body,
                       const nlohmann::ordered_json& data);

}  // namespace verbena::tools
