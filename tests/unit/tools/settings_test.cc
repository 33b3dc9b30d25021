// What `verbena run` refuses before it starts a program, value by value.
#include "tools/settings.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

namespace verbena::tools {
namespace {

// "" when accepted, else the sentence.
std::string refusal(const std::string& name, const std::string& value) {
  const auto checked =
      check_settings([&](const char* asked) { return name == asked ? value.c_str() : nullptr; });
  return checked ? "" : checked.error().message;
}

TEST(Settings, NothingSetIsFine) {
  EXPECT_TRUE(check_settings([](const char*) { return nullptr; }));
  EXPECT_TRUE(check_settings([](const char*) { return ""; }));
}

TEST(Settings, SwitchesAreOnOrOff) {
  for (const std::string name : {"VERBENA_LOCAL", "VERBENA_FAULT_GUARD"}) {
    for (const char* good : {"on", "off", "0", "1", ""}) EXPECT_EQ(refusal(name, good), "");
    for (const char* bad : {"maybe", "Off", "of", "2"})
      EXPECT_EQ(refusal(name, bad), name + "=" + bad + " is not known; use on or off");
  }
}

TEST(Settings, FaultsAreParsed) {
  EXPECT_EQ(refusal("VERBENA_FAULT", "drop=1%,seed=7"), "");
  EXPECT_NE(refusal("VERBENA_FAULT", "dorp=1%").find("dorp"), std::string::npos);
  EXPECT_NE(refusal("VERBENA_FAULT", "drop=101%").find("VERBENA_FAULT"), std::string::npos);
}

TEST(Settings, LogsNameAWordAndAFile) {
  const std::string file = testing::TempDir() + "settings.log";
  EXPECT_EQ(refusal("VERBENA_LOG", "explain"), "");
  EXPECT_EQ(refusal("VERBENA_LOG", "explain:" + file), "");
  EXPECT_EQ(refusal("VERBENA_TRACE", "packets:" + file), "");
  EXPECT_EQ(refusal("VERBENA_LOG", "explian"),
            "VERBENA_LOG=explian is not known; use explain or explain:FILE");
  EXPECT_EQ(refusal("VERBENA_LOG", "explain:"),
            "VERBENA_LOG=explain: is not known; use explain or explain:FILE");
  EXPECT_EQ(refusal("VERBENA_TRACE", "explain"),
            "VERBENA_TRACE=explain is not known; use packets or packets:FILE");
  EXPECT_NE(access(file.c_str(), F_OK), 0) << "checking writes nothing";
}

TEST(Settings, CapturesMustBeWritable) {
  EXPECT_EQ(refusal("VERBENA_PCAP", testing::TempDir() + "run-%p.pcap"), "");
  EXPECT_EQ(
      refusal("VERBENA_PCAP", "/nowhere/x.pcap"),
      "VERBENA_PCAP=/nowhere/x.pcap: cannot write /nowhere/x.pcap: /nowhere/: No such file or "
      "directory");
  EXPECT_EQ(refusal("VERBENA_PCAP", "/tmp"),
            "VERBENA_PCAP=/tmp: cannot write /tmp: Is a directory");
}

}  // namespace
}  // namespace verbena::tools
