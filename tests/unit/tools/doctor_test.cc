// `verbena doctor` against stand-in libraries: a complete one, one with a symbol missing, none.
#include "tools/doctor_report.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace verbena::tools {
namespace {

namespace fs = std::filesystem;

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "doctor_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    fs::create_directory(folder_ + "/lib");
    write("verbs.map", "IBVERBS_1.1 { global: ibv_one; ibv_two; local: *; };\n");
    write("verbs.c", "int ibv_one(void) { return 1; }\nint ibv_two(void) { return 2; }\n");
    library();
    write("tool.c",
          "int ibv_one(void);\nint ibv_two(void);\n"
          "const char* where = \"/sys/class/infiniband\";\n"
          "int main(void) { return ibv_one() + ibv_two(); }\n");
    build("-o " + tool() + " " + folder_ + "/tool.c " + lib() + "/libibverbs.so.1");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string lib() const { return folder_ + "/lib"; }
  std::string tool() const { return folder_ + "/tool"; }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  void build(const std::string& arguments) {
    ASSERT_EQ(system(("cc " + arguments).c_str()), 0) << arguments;
  }
  void library() {
    build("-shared -fPIC -Wl,-soname,libibverbs.so.1 -Wl,--version-script," + folder_ +
          "/verbs.map -o " + lib() + "/libibverbs.so.1 " + folder_ + "/verbs.c");
  }
  static bool has(const DoctorReport& report, const std::string& text) {
    return report.text.find(text) != std::string::npos;
  }

  std::string folder_;
};

TEST_F(Doctor, GoodProgram) {
  auto report = diagnose(tool(), lib());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->runs) << report->text;
  EXPECT_TRUE(has(*report, "libibverbs.so.1 -> " + lib() + "/libibverbs.so.1 (Verbena's)\n"))
      << report->text;
  EXPECT_TRUE(has(*report, "2 of 2 wanted from libibverbs.so.1 are there (IBVERBS_1.1)\n"));
  EXPECT_TRUE(has(*report, "/sys/class/infiniband: shown by verbena run"));
  EXPECT_TRUE(has(*report, "result       will run: verbena run --mode env -- " + tool() + " ("));
}

TEST_F(Doctor, MissingSymbolIsNamed) {
  write("verbs.map", "IBVERBS_1.1 { global: ibv_one; local: *; };\n");
  library();
  auto report = diagnose(tool(), lib());
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->runs);
  EXPECT_TRUE(has(
      *report, "missing      ibv_two@IBVERBS_1.1 of libibverbs.so.1 (wanted by " + tool() + ")\n"))
      << report->text;
  EXPECT_TRUE(has(*report, "1 of 2 wanted from libibverbs.so.1"));
  EXPECT_TRUE(
      has(*report, "will not run: " + lib() + "/libibverbs.so.1 has no ibv_two@IBVERBS_1.1"));
}

TEST_F(Doctor, MissingLibraryIsNamed) {
  build("-shared -fPIC -Wl,-soname,libnowhere.so.9 -o " + lib() + "/libnowhere.so.9 " + folder_ +
        "/verbs.c");
  build("-o " + tool() + " " + folder_ + "/tool.c " + lib() + "/libnowhere.so.9 " + lib() +
        "/libibverbs.so.1");
  fs::remove(lib() + "/libnowhere.so.9");
  auto report = diagnose(tool(), lib());
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->runs);
  EXPECT_TRUE(has(*report, "libnowhere.so.9 is missing (wanted by " + tool() + ")"))
      << report->text;
}

TEST_F(Doctor, SystemLibraryInsteadOfOursIsAProblem) {
  if (!fs::exists("/usr/bin/ib_write_bw")) GTEST_SKIP() << "perftest is not installed";
  fs::remove(lib() + "/libibverbs.so.1");
  auto report = diagnose("/usr/bin/ib_write_bw", lib());
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->runs);
  EXPECT_TRUE(has(*report, "will not run: libibverbs.so.1 comes from ")) << report->text;
  EXPECT_TRUE(has(*report, "IBVERBS_PRIVATE_34")) << report->text;
}

TEST_F(Doctor, RefusedProgramsAndMissingOnes) {
  EXPECT_EQ(diagnose("/nonexistent/tool", lib()).error().code, ENOENT);
  write("static.c", "int main(void) { return 0; }\n");
  if (system(
          ("cc -static -o " + folder_ + "/static " + folder_ + "/static.c 2>/dev/null").c_str()) !=
      0)
    GTEST_SKIP() << "no static C library here";
  auto report = diagnose(folder_ + "/static", lib());
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->runs);
  EXPECT_TRUE(has(*report, "result       will not run: " + folder_ + "/static is statically"));
}

}  // namespace
}  // namespace verbena::tools
