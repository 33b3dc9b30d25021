// What `verbena run` refuses before it starts a program, value by value.
#include "tools/settings.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
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

std::vector<std::string> doubts(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return unknown_settings(environment.data());
}

TEST(Settings, MisspeltNamesAreTold) {
  using Sentences = std::vector<std::string>;
  EXPECT_EQ(doubts({"VERBENA_LOGG=explain"}),
            Sentences{"VERBENA_LOGG is no setting of Verbena and does nothing; did you mean "
                      "VERBENA_LOG?"});
  EXPECT_EQ(doubts({"VERBNEA_PCAP=x", "VERBENA_DEVICE=a=b", "VERBENA_FAULTS="}),
            (Sentences{"VERBNEA_PCAP is no setting of Verbena and does nothing; did you mean "
                       "VERBENA_PCAP?",
                       "VERBENA_DEVICE is no setting of Verbena and does nothing; did you mean "
                       "VERBENA_DEVICES?",
                       "VERBENA_FAULTS is no setting of Verbena and does nothing; did you mean "
                       "VERBENA_FAULT?"}));
  EXPECT_EQ(doubts({"VERBENA_LGO=explain"}),
            Sentences{"VERBENA_LGO is no setting of Verbena and does nothing; did you mean "
                      "VERBENA_LOG?"});
  const Sentences far = doubts({"VERBENA_LOSE_EVERYTHING=1"});
  ASSERT_EQ(far.size(), 1u);
  EXPECT_EQ(far[0].find("VERBENA_LOSE_EVERYTHING is no setting of Verbena and does nothing; "
                        "settings: VERBENA_CONFIG, VERBENA_DEVICES, "),
            0u);
}

TEST(Settings, KnownAndForeignNamesAreNot) {
  EXPECT_TRUE(doubts({"VERBENA_LOG=explain", "VERBENA_TREE=/x", "VERBENA_BUILD=b", "PATH=/bin",
                      "VERBENA=1", "LOG=explain", "=", "", "WITHOUT", "_=/bin/x"})
                  .empty());
  const std::string huge(100000, 'V');
  EXPECT_TRUE(doubts({huge.c_str()}).empty());
}

// Every variable that the sources read has its place in the list.
TEST(Settings, EveryVariableThatIsReadIsKnown) {
  const std::regex read(R"x(getenv\("(VERBENA_[A-Z_]+)"\))x");
  std::set<std::string> names;
  for (const auto& file : std::filesystem::recursive_directory_iterator(SOURCES)) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at)
      names.insert((*at)[1]);
  }
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names)
    EXPECT_TRUE(doubts({(name + "=1").c_str()}).empty()) << name;
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
