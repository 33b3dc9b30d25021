// Offsets and counts in the file are untrusted: every access goes through Bytes, which answers
// nothing outside the file.
#include "tools/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>

namespace verbena::tools {
namespace {

// A file mapped read-only.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }

  // 0 or an errno.
  int map(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    struct stat info;
    int code = fstat(fd, &info) == 0 ? 0 : errno;
    if (code == 0 && !S_ISREG(info.st_mode)) code = S_ISDIR(info.st_mode) ? EISDIR : ENOEXEC;
    if (code == 0 && info.st_size == 0) code = ENOEXEC;
    if (code == 0 && static_cast<uint64_t>(info.st_size) > kMaxElfFile) code = EFBIG;
    if (code == 0) {
      size_ = static_cast<size_t>(info.st_size);
      void* at = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (at == MAP_FAILED)
        code = errno;
      else
        data_ = static_cast<const char*>(at);
    }
    close(fd);
    return code;
  }

  std::string_view all() const { return {data_, size_}; }

  template <typename T>
  std::optional<T> at(uint64_t offset) const {
    if (offset > size_ || size_ - offset < sizeof(T)) return std::nullopt;
    T value;
    memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }

  // The string at `offset`, up to its NUL; empty when outside or unterminated.
  std::string text(uint64_t offset) const {
    if (offset >= size_) return {};
    const void* end = memchr(data_ + offset, '\0', size_ - offset);
    if (end == nullptr) return {};
    return std::string(data_ + offset, static_cast<const char*>(end));
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

struct Reader {
  const Bytes& bytes;
  ElfFile& out;
  Elf64_Ehdr header{};
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
  std::map<uint16_t, std::pair<std::string, std::string>> versions;  // index -> version, file

  // File offset of a virtual address.
  std::optional<uint64_t> offset_of(uint64_t address) const {
    for (const Elf64_Phdr& segment : segments)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    return std::nullopt;
  }

  bool read_tables() {
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      const auto segment = bytes.at<Elf64_Phdr>(header.e_phoff + uint64_t{i} * sizeof(Elf64_Phdr));
      if (!segment) return false;
      segments.push_back(*segment);
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      const auto section = bytes.at<Elf64_Shdr>(header.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr));
      if (!section) return false;
      sections.push_back(*section);
    }
    return true;
  }

  const Elf64_Shdr* section(uint32_t type) const {
    for (const Elf64_Shdr& entry : sections)
      if (entry.sh_type == type) return &entry;
    return nullptr;
  }

  // Where the strings of a section lie: its sh_link names the string table.
  std::optional<uint64_t> strings_of(const Elf64_Shdr& entry) const {
    if (entry.sh_link >= sections.size()) return std::nullopt;
    return sections[entry.sh_link].sh_offset;
  }

