// Finds libraries: ours (beside this command) and those a program needs (as the dynamic linker
// would, without running the program).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/elf_file.h"

namespace verbena::tools {

inline constexpr size_t kMaxLibraries = 1024;  // followed from one program

// The folder that holds our libibverbs.so.1, shim and audit module: $VERBENA_LIB, or `lib/verbena`
// or `lib` beside the folder of this command. Errors: ENOENT, naming what was tried.
Result<std::string> library_folder();

struct Library {
  std::string name;  // as needed: "libibverbs.so.1"
  std::string path;  // where it was found; empty when it was not
  std::string wanted_by;
  ElfFile file;  // valid when path is not empty
};

// Looks a library up with the search order of ld.so: RPATH of the file and its loaders (when the
// file has no RUNPATH), LD_LIBRARY_PATH, RUNPATH, ld.so.conf, the default folders.
class LibrarySearch {
 public:
  // `front`: folders searched as if in front of LD_LIBRARY_PATH (ours, under `verbena run`).
  explicit LibrarySearch(std::vector<std::string> front);
  // The path, or "" when not found.
  std::string find(const std::string& name, const ElfFile& from, const std::string& rpaths) const;

 private:
  std::vector<std::string> environment_;
  std::vector<std::string> system_;
};

// Everything `program` needs, directly or not, each once, in breadth-first order.
std::vector<Library> needed_libraries(const ElfFile& program, const LibrarySearch& search);

// "a:b::c" -> {"a", "b", "c"}, with $ORIGIN replaced by the folder of `path`.
std::vector<std::string> split_paths(const std::string& list, const std::string& path);

}  // namespace verbena::tools
