// See ld.so(8), "Secure-execution mode", for what the dynamic linker ignores when.
#include "tools/program.h"

#include <errno.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace verbena::tools {
namespace {

constexpr int kMaxScriptDepth = 4;  // the kernel follows as many

bool is_file(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Result<std::string> find_program(const std::string& name) {
  if (name.empty()) return fail(ENOENT, "the program's name is empty");
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    const char* path = getenv("PATH");
    for (const std::string& folder : split_paths(path != nullptr ? path : "/bin:/usr/bin", ""))
      candidates.push_back(folder + "/" + name);
  }
  std::string found;
  for (const std::string& candidate : candidates) {
    if (!is_file(candidate)) {
      if (struct stat info; candidate == name && stat(candidate.c_str(), &info) == 0)
        return fail(EACCES, fmt::format("{} is {}, not a program", name,
                                        S_ISDIR(info.st_mode) ? "a directory" : "no regular file"));
      continue;
    }
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (found.empty()) found = candidate;
  }
  if (found.empty() && name.find('/') == std::string::npos)
    for (const char* folder : {"/usr/local/sbin/", "/usr/sbin/", "/sbin/"})
      if (access((folder + name).c_str(), X_OK) == 0)
        return fail(ENOENT, fmt::format("{}: not found in PATH, which lacks its folder; write {}{}",
                                        name, folder, name));
  if (!found.empty())
    return fail(EACCES, fmt::format("{} is not executable (chmod +x {})", found, found));
  return fail(ENOENT, name.find('/') != std::string::npos
                          ? fmt::format("{}: no such program", name)
                          : fmt::format("{}: not found in PATH", name));
}

// The interpreter named by "#!", "" when the file is ELF, "/bin/sh" for text without "#!".
std::string script_interpreter(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char head[256] = {};
  in.read(head, sizeof(head) - 1);
  const std::string text(head, static_cast<size_t>(in.gcount()));
  if (text.rfind("\x7f"
                 "ELF",
                 0) == 0)
    return "";
  if (text.rfind("#!", 0) != 0) return "/bin/sh";
  const size_t first = text.find_first_not_of(" \t", 2);
  if (first == std::string::npos) return "/bin/sh";
  return text.substr(first, text.find_first_of(" \t\r\n", first) - first);
}

// Scripts are never run set-user-ID by Linux; only the ELF file counts.
std::string secure_reason(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return "";
  if ((info.st_mode & S_ISUID) != 0 && info.st_uid != geteuid()) return "set-user-ID";
  if ((info.st_mode & S_ISGID) != 0 && (info.st_mode & S_IXGRP) != 0 && info.st_gid != getegid())
    return "set-group-ID";
  if (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return "given file capabilities";
  return "";
}

std::string first_with_rpath(const ElfFile& program, const LibrarySearch& search) {
  if (!program.rpath.empty() && program.runpath.empty()) return program.path;
  for (const std::string& name : program.needed) {
    const std::string path = search.find(name, program, program.rpath);
    if (path.empty()) continue;
    const auto file = read_elf(path);
    if (file && !file->rpath.empty() && file->runpath.empty()) return path;
  }
  return "";
}

tl::unexpected<Error> refuse(std::string message) {
  return fail(EPERM, std::move(message));
}

}  // namespace

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::kAuto:
      return "auto";
    case Mode::kEnv:
      return "env";
    case Mode::kAudit:
      return "audit";
    case Mode::kNs:
      return "ns";
  }
  return "?";
}

Result<Program> inspect_program(const std::string& name, const LibrarySearch& search) {
  auto path = find_program(name);
  if (!path) return tl::unexpected(path.error());
  Program program{.path = *path};
  std::string loaded = *path;
  for (int depth = 0; depth <= kMaxScriptDepth; ++depth) {
    const std::string interpreter = script_interpreter(loaded);
    if (interpreter.empty()) break;
    if (depth == kMaxScriptDepth || !is_file(interpreter))
      return fail(ENOENT,
                  fmt::format("{} is a script for {}, which cannot be run", loaded, interpreter));
    program.interpreter = loaded = interpreter;
  }
  char* real = realpath(loaded.c_str(), nullptr);
  if (real != nullptr) loaded = real;
  free(real);
  auto file = read_elf(loaded);
  if (!file) return tl::unexpected(file.error());
  program.file = std::move(*file);
  program.secure = secure_reason(loaded);
  program.rpath_of = first_with_rpath(program.file, search);
  return program;
}

Result<Choice> choose_mode(Mode asked, const Program& program) {
  const ElfFile& file = program.file;
  const std::string who = program.interpreter.empty()
                              ? program.path
                              : fmt::format("{} (run by {})", program.path, file.path);
  if (!file.is_64 || file.machine != own_machine())
    return refuse(fmt::format(
        "{} is a {}-bit program for {}, and these libraries are for {}; "
        "build Verbena for that machine",
        who, file.is_64 ? 64 : 32, machine_name(file.machine), machine_name(own_machine())));
  // The dynamic linker itself, which needs no library, may be started as a program.
  if (!file.executable && !file.needed.empty())
    return refuse(fmt::format("{} is a shared library, not a program", who));
  if (!program.secure.empty())
    return refuse(
        fmt::format("{} is {}, so the dynamic linker ignores every library put in front "
                    "of it; run a copy without that: cp {} . && verbena run -- ./{}",
                    who, program.secure, file.path, file.path.substr(file.path.rfind('/') + 1)));
  if (file.is_static()) {
    if (asked == Mode::kNs)
      return Choice{Mode::kNs,
                    "asked for; the program is static, so only its view of /sys and "
                    "/dev changes"};
    return refuse(
        fmt::format("{} is statically linked, so no library can be put in front of it; "
                    "link it dynamically, or, if it only reads /sys/class/infiniband, "
                    "use --mode ns",
                    who));
  }
  if (file.interpreter.find("ld-musl") != std::string::npos)
    return refuse(
        fmt::format("{} uses the musl C library ({}), and these libraries were built for "
                    "glibc; build Verbena with musl",
                    who, file.interpreter));
  if (asked != Mode::kAuto) return Choice{asked, "asked for"};
  if (!program.rpath_of.empty())
    return Choice{Mode::kAudit, fmt::format("{} has a DT_RPATH, which wins over LD_LIBRARY_PATH",
                                            program.rpath_of)};
  return Choice{Mode::kEnv, "nothing stands in the way of LD_LIBRARY_PATH and LD_PRELOAD"};
}

}  // namespace verbena::tools
