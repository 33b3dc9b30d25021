// See outputs.h.
#include "tools/outputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace verbena::tools {

namespace {

namespace fs = std::filesystem;

// Whether the two names lead to one file, which need not exist.
bool same_file(const std::string& a, const std::string& b) {
  struct stat one, other;
  if (stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0) {
    if (!S_ISREG(one.st_mode) && !S_ISDIR(one.st_mode)) return false;
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  }
  std::error_code failed;
  const fs::path left = fs::weakly_canonical(fs::absolute(a), failed);
  if (failed) return false;
  const fs::path right = fs::weakly_canonical(fs::absolute(b), failed);
  return !failed && left == right;
}

tl::unexpected<Error> refuse(const Output& output, const std::string& why) {
  return fail(EINVAL, fmt::format("{} {}: {}", output.option, output.path, why));
}

Result<void> check_place(const Output& output) {
  struct stat about;
  const bool exists = stat(output.path.c_str(), &about) == 0;
  if (exists && output.folder && !S_ISDIR(about.st_mode))
    return refuse(output, "it is no folder; name one, or a new one");
  if (exists && !output.folder && S_ISDIR(about.st_mode))
    return refuse(output, "it is a folder; name a file");
  if (exists && !output.folder && !S_ISREG(about.st_mode)) return {};
  std::string folder = output.path;
  if (!exists || !output.folder) {
    folder = fs::path(output.path).parent_path().string();
    if (folder.empty()) folder = ".";
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  const int error = errno;
  return fail(error, fmt::format("cannot {} {}: {}", output.folder ? "make the folder" : "write",
                                 output.path, strerror(error)));
}

}  // namespace

Result<void> check_outputs(std::span<const std::string> inputs, std::span<const Output> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const std::string& input : inputs)
      if (same_file(input, outputs[i].path))
        return refuse(outputs[i], fmt::format("this would replace {}, which is read", input));
    for (size_t j = 0; j < i; ++j)
      if (same_file(outputs[j].path, outputs[i].path))
        return refuse(outputs[i],
                      fmt::format("{} writes there too; name another file", outputs[j].option));
    if (auto good = check_place(outputs[i]); !good) return good;
  }
  return {};
}

}  // namespace verbena::tools
