// Everything that comes from outside is escaped here and nowhere else.
#include "tools/page.h"

#include <fmt/format.h>

#include "tools/page_parts.h"  // made from web/ by the build

namespace verbena::tools {

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_table(const TextTable& table) {
  std::string out = "<div class=\"wide\"><table>\n";
  for (size_t r = 0; r < table.rows().size(); ++r) {
    const char* tag = r == 0 ? "th" : "td";
    out += r == 0 ? "<thead><tr>" : "<tr>";
    for (size_t c = 0; c < table.rows()[r].size(); ++c)
      out += fmt::format("<{0}{1}>{2}</{0}>", tag, c < table.left() ? " class=\"word\"" : "",
                         escape_html(table.rows()[r][c]));
    out += r == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string whole_page(const std::string& title, const std::string& body,
                       const nlohmann::ordered_json& data) {
  // Bytes that are not UTF-8 (a name in a scenario) become U+FFFD; "</script" must not appear.
  std::string json = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  for (char c : json) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{}</main>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n"
      "</body>\n</html>\n",
      escape_html(title), kPageStyle, body, safe, kPageScript);
}

std::string html_words(const char* title, const std::vector<std::string>& lines, const char* kind) {
  if (lines.empty()) return "";
  std::string out = fmt::format("<h2>{}</h2>\n<ul class=\"words\">\n", title);
  for (const std::string& line : lines)
    out += fmt::format("<li class=\"{}\">{}</li>\n", kind, escape_html(line));
  return out + "</ul>\n";
}

}  // namespace verbena::tools
