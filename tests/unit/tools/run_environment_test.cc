// The variables of `verbena run`: ours in front, the user's kept, nothing twice.
#include "tools/run_environment.h"

#include <gtest/gtest.h>

#include <map>

namespace verbena::tools {
namespace {

std::map<std::string, std::string> changes(const RunSetup& setup,
                                           const std::map<std::string, std::string>& current) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : run_environment(setup, [&](const char* wanted) {
         const auto found = current.find(wanted);
         return found == current.end() ? nullptr : found->second.c_str();
       }))
    out[name] = value;
  return out;
}

TEST(RunEnvironment, EnvMode) {
  EXPECT_EQ(changes({.folder = "/v/lib", .tree = "/t"}, {}),
            (std::map<std::string, std::string>{{"LD_LIBRARY_PATH", "/v/lib"},
                                                {"LD_PRELOAD", "/v/lib/libverbena-shim.so"},
                                                {"VERBENA_TREE", "/t"}}));
}

TEST(RunEnvironment, KeepsWhatIsThereBehindOurs) {
  auto got = changes({.folder = "/v/lib", .tree = "/t", .audit = true},
                     {{"LD_LIBRARY_PATH", "/x"},
                      {"LD_PRELOAD", "/v/lib/libverbena-shim.so:/y.so"},
                      {"VERBENA_DEVICES", "a=lo"},
                      {"VERBENA_LID", "1"},
                      {"VERBENA_CONFIG", ""}});
  EXPECT_EQ(got["LD_LIBRARY_PATH"], "/v/lib:/x");
  EXPECT_EQ(got["LD_PRELOAD"], "/v/lib/libverbena-shim.so:/y.so");
  EXPECT_EQ(got["LD_AUDIT"], "/v/lib/libverbena-audit.so");
  EXPECT_EQ(got["VERBENA_DEVICES"], "a=lo");
  EXPECT_EQ(got["VERBENA_LID"], "1");
  EXPECT_EQ(got.count("VERBENA_CONFIG"), 0u);
}

TEST(RunEnvironment, SocketsBringTwoLibrariesInTheirOrder) {
  auto got = changes({.folder = "/v", .tree = "/t", .preload = "/r/librspreload.so"},
                     {{"LD_PRELOAD", "/y.so"}});
  EXPECT_EQ(got["LD_PRELOAD"],
            "/v/libverbena-shim.so:/r/librspreload.so:/v/libverbena-sockets.so:/y.so");
  EXPECT_EQ(
      changes({.folder = "/v", .tree = "/t", .shim = false, .preload = "/r.so"}, {})["LD_PRELOAD"],
      "/r.so:/v/libverbena-sockets.so");
}

TEST(RunEnvironment, NamespaceModeHasNoShim) {
  EXPECT_EQ(changes({.folder = "/v", .tree = "/t", .shim = false}, {}).count("LD_PRELOAD"), 0u);
}

TEST(RunEnvironment, ExplainKeepsAFile) {
  EXPECT_EQ(changes({.folder = "/v", .tree = "/t", .explain = true}, {})["VERBENA_LOG"], "explain");
  EXPECT_EQ(
      changes({.folder = "/v", .tree = "/t", .explain = true}, {{"VERBENA_LOG", "explain:/f"}})
          .count("VERBENA_LOG"),
      0u);
}

TEST(ShellQuoted, SurvivesQuotes) {
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace verbena::tools
