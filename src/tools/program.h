// What stands between a program and a library put in front of it: scripts, static linking,
// set-user-ID, DT_RPATH, another machine. Found out before anything is started, so that `verbena
// run` can refuse with a reason instead of running without RDMA.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/elf_file.h"
#include "tools/libraries.h"

namespace verbena::tools {

struct Program {
  std::string path;         // the file exec will run
  std::string interpreter;  // of a script: the program that reads it; else empty
  ElfFile file;             // the ELF file that gets loaded: the program or its interpreter
  std::string secure;    // why the dynamic linker ignores LD_*: "set-user-ID"; empty if it does not
  std::string rpath_of;  // the first of the program and its direct libraries with DT_RPATH
};

enum class Mode : uint8_t {
  kAuto,
  kEnv,    // LD_LIBRARY_PATH and the preloaded shim
  kAudit,  // the same, and LD_AUDIT where DT_RPATH would win over LD_LIBRARY_PATH
  kNs,     // LD_LIBRARY_PATH, and /sys and /dev changed in a private mount namespace
};

const char* mode_name(Mode mode);

// Finds `name` as execvp does and looks at it. Errors: ENOENT not found; EACCES found but not
// executable; EBADMSG a damaged file.
Result<Program> inspect_program(const std::string& name, const LibrarySearch& search);

struct Choice {
  Mode mode = Mode::kEnv;  // never kAuto
  std::string why;
};

// The mode to run `program` in. Error EPERM: it cannot be run so; the message says why and what to
// do next.
Result<Choice> choose_mode(Mode asked, const Program& program);

}  // namespace verbena::tools
