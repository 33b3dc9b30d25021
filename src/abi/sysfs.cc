// The two sysfs functions of the library. Their answers come from the generated tree: files on disk
// where it was built (ibv_get_sysfs_path() builds it), else straight from the model.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/device.h"
#include "abi/errors.h"
#include "host/tree.h"

namespace verbena::abi {
namespace {

constexpr std::string_view kClass = "/class/infiniband/";

std::vector<host::DeviceModel> models() {
  auto devices = host::Process::get().devices();
  return devices ? *devices : std::vector<host::DeviceModel>{};
}

// The root the program should read below, instead of /sys.
std::string tree_root() {
  if (const char* given = std::getenv("SYSFS_PATH"); given && *given) return given;
  auto root = host::ensure_tree(models());
  return root ? *root + "/sys" : "/sys";
}

bool read_disk(const std::string& path, std::string& content) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return false;
  char buffer[4096];
  size_t got = std::fread(buffer, 1, sizeof buffer, file);
  std::fclose(file);
  content.assign(buffer, got);
  return true;
}

// ".../class/infiniband/NAME/FILE" of one of our devices, from the tree's description.
bool read_model(const std::string& path, std::string& content) {
  size_t at = path.find(kClass);
  if (at == std::string::npos) return false;
  std::string tail = "/infiniband/" + path.substr(at + kClass.size());
  auto devices = models();
  for (const host::TreeNode& node : host::tree_content(devices)) {
    if (node.kind != host::TreeNode::Kind::kFile || node.path.size() < tail.size()) continue;
    if (node.path.compare(node.path.size() - tail.size(), tail.size(), tail) != 0) continue;
    content = node.content;
    return true;
  }
  return false;
}

}  // namespace
}  // namespace verbena::abi

using namespace verbena::abi;

extern "C" {

const char* ibv_get_sysfs_path(void) {
  static const std::string* const path = [] {
    try {
      return new std::string(tree_root());
    } catch (...) {
      return static_cast<std::string*>(nullptr);
    }
  }();
  return path ? path->c_str() : "/sys";
}

// Length without the final newline, or -1.
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size) {
  try {
    std::string path = std::string(directory) + "/" + file, content;
    if (size == 0 || (!read_disk(path, content) && !read_model(path, content))) return -1;
    if (!content.empty() && content.back() == '\n') content.pop_back();
    size_t length = std::min(content.size(), size - 1);
    std::memcpy(buffer, content.data(), length);
    buffer[length] = 0;
    return static_cast<int>(length);
  } catch (...) {
    return -1;
  }
}

}  // extern "C"
