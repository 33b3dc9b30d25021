// The search follows ld.so(8). It leaves out glibc-hwcaps folders and the linker's cache: both only
// name folders that ld.so.conf names too.
#include "tools/libraries.h"

#include <errno.h>
#include <fmt/format.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <set>

namespace verbena::tools {
namespace {

constexpr int kMaxIncludes = 64;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool readable(const std::string& path) {
  return access(path.c_str(), R_OK) == 0;
}

// Symbolic links stay: the user may have made one to avoid a space in the real path.
std::string absolute_path(const std::string& path) {
  if (path.rfind('/', 0) == 0) return path;
  char folder[4096];
  return getcwd(folder, sizeof(folder)) != nullptr ? std::string(folder) + "/" + path : path;
}

void read_linker_config(const std::string& path, std::vector<std::string>& out, int& budget) {
  if (--budget < 0) return;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    if (line.rfind("include", 0) != 0) {
      out.push_back(line);
      continue;
    }
    const size_t pattern = line.find_first_not_of(" \t", 7);
    if (pattern == std::string::npos) continue;
    std::string text = line.substr(pattern);
    if (text[0] != '/') text = folder_of(path) + "/" + text;
    glob_t found{};
    if (glob(text.c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        read_linker_config(found.gl_pathv[i], out, budget);
    globfree(&found);
  }
}

std::vector<std::string> system_folders() {
  std::vector<std::string> folders;
  int budget = kMaxIncludes;
  read_linker_config("/etc/ld.so.conf", folders, budget);
  for (const char* folder :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    folders.push_back(folder);
  return folders;
}

// A library of another class or machine is passed over, as ld.so does.
bool fits(const std::string& path, const ElfFile& from) {
  if (!readable(path)) return false;
  const auto file = read_elf(path);
  return file && file->machine == from.machine && file->is_64 == from.is_64;
}

}  // namespace

std::vector<std::string> split_paths(const std::string& list, const std::string& path) {
  std::vector<std::string> folders;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(':', at), list.size());
    std::string folder = list.substr(at, end - at);
    at = end + 1;
    for (const char* token : {"$ORIGIN", "${ORIGIN}"}) {
      const size_t found = folder.find(token);
      if (found != std::string::npos)
        folder.replace(found, std::string(token).size(), folder_of(path));
    }
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

Result<std::string> library_folder() {
  std::vector<std::string> tried;
  if (const char* named = getenv("VERBENA_LIB"); named != nullptr && named[0] != '\0') {
    if (readable(std::string(named) + "/libverbena-shim.so")) return absolute_path(named);
    return fail(ENOENT,
                fmt::format("VERBENA_LIB={} holds no libverbena-shim.so; name the folder of "
                            "Verbena's libraries, or leave it unset",
                            named));
  }
  char self[4096];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (size > 0) {
    const std::string parent = folder_of(folder_of(std::string(self, static_cast<size_t>(size))));
    tried.push_back(parent + "/lib/verbena");
    tried.push_back(parent + "/lib");
  }
  for (const std::string& folder : tried)
    if (readable(folder + "/libverbena-shim.so")) return absolute_path(folder);
  return fail(ENOENT, fmt::format("cannot find Verbena's libraries (looked in {}); set VERBENA_LIB "
                                  "to the folder that holds libverbena-shim.so",
                                  fmt::join(tried, ", ")));
}

LibrarySearch::LibrarySearch(std::vector<std::string> front) : environment_(std::move(front)) {
  if (const char* path = getenv("LD_LIBRARY_PATH"))
    for (std::string& folder : split_paths(path, "")) environment_.push_back(std::move(folder));
  system_ = system_folders();
}

std::string LibrarySearch::find(const std::string& name, const ElfFile& from,
                                const std::string& rpaths) const {
  if (name.find('/') != std::string::npos) return readable(name) ? name : "";
  std::vector<std::string> folders;
  if (from.runpath.empty()) folders = split_paths(rpaths, from.path);
  folders.insert(folders.end(), environment_.begin(), environment_.end());
  for (const std::string& folder : split_paths(from.runpath, from.path)) folders.push_back(folder);
  folders.insert(folders.end(), system_.begin(), system_.end());
  for (const std::string& folder : folders)
    if (const std::string path = folder + "/" + name; fits(path, from)) return path;
  return "";
}

std::vector<Library> needed_libraries(const ElfFile& program, const LibrarySearch& search) {
  struct Pending {
    ElfFile file;
    std::string rpaths;  // its own and its loaders', with $ORIGIN already replaced
  };
  const auto join_rpaths = [](const ElfFile& file, const std::string& inherited) {
    return fmt::format("{}:{}", fmt::join(split_paths(file.rpath, file.path), ":"), inherited);
  };
  std::vector<Library> found;
  std::set<std::string> seen;
  std::deque<Pending> queue;
  queue.push_back({program, join_rpaths(program, "")});
  while (!queue.empty()) {
    const Pending current = std::move(queue.front());
    queue.pop_front();
    for (const std::string& name : current.file.needed) {
      if (found.size() >= kMaxLibraries || !seen.insert(name).second) continue;
      found.push_back({.name = name, .wanted_by = current.file.path});
      const std::string path = search.find(name, current.file, current.rpaths);
      if (path.empty()) continue;
      const Result<ElfFile> file = read_elf(path);
      if (!file) continue;
      found.back().path = path;
      found.back().file = *file;
      queue.push_back({*file, join_rpaths(*file, current.rpaths)});
    }
  }
  return found;
}

}  // namespace verbena::tools
