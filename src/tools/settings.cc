// A file that does not exist yet must be creatable. The program will have this process's id, so a
// capture's name is what it will be.
#include "tools/settings.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/nearest.h"
#include "host/settings.h"
#include "link/fault_lens.h"
#include "link/pcap_lens.h"
#include "tools/command.h"

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

// All there are, but for what `verbena run` itself sets or a test does (below).
constexpr std::string_view kSettings[] = {
    "VERBENA_CONFIG", "VERBENA_DEVICES", "VERBENA_FAULT", "VERBENA_FAULT_GUARD", "VERBENA_LIB",
    "VERBENA_LID",    "VERBENA_LOCAL",   "VERBENA_LOG",   "VERBENA_PCAP",        "VERBENA_TRACE",
};
constexpr std::string_view kOthers[] = {
    "VERBENA_TREE",    // of verbena run
    "VERBENA_BROKER",  // another helper binary: tests
    "VERBENA_BUILD",  "VERBENA_SANITIZER_RUNTIME", "VERBENA_APPS", "VERBENA_INTEROP",
    "VERBENA_GUEST",  // tests
};
constexpr size_t kSlips = 3;  // letters between a misspelt name and the one that was meant
constexpr size_t kSlipsOfStranger = 2;  // where the name does not begin with ours
constexpr size_t kLongestName = 64;     // of a variable that is looked at
constexpr std::string_view kOurPrefix = "VERBENA_";

// "" when the name is known, or none of our business.
std::string doubt(std::string_view name) {
  if (std::count(std::begin(kOthers), std::end(kOthers), name) != 0) return "";
  const auto [nearest, slips] = nearest_word(name, kSettings);
  const bool ours = name.starts_with(kOurPrefix);
  if (slips == 0 || (!ours && slips > kSlipsOfStranger)) return "";
  if (slips <= kSlips)
    return fmt::format("{} is no setting of Verbena and does nothing; did you mean {}?", name,
                       nearest);
  return fmt::format("{} is no setting of Verbena and does nothing; settings: {}", name,
                     fmt::join(kSettings, ", "));
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

std::vector<std::string> unknown_settings(const char* const* environment) {
  std::vector<std::string> sentences;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.size() > kLongestName) continue;
    std::string sentence = doubt(name);
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

void tell_unknown_settings(const char* command) {
  for (const std::string& sentence : unknown_settings(environ))
    complain(command, "note: " + sentence, 0);
}

}  // namespace verbena::tools