  bool read_dynamic() {
    const Elf64_Phdr* dynamic = nullptr;
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type == PT_INTERP) out.interpreter = bytes.text(segment.p_offset);
      if (segment.p_type == PT_DYNAMIC) dynamic = &segment;
    }
    if (dynamic == nullptr) return true;
    out.dynamic = true;
    std::vector<Elf64_Dyn> entries;
    std::optional<uint64_t> strings;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = bytes.at<Elf64_Dyn>(dynamic->p_offset + at);
      if (!entry) return false;
      if (entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_STRTAB) strings = offset_of(entry->d_un.d_ptr);
      entries.push_back(*entry);
    }
    if (!strings) return entries.empty();
    for (const Elf64_Dyn& entry : entries) {
      const auto text = [&] { return bytes.text(*strings + entry.d_un.d_val); };
      if (entry.d_tag == DT_NEEDED) out.needed.push_back(text());
      if (entry.d_tag == DT_SONAME) out.soname = text();
      if (entry.d_tag == DT_RPATH) out.rpath = text();
      if (entry.d_tag == DT_RUNPATH) out.runpath = text();
    }
    return true;
  }

  bool read_wanted_versions(const Elf64_Shdr& table) {
    const auto strings = strings_of(table);
    if (!strings) return false;
    uint64_t at = table.sh_offset;
    for (unsigned i = 0; i < table.sh_info; ++i) {
      const auto need = bytes.at<Elf64_Verneed>(at);
      if (!need) return false;
      const std::string file = bytes.text(*strings + need->vn_file);
      uint64_t inner = at + need->vn_aux;
      for (unsigned k = 0; k < need->vn_cnt; ++k) {
        const auto aux = bytes.at<Elf64_Vernaux>(inner);
        if (!aux) return false;
        versions[aux->vna_other & 0x7fff] = {bytes.text(*strings + aux->vna_name), file};
        if (aux->vna_next == 0) break;
        inner += aux->vna_next;
      }
      if (need->vn_next == 0) break;
      at += need->vn_next;
    }
    return true;
  }

  bool read_provided_versions(const Elf64_Shdr& table) {
    const auto strings = strings_of(table);
    if (!strings) return false;
    uint64_t at = table.sh_offset;
    for (unsigned i = 0; i < table.sh_info; ++i) {
      const auto definition = bytes.at<Elf64_Verdef>(at);
      if (!definition) return false;
      const auto aux = bytes.at<Elf64_Verdaux>(at + definition->vd_aux);
      if (!aux) return false;
      if ((definition->vd_flags & VER_FLG_BASE) == 0)
        versions[definition->vd_ndx & 0x7fff] = {bytes.text(*strings + aux->vda_name), ""};
      if (definition->vd_next == 0) break;
      at += definition->vd_next;
    }
    return true;
  }

  bool read_symbols() {
    const Elf64_Shdr* table = section(SHT_DYNSYM);
    if (table == nullptr) return true;
    const auto strings = strings_of(*table);
    const Elf64_Shdr* version_table = section(SHT_GNU_versym);
    const uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    if (!strings || count > kMaxElfSymbols) return false;
    for (uint64_t i = 1; i < count; ++i) {
      const auto symbol = bytes.at<Elf64_Sym>(table->sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) return false;
      ElfSymbol entry{.name = bytes.text(*strings + symbol->st_name)};
      if (entry.name.empty() || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
      entry.weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
      if (version_table != nullptr) {
        const auto index = bytes.at<uint16_t>(version_table->sh_offset + i * 2);
        const auto found = index ? versions.find(*index & 0x7fff) : versions.end();
        if (found != versions.end()) {
          entry.version = found->second.first;
          entry.library = found->second.second;
        }
      }
      (symbol->st_shndx == SHN_UNDEF ? out.wanted : out.provided).push_back(std::move(entry));
    }
    return true;
  }

  bool read() {
    if (!read_tables() || !read_dynamic()) return false;
    const Elf64_Shdr* wanted = section(SHT_GNU_verneed);
    const Elf64_Shdr* provided = section(SHT_GNU_verdef);
    if (wanted != nullptr && !read_wanted_versions(*wanted)) return false;
    if (provided != nullptr && !read_provided_versions(*provided)) return false;
    return read_symbols();
  }
};

}  // namespace

Result<ElfFile> read_elf(const std::string& path) {
  Bytes bytes;
  if (const int code = bytes.map(path); code != 0)
    return fail(code, fmt::format("{}: {}", path, strerror(code)));
  const std::string_view all = bytes.all();
  if (all.size() < EI_NIDENT || all.substr(0, SELFMAG) != ELFMAG)
    return fail(ENOEXEC, path + ": not an ELF file");
  ElfFile file{.path = path};
  file.is_64 = all[EI_CLASS] == ELFCLASS64;
  file.little_endian = all[EI_DATA] == ELFDATA2LSB;
  const auto header = bytes.at<Elf64_Ehdr>(0);
  if (!header) return fail(EBADMSG, path + ": shorter than an ELF header");
  if (file.little_endian) file.machine = header->e_machine;  // the same place in both classes
  if (!file.is_64 || !file.little_endian) return file;
  Reader reader{bytes, file, *header, {}, {}, {}};
  if (!reader.read())
    return fail(EBADMSG, path + ": damaged ELF file: a table points outside the file");
  file.executable =
      header->e_type == ET_EXEC || (header->e_type == ET_DYN && !file.interpreter.empty());
  // A static-pie has a dynamic section and an entry point, but neither interpreter nor SONAME.
  if (header->e_type == ET_DYN && file.interpreter.empty() && file.soname.empty() &&
      file.needed.empty() && header->e_entry != 0)
    file.executable = true;
  return file;
}

bool file_contains(const std::string& path, std::string_view text) {
  Bytes bytes;
  return bytes.map(path) == 0 && bytes.all().find(text) != std::string_view::npos;
}

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "x86";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "PowerPC 64";
    default:
      return fmt::format("machine {}", machine);
  }
}

uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#else
  return EM_NONE;
#endif
}

}  // namespace verbena::tools
