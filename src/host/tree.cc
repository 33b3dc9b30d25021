// Puts the tree on disk, once per different content: its directory name is the hash of what is in
// it, so equal requests share a tree and different ones never meet.
#include "host/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/hash.h"

namespace verbena::host {
namespace {

namespace fs = std::filesystem;

constexpr char kStamp[] = ".complete";  // written last; a tree without it is damaged
constexpr int kAttempts = 4;

tl::unexpected<Error> failed(const char* what, const std::string& path) {
  const int code = errno;
  return fail(code, fmt::format("cannot {} {}: {}", what, path, strerror(code)));
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

bool make_parents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    if (mkdir(path.substr(0, slash).c_str(), 0755) != 0 && errno != EEXIST) return false;
  return true;
}

bool write_file(const std::string& path, std::string_view content) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t wrote = write(fd, content.data() + done, content.size() - done);
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  const int code = errno;
  close(fd);
  errno = code;
  return done == content.size();
}

bool write_node(const std::string& root, const TreeNode& node) {
  const std::string path = root + "/" + node.path;
  if (!make_parents(path)) return false;
  switch (node.kind) {
    case TreeNode::Kind::kFile:
      return write_file(path, node.content);
    case TreeNode::Kind::kLink:
      return symlink(node.content.c_str(), path.c_str()) == 0;
    case TreeNode::Kind::kDirectory:
      return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
  }
  return false;
}

// Counters belong to a network namespace, so two namespaces never share a tree.
std::string network_namespace() {
  char text[64];
  const ssize_t size = readlink("/proc/self/ns/net", text, sizeof(text));
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

std::string tree_name(std::span<const TreeNode> nodes) {
  Fnv1a hash;
  const auto add = [&](std::string_view bytes) { hash.add(bytes).add(0xff); };
  add(network_namespace());
  for (const TreeNode& node : nodes) {
    add(node.path);
    add(node.content);
  }
  return fmt::format("tree-{:016x}", hash.value());
}

// Keeps the newest kMaxTrees. A tree in use was touched when its program started, so only a
// program older than kMaxTrees different setups can lose one.
void prune(const std::string& base) {
  std::vector<std::pair<fs::file_time_type, fs::path>> trees;
  std::error_code code;
  for (fs::directory_iterator it(base, code), end; !code && it != end; it.increment(code)) {
    std::error_code ignored;
    if (it->path().filename().string().rfind("tree-", 0) == 0)
      trees.emplace_back(fs::last_write_time(it->path(), ignored), it->path());
  }
  if (trees.size() <= kMaxTrees) return;
  std::sort(trees.begin(), trees.end());
  for (size_t i = 0; i + kMaxTrees < trees.size(); ++i) remove_tree(trees[i].second);
}

Result<std::string> build_aside(const std::string& base, std::span<const TreeNode> nodes) {
  std::string path = base + "/.build-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return failed("create", path);
  for (const TreeNode& node : nodes)
    if (!write_node(path, node)) {
      auto error = failed("write", path + "/" + node.path);
      remove_tree(path);
      return error;
    }
  if (!write_file(path + "/" + kStamp, "")) {
    auto error = failed("write", path + "/" + kStamp);
    remove_tree(path);
    return error;
  }
  return path;
}

bool usable(const std::string& tree) {
  if (access((tree + "/" + kStamp).c_str(), F_OK) != 0) return false;
  utimensat(AT_FDCWD, tree.c_str(), nullptr, 0);
  return true;
}

// Moves a damaged tree (someone's cleaner took files) out of the way; whoever loses the race finds
// nothing to move.
void discard_damaged(const std::string& base, const std::string& tree) {
  std::string aside = base + "/.broken-XXXXXX";
  if (mkdtemp(aside.data()) == nullptr) return;
  if (rename(tree.c_str(), (aside + "/tree").c_str()) != 0 && errno != ENOENT) return;
  remove_tree(aside);
}

bool private_to_us(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;
}

bool owned_by_us(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && info.st_uid == geteuid();
}

std::vector<std::string> parents_to_try() {
  std::vector<std::string> parents;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  const char* temporary = getenv("TMPDIR");
  if (runtime != nullptr && runtime[0] == '/' && owned_by_us(runtime)) parents.push_back(runtime);
  parents.push_back("/dev/shm");
  if (temporary != nullptr && temporary[0] == '/') parents.push_back(temporary);
  parents.push_back("/tmp");
  return parents;
}

// Every user of `unshare -r` is uid 0 to himself, so several may want the name verbena-0, the real
// root among them: who comes later takes the next name.
constexpr int kNamesPerUser = 64;

// Empty when `parent` cannot have one.
std::string private_directory_in(const std::string& parent) {
  const std::string first = fmt::format("{}/verbena-{}", parent, geteuid());
  for (int i = 0; i < kNamesPerUser; ++i) {
    std::string path = i == 0 ? first : fmt::format("{}.{}", first, i);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return {};
    if (private_to_us(path)) return access(path.c_str(), W_OK) == 0 ? path : std::string();
  }
  return {};
}

}  // namespace

Result<std::string> private_directory() {
  const std::vector<std::string> parents = parents_to_try();
  for (const std::string& parent : parents)
    if (std::string path = private_directory_in(parent); !path.empty()) return path;
  return fail(EACCES, fmt::format("no place for a private directory: tried verbena-{} in {}; set "
                                  "TMPDIR to a directory you can write",
                                  geteuid(), fmt::join(parents, ", ")));
}

Result<std::string> ensure_tree(std::span<const DeviceModel> devices, const std::string& base) {
  const std::vector<TreeNode> nodes = tree_content(devices);
  const std::string tree = base + "/" + tree_name(nodes);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (usable(tree)) return tree;
    auto built = build_aside(base, nodes);
    if (!built) return built;
    if (rename(built->c_str(), tree.c_str()) == 0) {
      prune(base);
      return tree;
    }
    const int code = errno;
    remove_tree(*built);
    if (code != EEXIST && code != ENOTEMPTY) {
      errno = code;
      return failed("create", tree);
    }
    if (!usable(tree)) discard_damaged(base, tree);
  }
  return fail(EBUSY, fmt::format("cannot create {}: other processes keep changing it", tree));
}

Result<std::string> ensure_tree(std::span<const DeviceModel> devices) {
  // A full disk shows only when the tree is written; the next parent may be another file system.
  Result<std::string> first = private_directory();
  if (!first) return first;
  first = ensure_tree(devices, *first);
  if (first) return first;
  for (const std::string& parent : parents_to_try()) {
    const std::string base = private_directory_in(parent);
    if (base.empty()) continue;
    if (auto tree = ensure_tree(devices, base)) return tree;
  }
  return first;
}

}  // namespace verbena::host
