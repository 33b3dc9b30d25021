// What the dynamic linker would see in a program or library: needed libraries, search paths, and
// symbols with their versions. `verbena run` chooses its mode by it and `verbena doctor` explains
// it. A small reader of our own, because only five sections matter and a broken file must be one
// message, not a crash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::tools {

inline constexpr size_t kMaxElfFile = size_t{4} << 30;  // bytes
inline constexpr size_t kMaxElfSymbols = 4u << 20;

struct ElfSymbol {
  std::string name;
  std::string version;  // "IBVERBS_1.1", or empty when unversioned
  std::string library;  // of an undefined symbol: the file its version comes from, or empty
  bool weak = false;
};

struct ElfFile {
  std::string path;
  uint16_t machine = 0;  // EM_*
  bool is_64 = false;
  bool little_endian = false;
  bool executable = false;  // ET_EXEC, or ET_DYN with an interpreter
  std::string interpreter;  // "/lib64/ld-linux-x86-64.so.2"; empty for static programs, libraries
  bool dynamic = false;     // has a dynamic section
  std::string soname;
  std::vector<std::string> needed;
  std::string rpath;                // DT_RPATH, colon-separated, as written
  std::string runpath;              // DT_RUNPATH
  std::vector<ElfSymbol> wanted;    // undefined dynamic symbols
  std::vector<ElfSymbol> provided;  // defined dynamic symbols
  bool is_static() const { return executable && interpreter.empty(); }
};

// Reads the ELF file at `path`. 32-bit and big-endian files give only the header's facts. Errors:
// the errno of open; ENOEXEC not ELF; EBADMSG a damaged file; EFBIG.
Result<ElfFile> read_elf(const std::string& path);

// Whether the bytes of the file hold `text` (a path the program opens, say). False on any error.
bool file_contains(const std::string& path, std::string_view text);

// "x86-64", "AArch64", or "machine 243".
std::string machine_name(uint16_t machine);
// EM_* of this program itself.
uint16_t own_machine();

}  // namespace verbena::tools
