// The shim seen from inside a program: our part of /sys and /dev is the tree, everything else is
// the machine's, and no answer shows the tree's own place. Also which libibverbs dlopen gives.
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "host/tree.h"

namespace verbena::tools {
namespace {

namespace fs = std::filesystem;

class Shim : public testing::Test {
 protected:
  void SetUp() override {
    base_ = testing::TempDir() + "shim_test_XXXXXX";
    ASSERT_NE(mkdtemp(base_.data()), nullptr);
    host::Interface lo{.name = "lo",
                       .ifindex = 1,
                       .mtu = 65536,
                       .up = true,
                       .running = true,
                       .loopback = true,
                       .addresses = {{*host::parse_gid("127.0.0.1"), 8}}};
    auto devices = host::load_devices(host::ConfigSource{.identity = "x", .interfaces = {lo}});
    auto tree = host::ensure_tree(*devices, base_);
    ASSERT_TRUE(tree) << tree.error().message;
    tree_ = *tree;
  }
  void TearDown() override { fs::remove_all(base_); }

  static std::string output(const std::string& command) {
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    std::string text;
    char block[4096];
    for (size_t got; (got = fread(block, 1, sizeof(block), pipe)) > 0;) text.append(block, got);
    pclose(pipe);
    return text;
  }

  std::map<std::string, std::string> probe(const std::string& environment) {
    std::map<std::string, std::string> lines;
    std::istringstream in(output("env " + environment + " " PROBE));
    for (std::string line; std::getline(in, line);)
      lines[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
    return lines;
  }

  // A folder that looks like an installation: a shim or audit module and stand-in libraries.
  std::string installation(const char* object) {
    const std::string folder = base_ + "/lib";
    fs::create_directory(folder);
    fs::copy(object, folder, fs::copy_options::overwrite_existing);
    build(folder + "/libibverbs.so.1", "");
    return folder;
  }

  static void build(const std::string& path, const std::string& options) {
    const std::string source = path + ".c";
    std::ofstream(source) << "int verbs_marker = 1;\n";
    ASSERT_EQ(system(("cc -shared -fPIC -Wl,-soname,libibverbs.so.1 " + options + " -o " + path +
                      " " + source)
                         .c_str()),
              0);
  }

  std::string base_, tree_;
};

TEST_F(Shim, ShowsTheTreeInItsUsualPlace) {
  auto got = probe("LD_PRELOAD=" SHIM " VERBENA_TREE=" + tree_);
  for (const char* name : {"open", "open64", "below", "slash-dots", "relative"})
    EXPECT_EQ(got[name], "1: CA") << name;
  EXPECT_EQ(got["openat"], "Ethernet");
  for (const char* name : {"fopen", "fopen64"}) EXPECT_EQ(got[name], "4: ACTIVE") << name;
  for (const char* name :
       {"stat", "lstat", "fstatat", "statx", "access", "faccessat", "eaccess", "chdir"})
    EXPECT_EQ(got[name], "0") << name;
  EXPECT_EQ(got["directory"], "yes");
  EXPECT_EQ(got["link"], "yes");
  EXPECT_EQ(got["character"], "yes");
  EXPECT_EQ(got["opendir"], "3");  // ".", ".." and the device
  EXPECT_EQ(got["scandir"], "3");
}

TEST_F(Shim, NeverShowsWhereTheTreeLies) {
  auto got = probe("LD_PRELOAD=" SHIM " VERBENA_TREE=" + tree_);
  EXPECT_EQ(got["glob"], "1 /sys/class/infiniband/verbena0");
  EXPECT_EQ(got["realpath"], "/sys/devices/pcibe00:00/be00:00:00.0");
  EXPECT_EQ(got["canonicalize"], "/sys/devices/pcibe00:00/be00:00:00.0/infiniband/verbena0");
  EXPECT_EQ(got["getcwd"], "/sys/devices/pcibe00:00/be00:00:00.0/infiniband/verbena0");
  EXPECT_EQ(got["readlink"], "../../devices/pcibe00:00/be00:00:00.0/infiniband/verbena0");
  for (const auto& [name, value] : got)
    EXPECT_EQ(value.find(base_), std::string::npos) << name << " " << value;
}

TEST_F(Shim, LeavesOtherPathsAndErrnoAlone) {
  auto got = probe("LD_PRELOAD=" SHIM " VERBENA_TREE=" + tree_);
  EXPECT_EQ(got["other"], "error");
  EXPECT_EQ(got["null"], "");
  EXPECT_EQ(got["errno"], "kept");
  EXPECT_EQ(got["parent"], "1");  // /sys/class/infiniband/../net is the machine's
}

TEST_F(Shim, WithoutATreeItChangesNothing) {
  if (fs::exists("/sys/class/infiniband")) GTEST_SKIP() << "this machine has adapters";
  auto got = probe("LD_PRELOAD=" SHIM);
  EXPECT_EQ(got["open"], "error");
  EXPECT_EQ(got["stat"], "error");
  EXPECT_EQ(got["glob"], "none");
  EXPECT_EQ(got["null"], "");
}

TEST_F(Shim, DlopenByAnyNameGivesOurs) {
  const std::string folder = installation(SHIM);
  fs::create_directory(base_ + "/other");
  build(base_ + "/other/libibverbs.so.1", "");
  const std::string environment = "env LD_PRELOAD=" + folder + "/libverbena-shim.so " PROBE " ";
  const std::string ours = "dlopen " + folder + "/libibverbs.so.1\n";
  EXPECT_EQ(output(environment + "libibverbs.so"), ours);
  EXPECT_EQ(output(environment + "libibverbs.so.1"), ours);
  EXPECT_EQ(output(environment + base_ + "/other/libibverbs.so.1"), ours);
  EXPECT_EQ(output(environment + "libibverbs.so.2"), "dlopen error\n");
}

TEST_F(Shim, DlopenKeepsTheCallersSearchPath) {
  const std::string folder = installation(SHIM);
  const std::string program = base_ + "/caller";
  fs::create_directory(base_ + "/plugins");
  build(base_ + "/plugins/libplugin.so", "");
  std::ofstream(program + ".c") << "#include <dlfcn.h>\n#include <stdio.h>\n"
                                   "int main(void) { puts(dlopen(\"libplugin.so\", RTLD_NOW) ? "
                                   "\"found\" : \"lost\"); return 0; }\n";
  ASSERT_EQ(system(("cc -Wl,--enable-new-dtags -Wl,-rpath,'$ORIGIN/plugins' -o " + program + " " +
                    program + ".c")
                       .c_str()),
            0);
  EXPECT_EQ(output("env LD_PRELOAD=" + folder + "/libverbena-shim.so " + program), "found\n");
}

TEST_F(Shim, AuditModuleWinsOverRpath) {
  const std::string folder = installation(AUDIT);
  const std::string program = base_ + "/linked";
  fs::create_directory(base_ + "/rpath");
  build(base_ + "/rpath/libibverbs.so.1", "");
  std::ofstream(program + ".c")
      << "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\nextern int verbs_marker;\n"
         "int main(void) { Dl_info i; dladdr(&verbs_marker, &i); puts(i.dli_fname); return 0; }\n";
  ASSERT_EQ(system(("cc -fPIC -pie -Wl,--disable-new-dtags -Wl,-rpath," + base_ + "/rpath -o " +
                    program + " " + program + ".c " + base_ + "/rpath/libibverbs.so.1")
                       .c_str()),
            0);
  EXPECT_EQ(output(program), base_ + "/rpath/libibverbs.so.1\n");
  EXPECT_EQ(output("env LD_LIBRARY_PATH=" + folder + " " + program),
            base_ + "/rpath/libibverbs.so.1\n");
  EXPECT_EQ(output("env LD_AUDIT=" + folder + "/libverbena-audit.so " + program),
            folder + "/libibverbs.so.1\n");
}

}  // namespace
}  // namespace verbena::tools
