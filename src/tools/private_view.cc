// The order matters: namespaces first, then /sys (overlay, or a farm of bind mounts where the
// kernel refuses the overlay), then /dev as a farm, because a new node must never appear in the
// real devtmpfs. Mounts inherited by a user namespace are locked together, so every bind is
// recursive.
#include "tools/private_view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

namespace verbena::tools {
namespace {

using Status = Result<bool>;

Status failed(const std::string& what) {
  const int code = errno;
  return fail(code, fmt::format("--mode ns: {}: {}", what, strerror(code)));
}

bool write_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return good;
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

Status enter_namespaces() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  // Root in a full machine needs no user namespace; root in a container may lack the right.
  if (user == 0 && unshare(CLONE_NEWNS) == 0) return true;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return fail(EPERM,
                fmt::format("--mode ns: this kernel or container gives users no user namespaces "
                            "({}); use --mode env, or allow them: sysctl -w "
                            "user.max_user_namespaces=1000 kernel.unprivileged_userns_clone=1",
                            strerror(errno)));
  write_text("/proc/self/setgroups", "deny");
  if (!write_text("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) ||
      !write_text("/proc/self/gid_map", fmt::format("{} {} 1", group, group)))
    return failed("cannot keep the user's own identity");
  return true;
}

bool bind_mount(const std::string& from, const std::string& to) {
  return mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

// One entry of `from` seen at `to`: links are copied, everything else is bound.
bool mirror(const std::string& from, const std::string& to) {
  struct stat info;
  if (lstat(from.c_str(), &info) != 0) return true;  // gone meanwhile
  if (S_ISLNK(info.st_mode)) {
    char target[4096];
    const ssize_t size = readlink(from.c_str(), target, sizeof(target) - 1);
    if (size < 0) return true;
    target[size] = '\0';
    return symlink(target, to.c_str()) == 0 || errno == EEXIST;
  }
  if (S_ISDIR(info.st_mode)) {
    if (mkdir(to.c_str(), 0755) != 0) return errno == EEXIST;
  } else {
    const int fd = open(to.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return errno == EEXIST;
    close(fd);
  }
  return bind_mount(from, to);
}

bool mirror_all(const std::string& from, const std::string& to) {
  DIR* folder = opendir(from.c_str());
  if (folder == nullptr) return false;
  bool good = true;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    good = mirror(from + "/" + name, to + "/" + name) && good;
  }
  closedir(folder);
  return good;
}

// A place outside /sys and /dev to assemble a mount before it is moved where it belongs.
Result<std::string> staging_folder() {
  const char* temporary = getenv("TMPDIR");
  for (const char* parent : {temporary, "/tmp", "/var/tmp", "/run"}) {
    if (parent == nullptr || parent[0] != '/') continue;
    std::string path = std::string(parent) + "/verbena-ns-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) return path;
  }
  return fail(EACCES, "--mode ns: no folder to mount in; set TMPDIR to one you can write");
}

// Replaces `target` by a tmpfs that holds `ours` (which wins) and everything the old `target` had.
Status farm(const std::string& ours, const std::string& target) {
  auto stage = staging_folder();
  if (!stage) return tl::unexpected(stage.error());
  if (mount("verbena", stage->c_str(), "tmpfs", MS_NOSUID, "mode=755") != 0) {
    const Status error = failed("cannot mount a tmpfs");
    rmdir(stage->c_str());
    return error;
  }
  mirror_all(ours, *stage);
  mirror_all(target, *stage);
  const bool moved = mount(stage->c_str(), target.c_str(), nullptr, MS_MOVE, nullptr) == 0;
  const Status result = moved ? Status(true) : failed("cannot mount over " + target);
  if (!moved) umount2(stage->c_str(), MNT_DETACH);
  rmdir(stage->c_str());
  return result;
}

Status cover(const std::string& ours, const std::string& target) {
  if (!exists(ours) || !exists(target)) return true;
  if (ours.find_first_of(":,\\") == std::string::npos) {
    const std::string options = fmt::format("lowerdir={}:{}", ours, target);
    if (mount("verbena", target.c_str(), "overlay", MS_RDONLY, options.c_str()) == 0) return true;
  }
  return farm(ours, target);
}

// Real adapters would show through an overlay; a program run by Verbena sees Verbena's alone.
Status hide_real(const std::string& tree, const char* target) {
  const std::string ours = tree + target;
  if (!exists(ours) || !exists(target) || bind_mount(ours, target)) return true;
  return failed(fmt::format("cannot mount over {}", target));
}

}  // namespace

Result<bool> enter_private_view(const std::string& tree) {
  char folder[4096];
  const bool has_folder = getcwd(folder, sizeof(folder)) != nullptr;
  Status status = enter_namespaces();
  if (!status) return status;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    if (errno == EINVAL)
      return fail(EINVAL,
                  "--mode ns: / is no mount point (a chroot), so that mounts could not be kept from"
                  " the rest of the machine; use --mode env or --mode audit");
    return failed("cannot make the mounts private");
  }
  for (const char* part :
       {"/sys/bus/pci/drivers", "/sys/bus/pci/devices", "/sys/devices", "/sys/class"}) {
    status = cover(tree + part, part);
    if (!status) return status;
  }
  for (const char* part :
       {"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad"}) {
    status = hide_real(tree, part);
    if (!status) return status;
  }
  status = farm(tree + "/dev", "/dev");
  if (!status) return status;
  // The old working directory may lie below a mount that was just covered.
  if (has_folder && chdir(folder) != 0) return failed(fmt::format("cannot return to {}", folder));
  return true;
}

}  // namespace verbena::tools
