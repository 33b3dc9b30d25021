// The ELF reader on real files, and on every truncation and many corruptions of one.
#include "tools/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/prng.h"

namespace verbena::tools {
namespace {

namespace fs = std::filesystem;

std::string temporary(const char* name) {
  return testing::TempDir() + name + std::to_string(getpid());
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST(ElfFile, ReadsADynamicProgram) {
  auto file = read_elf("/bin/sh");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->is_64);
  EXPECT_TRUE(file->executable);
  EXPECT_TRUE(file->dynamic);
  EXPECT_FALSE(file->is_static());
  EXPECT_EQ(file->machine, own_machine());
  EXPECT_NE(file->interpreter.find("ld-linux"), std::string::npos);
  EXPECT_EQ(std::count(file->needed.begin(), file->needed.end(), "libc.so.6"), 1);
  const auto found = std::find_if(file->wanted.begin(), file->wanted.end(),
                                  [](const ElfSymbol& symbol) { return symbol.name == "fork"; });
  ASSERT_NE(found, file->wanted.end());
  EXPECT_EQ(found->library, "libc.so.6");
  EXPECT_EQ(found->version.rfind("GLIBC_2.", 0), 0u);
}

TEST(ElfFile, ReadsProvidedVersions) {
  auto file = read_elf("/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
  if (!file) GTEST_SKIP() << file.error().message;
  EXPECT_EQ(file->soname, "libibverbs.so.1");
  EXPECT_FALSE(file->executable);
  bool old = false, later = false;
  for (const ElfSymbol& symbol : file->provided) {
    old = old || (symbol.name == "ibv_open_device" && symbol.version == "IBVERBS_1.1");
    later = later || (symbol.name == "ibv_reg_mr_iova2" && symbol.version == "IBVERBS_1.8");
  }
  EXPECT_TRUE(old);
  EXPECT_TRUE(later);
}

TEST(ElfFile, RefusesWhatIsNotElf) {
  EXPECT_EQ(read_elf("/etc/passwd").error().code, ENOEXEC);
  EXPECT_EQ(read_elf("/nonexistent").error().code, ENOENT);
  EXPECT_EQ(read_elf("/tmp").error().code, EISDIR);
  EXPECT_EQ(read_elf("/dev/null").error().code, ENOEXEC);
}

TEST(ElfFile, SurvivesTruncation) {
  const std::string whole = bytes_of(PROBE);
  const std::string path = temporary("truncated");
  for (size_t size = 0; size < whole.size(); size += 1 + size / 16) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    auto file = read_elf(path);
    if (!file) {
      EXPECT_TRUE(file.error().code == EBADMSG || file.error().code == ENOEXEC) << size;
    }
  }
  fs::remove(path);
}

TEST(ElfFile, SurvivesCorruption) {
  const std::string whole = bytes_of(PROBE);
  const std::string path = temporary("corrupt");
  Prng random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 40; ++i) {
      // Headers at both ends of the file are where offsets live.
      const size_t window = round % 2 == 0 ? 1024 : bytes.size();
      const size_t at =
          round % 3 == 0 ? bytes.size() - 1 - random.next() % window : random.next() % window;
      bytes[at] = static_cast<char>(random.next());
    }
    std::ofstream(path, std::ios::binary) << bytes;
    auto file = read_elf(path);
    if (file) {
      EXPECT_LE(file->wanted.size(), kMaxElfSymbols);
    }
  }
  fs::remove(path);
}

TEST(ElfFile, FindsText) {
  EXPECT_TRUE(file_contains(PROBE, "/sys/class/infiniband/verbena0"));
  EXPECT_FALSE(file_contains(PROBE,
                             "/sys/class/some"
                             "thing/else"));
  EXPECT_FALSE(file_contains("/nonexistent", "x"));
}

}  // namespace
}  // namespace verbena::tools
