// A file that does not exist yet must be creatable. The program will have this process's id, so a
// capture's name is what it will be.
#include "tools/settings.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "host/settings.h"
#include "link/fault_lens.h"
#include "link/pcap_lens.h"

namespace verbena::tools {
namespace {

Result<void> check_writable(const char* variable, const std::string& value,
                            const std::string& path) {
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

Result<void> check_log(const char* variable, const std::string& value, std::string_view word) {
  const auto target = host::log_target(variable, value.c_str(), word);
  if (!target) return tl::unexpected(target.error());
  if (target->kind != host::LogTarget::Kind::kFile) return {};
  return check_writable(variable, value, target->path);
}

}  // namespace

Result<void> check_settings(const std::function<const char*(const char*)>& current) {
  const auto value = [&](const char* name) {
    const char* text = current(name);
    return std::string(text != nullptr ? text : "");
  };
  for (const char* name : {"VERBENA_LOCAL", "VERBENA_FAULT_GUARD"})
    if (auto on = host::switched_on(name, current(name)); !on) return tl::unexpected(on.error());
  if (const std::string fault = value("VERBENA_FAULT"); !fault.empty())
    if (auto plan = link::parse_fault_plan(fault); !plan) return tl::unexpected(plan.error());
  if (const std::string pcap = value("VERBENA_PCAP"); !pcap.empty())
    if (auto good = check_writable("VERBENA_PCAP", pcap, link::capture_path(pcap)); !good)
      return good;
  if (auto good = check_log("VERBENA_LOG", value("VERBENA_LOG"), "explain"); !good) return good;
  return check_log("VERBENA_TRACE", value("VERBENA_TRACE"), "packets");
}

}  // namespace verbena::tools
