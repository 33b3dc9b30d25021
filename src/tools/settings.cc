// A file that does not exist yet must be creatable; %p in a capture's name stands for the process
// id.
#include "tools/settings.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "link/fault_lens.h"

namespace verbena::tools {
namespace {

Result<void> check_writable(const char* variable, const std::string& value, std::string path) {
  if (const size_t at = path.find("%p"); at != path.npos) path.replace(at, 2, "0");
  const auto refuse = [&](int code, const std::string& why) {
    return fail(code, fmt::format("{}={}: cannot write {}: {}", variable, value, path, why));
  };
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return refuse(EISDIR, strerror(EISDIR));
    if (access(path.c_str(), W_OK) != 0) return refuse(errno, strerror(errno));
    return {};
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return refuse(errno, fmt::format("{}: {}", folder, strerror(errno)));
  return {};
}

// "WORD" or "WORD:FILE".
Result<void> check_log(const char* variable, const std::string& value, const std::string& word) {
  if (value == word) return {};
  if (value.rfind(word + ":", 0) != 0 || value.size() == word.size() + 1)
    return fail(EINVAL,
                fmt::format("{}={} is not known; use {} or {}:FILE", variable, value, word, word));
  return check_writable(variable, value, value.substr(word.size() + 1));
}

}  // namespace

Result<void> check_settings(const std::function<const char*(const char*)>& current) {
  const auto value = [&](const char* name) {
    const char* text = current(name);
    return std::string(text != nullptr ? text : "");
  };
  if (const std::string local = value("VERBENA_LOCAL");
      !local.empty() && local != "on" && local != "off" && local != "1" && local != "0")
    return fail(EINVAL, fmt::format("VERBENA_LOCAL={} is not known; use on or off", local));
  if (const std::string fault = value("VERBENA_FAULT"); !fault.empty())
    if (auto plan = link::parse_fault_plan(fault); !plan) return tl::unexpected(plan.error());
  if (const std::string pcap = value("VERBENA_PCAP"); !pcap.empty())
    if (auto good = check_writable("VERBENA_PCAP", pcap, pcap); !good) return good;
  if (const std::string log = value("VERBENA_LOG"); !log.empty())
    if (auto good = check_log("VERBENA_LOG", log, "explain"); !good) return good;
  if (const std::string trace = value("VERBENA_TRACE"); !trace.empty())
    if (auto good = check_log("VERBENA_TRACE", trace, "packets"); !good) return good;
  return {};
}

}  // namespace verbena::tools
