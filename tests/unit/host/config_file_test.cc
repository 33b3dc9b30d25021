// Each way a VERBENA_CONFIG file can be wrong is one message with the file and the line.
#include "host/config_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "base/prng.h"

namespace verbena::host {
namespace {

std::string error_of(const char* text) {
  auto parsed = parse_config(text, "v.toml");
  return parsed ? "no error" : parsed.error().message;
}

TEST(ConfigFile, EmptyFileIsTheDefaults) {
  auto parsed = parse_config("", "v.toml");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->devices.empty());
  EXPECT_EQ(parsed->defaults.limits, Limits{});
}

TEST(ConfigFile, MalformedTomlHasFileAndLine) {
  const std::string error = error_of("mtu = 1024\n[[device]\n");
  EXPECT_EQ(error.rfind("v.toml:2: not valid TOML: ", 0), 0u) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

// Whatever a file holds: one sentence, and the program goes on. The first are those that once ended
// it.
TEST(ConfigFile, NoFileEndsTheProgram) {
  for (const char* text :
       {"[[[", "[=",   "[.", "[[[a]]]", "[",    "[[", "a",   "a.",   "a=",   "a=[", "\"",
        "'",   "a=\"", "{",  "a={",     "a={b", "[a", "[[a", "[[a]", "a=1_", "a=0x"})
    EXPECT_EQ(error_of(text).rfind("v.toml:1: ", 0), 0u) << text << ": " << error_of(text);
  std::ifstream file(DOCS "/../examples/devices.toml");
  const std::string good(std::istreambuf_iterator<char>(file), {});
  ASSERT_EQ(error_of(good.c_str()), "no error");
  const std::string spice =
      "[]{}=\"'.,#\n\t \\\x01\xff"
      "a0-_+:T\r";
  Prng prng(1);
  size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good.substr(0, prng.below(2) ? good.size() : prng.below(good.size()));
    for (uint64_t i = prng.between(1, 4); i != 0; --i) {
      const size_t at = prng.below(text.size() + 1);
      const char byte = spice[prng.below(spice.size())];
      if (prng.below(2) || at == text.size())
        text.insert(at, 1, byte);
      else if (prng.below(2))
        text[at] = byte;
      else
        text.erase(at, 1);
    }
    const std::string error = error_of(text.c_str());
    if (error == "no error") continue;
    ++refused;
    EXPECT_EQ(error.rfind("v.toml:", 0), 0u) << error;
  }
  EXPECT_GT(refused, 5'000u);
}

TEST(ConfigFile, ErrorsNameLineKeyAndChoice) {
  EXPECT_EQ(error_of("\nmtu = 1500\n"), "v.toml:2: mtu must be one of 256, 512, 1024, 2048, 4096");
  EXPECT_EQ(error_of("[limits]\nmax_qp = 70000\n"),
            "v.toml:2: max_qp is 70000; it may be 1 to 65535");
  EXPECT_EQ(error_of("[limits]\nmax_qp = -1\n"), "v.toml:2: max_qp is -1; it may be 1 to 65535");
  EXPECT_EQ(error_of("[limits]\nmax_qp = \"many\"\n"),
            "v.toml:2: max_qp is a string; write an integer from 1 to 65535");
  EXPECT_EQ(error_of("[[device]]\nname = \"x\"\n"),
            "v.toml:1: this [[device]] has no interface; add interface = \"eth0\"");
  EXPECT_EQ(error_of("[[device]]\ninterface = \"lo\"\nguid = \"0:0\"\n"),
            "v.toml:3: guid must be a string of 16 hex digits, not all 0, such as "
            "\"0002:c9ff:fe00:0001\"");
  EXPECT_EQ(error_of("device = 3\n"),
            "v.toml:1: device must be an array of tables: write [[device]]");
  EXPECT_EQ(error_of("[[device]]\ninterface = \"lo\"\ngids = [\"\", \"host\"]\n"),
            "v.toml:3: gids[1] must be an IPv4 or IPv6 address, or \"\" for a hole");
  EXPECT_EQ(error_of("[[device]]\nname = \"../x\"\ninterface = \"lo\"\n"),
            "v.toml:2: name must be a string of 1 to 63 printable characters without space, '/', "
            "',' or '='");
}

TEST(ConfigFile, UnknownKeysListTheKnown) {
  const std::string top = error_of("colour = 1\n");
  EXPECT_EQ(top.rfind("v.toml:1: unknown key 'colour'; known keys: device, mtu, ", 0), 0u) << top;
  const std::string limit = error_of("[limits]\nmax_qps = 1\n");
  EXPECT_EQ(limit.rfind("v.toml:2: unknown limit 'max_qps'; known limits: ", 0), 0u) << limit;
  const std::string device = error_of("[[device]]\ninterface = \"lo\"\niface = \"lo\"\n");
  EXPECT_EQ(device.rfind("v.toml:3: unknown key 'iface' in [[device]]; ", 0), 0u) << device;
}

// docs/devices.md against the parser: both ends of each range are taken, one beyond is refused with
// the range, and no limit is missing from the page.
TEST(ConfigFile, LimitsAreAsDocumented) {
  std::ifstream file(DOCS "/devices.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::regex row(R"(\| `(max_\w+)` \| (\d+) to (\d+) )");
  size_t documented = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at, ++documented) {
    const std::string key = (*at)[1], min = (*at)[2], max = (*at)[3];
    const auto given = [&](const std::string& value) {
      return error_of(("[limits]\n" + key + " = " + value + "\n").c_str());
    };
    EXPECT_EQ(given(min), "no error") << key;
    EXPECT_EQ(given(max), "no error") << key;
    const std::string range = " it may be " + min + " to " + max;
    EXPECT_NE(given(std::to_string(std::stoll(min) - 1)).find(range), std::string::npos) << key;
    if (max.size() < 19) {
      EXPECT_NE(given(std::to_string(std::stoll(max) + 1)).find(range), std::string::npos) << key;
    }
  }
  const std::string known = error_of("[limits]\nnothing = 1\n");
  EXPECT_EQ(documented, static_cast<size_t>(std::count(known.begin(), known.end(), ',')) + 1);
}

TEST(ConfigFile, GidOrderTakesEachKindOnce) {
  auto parsed = parse_config("gid_order = [\"ipv6\", \"ipv4\"]\n", "v.toml");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->defaults.gid_order, (std::vector<GidKind>{GidKind::kIpv6, GidKind::kIpv4}));
  EXPECT_NE(error_of("gid_order = [\"ipv4\", \"ipv4\"]\n"), "no error");
  EXPECT_NE(error_of("gid_order = [\"ib\"]\n"), "no error");
}

}  // namespace
}  // namespace verbena::host
