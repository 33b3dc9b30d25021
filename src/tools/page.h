// One HTML page that needs nothing beside itself: style, script and data are inside.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/text_table.h"

namespace verbena::tools {

// Text between tags and in attributes.
std::string escape_html(std::string_view text);
std::string html_table(const TextTable& table);
// `body` is HTML; `data` is for the script.
std::string whole_page(const std::string& title, const std::string& body,
                       const nlohmann::ordered_json& data);

}  // namespace verbena::tools
