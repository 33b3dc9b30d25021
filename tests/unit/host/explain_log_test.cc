// The explain log's lines and its setting; populate() beside it.
#include "host/explain_log.h"

#include <errno.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "host/populate.h"

namespace verbena::host {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ExplainLog, off_by_default) {
  EXPECT_FALSE(ExplainLog(nullptr).enabled());
  EXPECT_FALSE(ExplainLog("").enabled());
}

TEST(ExplainLog, wrong_settings_are_kept_not_printed) {
  testing::internal::CaptureStderr();
  const ExplainLog unknown("verbose");
  const ExplainLog nowhere("packets:/nowhere/x", "VERBENA_TRACE", "packets");
  EXPECT_FALSE(unknown.enabled());
  EXPECT_FALSE(nowhere.enabled());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(unknown.opened());
  EXPECT_EQ(unknown.opened().error().code, EINVAL);
  EXPECT_EQ(unknown.opened().error().message,
            "VERBENA_LOG=verbose is not known; use explain or explain:FILE");
  ASSERT_FALSE(nowhere.opened());
  EXPECT_EQ(nowhere.opened().error().code, ENOENT);
  EXPECT_EQ(nowhere.opened().error().message,
            "VERBENA_TRACE: cannot open /nowhere/x: No such file or directory");
  EXPECT_TRUE(ExplainLog("").opened());
}

TEST(ExplainLog, appends_lines_to_a_file) {
  char path[] = "/tmp/verbena-explain-XXXXXX";
  close(mkstemp(path));
  std::string setting = std::string("explain:") + path;
  ExplainLog(setting.c_str()).write("first\nsecond");
  ExplainLog(setting.c_str()).write(std::string(5000, 'x'));
  std::string expected = fmt::format("verbena: [{0}] first second\nverbena: [{0}] {1}\n", getpid(),
                                     std::string(ExplainLog::kMaxLine, 'x'));
  EXPECT_EQ(read_file(path), expected);
  unlink(path);
}

TEST(Populate, tells_mapped_from_unmapped) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<uint8_t*>(
      mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_TRUE(populate(memory + 100, 2 * page, true));
  EXPECT_TRUE(populate(memory, 0, true));
  ASSERT_EQ(mprotect(memory + page, page, PROT_READ), 0);
  EXPECT_TRUE(populate(memory, 4 * page, false));
  EXPECT_TRUE(populate(memory, page, true));
  EXPECT_FALSE(populate(memory, page + 1, true));
  ASSERT_EQ(munmap(memory + 2 * page, page), 0);
  EXPECT_TRUE(populate(memory, 2 * page, false));
  EXPECT_FALSE(populate(memory, 2 * page + 1, false));
  EXPECT_FALSE(populate(memory + page, 3 * page, false));
  munmap(memory, 2 * page);
  munmap(memory + 3 * page, page);
}

}  // namespace
}  // namespace verbena::host
