// Lists in these variables are separated by ':' (LD_PRELOAD also takes spaces, which a path of ours
// must therefore not need).
#include "tools/run_environment.h"

namespace verbena::tools {
namespace {

std::string in_front(const std::string& ours, const char* current) {
  if (current == nullptr || current[0] == '\0') return ours;
  const std::string list = current;
  if (list == ours || list.rfind(ours + ":", 0) == 0) return list;
  return ours + ":" + list;
}

}  // namespace

Environment run_environment(const RunSetup& setup,
                            const std::function<const char*(const char*)>& current) {
  Environment changes;
  changes.emplace_back("LD_LIBRARY_PATH", in_front(setup.folder, current("LD_LIBRARY_PATH")));
  std::string preload;
  const auto add = [&preload](const std::string& path) {
    preload += (preload.empty() ? "" : ":") + path;
  };
  if (setup.shim) add(setup.folder + "/libverbena-shim.so");
  if (!setup.preload.empty()) {
    add(setup.preload);
    add(setup.folder + "/libverbena-sockets.so");  // behind it: it hands on to this one
  }
  if (!preload.empty())
    changes.emplace_back("LD_PRELOAD", in_front(preload, current("LD_PRELOAD")));
  if (setup.audit)
    changes.emplace_back("LD_AUDIT",
                         in_front(setup.folder + "/libverbena-audit.so", current("LD_AUDIT")));
  changes.emplace_back("VERBENA_TREE", setup.tree);
  for (const char* name : {"VERBENA_DEVICES", "VERBENA_CONFIG", "VERBENA_LID"})
    if (const char* value = current(name); value != nullptr && value[0] != '\0')
      changes.emplace_back(name, value);
  const char* log = current("VERBENA_LOG");
  if (setup.explain && (log == nullptr || std::string(log).rfind("explain", 0) != 0))
    changes.emplace_back("VERBENA_LOG", "explain");
  return changes;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace verbena::tools
