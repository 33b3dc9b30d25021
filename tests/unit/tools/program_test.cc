// What `verbena run` finds out about a program, and the sentence with which it refuses one.
#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace verbena::tools {
namespace {

namespace fs = std::filesystem;

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "program_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string compile(const std::string& name, const std::string& options) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path + ".c") << "int main(void) { return 0; }\n";
    if (system(("cc -o " + path + " " + path + ".c " + options + " 2>/dev/null").c_str()) != 0)
      return "";
    return path;
  }

  std::string script(const std::string& text) {
    const std::string path = folder_ + "/script";
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
    return path;
  }

  std::string folder_;
  LibrarySearch search_{{}};
};

TEST_F(ProgramTest, OrdinaryProgramRunsInEnvMode) {
  auto program = inspect_program("ls", search_);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->path.substr(program->path.rfind('/')), "/ls");
  EXPECT_EQ(program->interpreter, "");
  auto choice = choose_mode(Mode::kAuto, *program);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->mode, Mode::kEnv);
}

TEST_F(ProgramTest, MissingAndNotExecutable) {
  EXPECT_EQ(inspect_program("no-such-program", search_).error().code, ENOENT);
  EXPECT_EQ(inspect_program("no-such-program", search_).error().message,
            "no-such-program: not found in PATH");
  auto text = inspect_program("/etc/passwd", search_);
  EXPECT_EQ(text.error().code, EACCES);
  EXPECT_EQ(text.error().message, "/etc/passwd is not executable (chmod +x /etc/passwd)");
  auto folder = inspect_program("/tmp", search_);
  EXPECT_EQ(folder.error().code, EACCES);
  EXPECT_EQ(folder.error().message, "/tmp is a directory, not a program");
  EXPECT_EQ(inspect_program("/dev/null", search_).error().message,
            "/dev/null is no regular file, not a program");
}

TEST_F(ProgramTest, ScriptIsJudgedByItsInterpreter) {
  auto program = inspect_program(script("#! /bin/sh -e\necho\n"), search_);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->interpreter, "/bin/sh");
  EXPECT_TRUE(program->file.dynamic);
  auto plain = inspect_program(script("echo\n"), search_);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->interpreter, "/bin/sh");
  auto broken = inspect_program(script("#!/nonexistent/python\n"), search_);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("/nonexistent/python"), std::string::npos);
}

TEST_F(ProgramTest, RpathChoosesAudit) {
  const std::string with = compile("with", "-Wl,--disable-new-dtags -Wl,-rpath,/opt/lib");
  auto program = inspect_program(with, search_);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->rpath_of, with);
  auto choice = choose_mode(Mode::kAuto, *program);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->mode, Mode::kAudit);
  EXPECT_EQ(choice->why, with + " has a DT_RPATH, which wins over LD_LIBRARY_PATH");

  const std::string runpath = compile("run", "-Wl,--enable-new-dtags -Wl,-rpath,/opt/lib");
  auto other = inspect_program(runpath, search_);
  ASSERT_TRUE(other);
  EXPECT_EQ(choose_mode(Mode::kAuto, *other)->mode, Mode::kEnv);
}

TEST_F(ProgramTest, StaticIsRefusedExceptForItsViewOfSys) {
  for (const char* how : {"-static", "-static-pie"}) {
    const std::string path = compile("static", how);
    if (path.empty()) GTEST_SKIP() << "no static C library here";
    auto program = inspect_program(path, search_);
    ASSERT_TRUE(program);
    auto refused = choose_mode(Mode::kAuto, *program);
    ASSERT_FALSE(refused) << how;
    EXPECT_EQ(refused.error().message,
              path +
                  " is statically linked, so no library can be put in front of it; link it "
                  "dynamically, or, if it only reads /sys/class/infiniband, use --mode ns");
    EXPECT_EQ(choose_mode(Mode::kNs, *program)->mode, Mode::kNs);
  }
}

TEST_F(ProgramTest, LibraryIsNoProgram) {
  const std::string path = compile("library.so", "-shared -fPIC -Wl,--no-as-needed");
  auto library = inspect_program(path, search_);
  ASSERT_TRUE(library);
  auto refused = choose_mode(Mode::kAuto, *library);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, path + " is a shared library, not a program");
  auto linker = inspect_program(inspect_program("ls", search_)->file.interpreter, search_);
  ASSERT_TRUE(linker);
  EXPECT_TRUE(choose_mode(Mode::kAuto, *linker));
}

TEST_F(ProgramTest, SetUserIdIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program of another user";
  const std::string path = compile("setuid", "");
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  auto program = inspect_program(path, search_);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->secure, "set-user-ID");
  auto refused = choose_mode(Mode::kAuto, *program);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            path +
                " is set-user-ID, so the dynamic linker ignores every library put in front of "
                "it; run a copy without that: cp " +
                path + " . && verbena run -- ./setuid");
  ASSERT_EQ(chmod(path.c_str(), 02755), 0);
  EXPECT_EQ(inspect_program(path, search_)->secure, "set-group-ID");
}

TEST_F(ProgramTest, OtherMachinesAreRefused) {
  Program program;
  program.path = program.file.path = "/opt/tool";
  program.file.machine = EM_386;
  auto refused = choose_mode(Mode::kAuto, program);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.rfind("/opt/tool is a 32-bit program for x86, ", 0), 0u);
}

TEST_F(ProgramTest, MuslIsRefused) {
  Program program;
  program.path = program.file.path = "/opt/tool";
  program.file.machine = own_machine();
  program.file.is_64 = program.file.executable = true;
  program.file.interpreter = "/lib/ld-musl-x86_64.so.1";
  EXPECT_FALSE(choose_mode(Mode::kEnv, program));
}

TEST(SplitPaths, ReplacesOriginAndSkipsEmpty) {
  EXPECT_EQ(split_paths("/a::$ORIGIN/../lib:${ORIGIN}", "/opt/bin/tool"),
            (std::vector<std::string>{"/a", "/opt/bin/../lib", "/opt/bin"}));
  EXPECT_TRUE(split_paths("", "/x").empty());
}

}  // namespace
}  // namespace verbena::tools
