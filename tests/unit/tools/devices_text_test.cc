// `verbena devices` in words and as JSON.
#include "tools/devices_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::tools {
namespace {

std::vector<host::DeviceModel> devices() {
  host::Interface eth0{
      .name = "eth0",
      .ifindex = 2,
      .mtu = 1500,
      .up = true,
      .running = true,
      .mac = {2, 0xfc, 0, 0, 0, 1},
      .addresses = {{*host::parse_gid("192.0.2.2"), 24}, {*host::parse_gid("fd00::2"), 64}}};
  return *host::load_devices(host::ConfigSource{.identity = "x", .interfaces = {eth0}});
}

TEST(DevicesText, SaysWhyEachGidIsThere) {
  EXPECT_EQ(devices_text(devices(), false),
            "verbena0 on eth0\n"
            "  port 1           ACTIVE, Ethernet (RoCE v2)\n"
            "  node GUID        00fc:00ff:fe00:0001\n"
            "  path MTU         1024 (the largest whose packets fit eth0's 1500 bytes)\n"
            "  rate             100 Gb/s\n"
            "  firmware         0.1.0\n"
            "  GID 0            0000:0000:0000:0000:0000:ffff:c000:0202  IPv4 address "
            "192.0.2.2/24 of eth0\n"
            "  GID 1            fd00:0000:0000:0000:0000:0000:0000:0002  IPv6 address fd00::2/64 "
            "of eth0\n");
}

TEST(DevicesText, SaysWhatIsWrong) {
  auto list = devices();
  list[0].port_active = false;
  list[0].gids.clear();
  list[0].path_mtu = 512;
  const std::string text = devices_text(list, true);
  EXPECT_NE(text.find("DOWN: eth0 is down or has no carrier\n"), std::string::npos);
  EXPECT_NE(text.find("512 (configured; eth0 with 1500 bytes could carry 1024)\n"),
            std::string::npos);
  EXPECT_NE(text.find("none: eth0 has no address of a configured kind\n"), std::string::npos);
  EXPECT_NE(text.find("  max_qp_wr        16384\n"), std::string::npos);
}

TEST(DevicesText, Json) {
  auto list = devices();
  list[0].gids.push_back(host::GidEntry{.reason = "a hole"});
  const auto json = nlohmann::json::parse(devices_json(list));
  const auto& device = json["devices"][0];
  EXPECT_EQ(device["name"], "verbena0");
  EXPECT_EQ(device["path_mtu"], 1024);
  EXPECT_EQ(device["gids"][0]["gid"], "0000:0000:0000:0000:0000:ffff:c000:0202");
  EXPECT_EQ(device["gids"][0]["address"], "192.0.2.2");
  EXPECT_EQ(device["gids"][1]["index"], 1);
  EXPECT_FALSE(device["gids"][2].contains("address"));
  EXPECT_EQ(device["limits"]["max_mr_size"], uint64_t{1} << 63);
  EXPECT_EQ(devices_json({}), "{\n  \"devices\": []\n}");
}

}  // namespace
}  // namespace verbena::tools
