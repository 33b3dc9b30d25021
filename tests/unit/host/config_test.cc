// The device model on invented interfaces: order, names, GIDs with their reasons, MTU, GUIDs, and
// one-line errors that name the way out.
#include "host/config.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

namespace verbena::host {
namespace {

InterfaceAddress address(const char* text, uint8_t prefix) {
  return InterfaceAddress{*parse_gid(text), prefix};
}

Interface loopback() {
  return {.name = "lo",
          .ifindex = 1,
          .mtu = 65536,
          .up = true,
          .running = true,
          .loopback = true,
          .addresses = {address("127.0.0.1", 8), address("::1", 128)}};
}

Interface ethernet() {
  return {.name = "eth0",
          .ifindex = 4,
          .mtu = 1500,
          .up = true,
          .running = true,
          .mac = {0x02, 0xfc, 0x00, 0x00, 0x00, 0x01},
          .addresses = {address("fe80::fc:ff:fe00:1", 64), address("fd00::2", 64),
                        address("192.0.2.2", 24), address("192.0.2.3", 24)}};
}

ConfigSource machine() {
  Interface down{.name = "ifb0", .ifindex = 2, .mtu = 1500};
  Interface local_only{.name = "veth1",
                       .ifindex = 3,
                       .mtu = 9000,
                       .up = true,
                       .running = true,
                       .mac = {2, 0, 0, 0, 0, 9},
                       .addresses = {address("fe80::9", 64)}};
  return ConfigSource{.identity = "host", .interfaces = {loopback(), down, local_only, ethernet()}};
}

std::string write_file(const std::string& text) {
  static int serial = 0;
  const std::string path =
      testing::TempDir() + "config" + std::to_string(getpid()) + "_" + std::to_string(serial++);
  std::ofstream(path) << text;
  return path;
}

TEST(Config, DefaultDevicesPutTheUsefulOneFirstAndLoopbackLast) {
  auto devices = load_devices(machine());
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0].name, "verbena0");
  EXPECT_EQ((*devices)[0].interface, "eth0");
  EXPECT_EQ((*devices)[1].interface, "veth1");
  EXPECT_EQ((*devices)[2].name, "verbena2");
  EXPECT_EQ((*devices)[2].interface, "lo");
  EXPECT_TRUE((*devices)[2].port_active);
  EXPECT_EQ((*devices)[0].limits.max_qp_wr, 16384u);
}

TEST(Config, LoopbackAloneIsTheOnlyDevice) {
  auto devices = load_devices(ConfigSource{.identity = "host", .interfaces = {loopback()}});
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ((*devices)[0].name, "verbena0");
  EXPECT_EQ((*devices)[0].path_mtu, 4096u);
  ASSERT_EQ((*devices)[0].gids.size(), 2u);
  EXPECT_EQ(gid_groups((*devices)[0].gids[0].gid), "0000:0000:0000:0000:0000:ffff:7f00:0001");
  EXPECT_EQ(gid_groups((*devices)[0].gids[1].gid), "0000:0000:0000:0000:0000:0000:0000:0001");
}

TEST(Config, NoInterfaceUpIsAnEmptyList) {
  auto devices = load_devices(ConfigSource{.interfaces = {{.name = "lo", .ifindex = 1}}});
  ASSERT_TRUE(devices);
  EXPECT_TRUE(devices->empty());
}

TEST(Config, GidTableIsIpv4ThenIpv6ThenLinkLocalWithReasons) {
  auto devices = load_devices(machine());
  ASSERT_TRUE(devices);
  const auto& gids = (*devices)[0].gids;
  ASSERT_EQ(gids.size(), 4u);
  EXPECT_EQ(engine::address_text(gids[0].gid), "192.0.2.2");
  EXPECT_EQ(engine::address_text(gids[1].gid), "192.0.2.3");
  EXPECT_EQ(engine::address_text(gids[2].gid), "fd00::2");
  EXPECT_EQ(engine::address_text(gids[3].gid), "fe80::fc:ff:fe00:1");
  EXPECT_EQ(gids[0].reason, "IPv4 address 192.0.2.2/24 of eth0");
  EXPECT_EQ(gids[3].reason, "IPv6 link-local address fe80::fc:ff:fe00:1/64 of eth0");
  EXPECT_EQ(gids[2].ifindex, 4u);
}

TEST(Config, PathMtuLeavesRoomForHeaders) {
  EXPECT_EQ(path_mtu_for(65536), 4096u);
  EXPECT_EQ(path_mtu_for(4176), 4096u);
  EXPECT_EQ(path_mtu_for(4175), 2048u);
  EXPECT_EQ(path_mtu_for(1500), 1024u);
  EXPECT_EQ(path_mtu_for(1104), 1024u);
  EXPECT_EQ(path_mtu_for(1103), 512u);
  EXPECT_EQ(path_mtu_for(0), 256u);
}

TEST(Config, GuidIsTheEui64OfTheMacAndNeverZero) {
  auto devices = load_devices(machine());
  ASSERT_TRUE(devices);
  EXPECT_EQ(guid_groups((*devices)[0].node_guid), "00fc:00ff:fe00:0001");
  const uint64_t lo = (*devices)[2].node_guid;
  EXPECT_EQ(lo >> 56 & 3, 2u);  // locally administered, individual
  auto other = machine();
  other.identity = "another host";
  EXPECT_NE(load_devices(other)->at(2).node_guid, lo);
}

TEST(Config, DeviceListNamesAndChoosesInterfaces) {
  auto source = machine();
  source.devices = "mlx5_0=lo,eth0,mlx5_1=eth0";
  auto devices = load_devices(source);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0].name, "mlx5_0");
  EXPECT_EQ((*devices)[0].interface, "lo");
  EXPECT_EQ((*devices)[1].name, "verbena0");
  EXPECT_EQ((*devices)[2].name, "mlx5_1");
  EXPECT_EQ(guid_groups((*devices)[2].node_guid), "00fc:00fe:fe00:0001");  // not eth0's first
}

TEST(Config, MissingInterfaceNamesTheOnesThatExist) {
  auto source = machine();
  source.devices = "a=eth9";
  auto devices = load_devices(source);
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, ENODEV);
  EXPECT_EQ(devices.error().message,
            "VERBENA_DEVICES: device a wants interface 'eth9', which does not exist; interfaces "
            "here: lo, ifb0 (down), veth1, eth0");
}

TEST(Config, MalformedDeviceListAndDuplicateNames) {
  auto source = machine();
  source.devices = "a/b=lo";
  EXPECT_EQ(load_devices(source).error().code, EINVAL);
  source.devices = "a=lo,a=eth0";
  EXPECT_EQ(load_devices(source).error().message, "VERBENA_DEVICES: two devices are named 'a'");
}

TEST(Config, LidHoldsForEveryDevice) {
  auto source = machine();
  source.lid = true;
  source.config_path = write_file("[[device]]\ninterface = \"eth0\"\nlid = false\n");
  auto devices = load_devices(source);
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_EQ((*devices)[0].lid(), 0x0202) << "the last bytes of 192.0.2.2";
  source.devices = "a=lo";
  EXPECT_EQ((*load_devices(source))[0].lid(), 1);
  source.lid = false;
  EXPECT_EQ((*load_devices(source))[0].lid(), 0);
}

TEST(Config, LidVariableIsZeroOrOne) {
  setenv("VERBENA_LID", "1", 1);
  EXPECT_TRUE(ConfigSource::from_environment()->lid);
  setenv("VERBENA_LID", "0", 1);
  EXPECT_FALSE(ConfigSource::from_environment()->lid);
  setenv("VERBENA_LID", "yes", 1);
  EXPECT_EQ(ConfigSource::from_environment().error().message,
            "VERBENA_LID=yes is not known; use 0 or 1");
  unsetenv("VERBENA_LID");
  EXPECT_FALSE(ConfigSource::from_environment()->lid);
}

TEST(Config, FileGivesHolesOrderMtuAndLimits) {
  auto source = machine();
  source.config_path = write_file(R"(
mtu = 512
[limits]
max_qp = 100
[[device]]
name = "mlx5_0"
interface = "eth0"
gids = ["", "", "", "192.0.2.2"]
guid = "0002:c9ff:fe00:0001"
[device.limits]
max_qp_wr = 64
[[device]]
interface = "lo"
gid_order = ["ipv6"]
mtu = 4096
)");
  auto devices = load_devices(source);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 2u);
  const DeviceModel& first = (*devices)[0];
  ASSERT_EQ(first.gids.size(), 4u);
  EXPECT_TRUE(first.gids[2].empty());
  EXPECT_EQ(engine::address_text(first.gids[3].gid), "192.0.2.2");
  EXPECT_EQ(first.node_guid, 0x0002c9fffe000001u);
  EXPECT_EQ(first.path_mtu, 512u);
  EXPECT_EQ(first.limits.max_qp, 100u);
  EXPECT_EQ(first.limits.max_qp_wr, 64u);
  const DeviceModel& second = (*devices)[1];
  EXPECT_EQ(second.name, "verbena0");
  EXPECT_EQ(second.path_mtu, 4096u);
  EXPECT_EQ(second.limits.max_qp, 100u);
  EXPECT_EQ(second.limits.max_qp_wr, 16384u);
  ASSERT_EQ(second.gids.size(), 1u);
}

TEST(Config, ListedGidMustBeOwned) {
  auto source = machine();
  source.config_path = write_file("[[device]]\ninterface = \"lo\"\ngids = [\"10.0.0.1\"]\n");
  auto devices = load_devices(source);
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().message,
            source.config_path +
                ":1: gids lists 10.0.0.1, which is no address of lo; it has: 127.0.0.1, ::1");
}

TEST(Config, UnreadableFileIsOneMessage) {
  auto source = machine();
  source.config_path = "/nonexistent/v.toml";
  auto devices = load_devices(source);
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, ENOENT);
  EXPECT_EQ(devices.error().message,
            "cannot read VERBENA_CONFIG=/nonexistent/v.toml: No such file or directory");
}

TEST(Config, RateCodesMultiplyToTheRate) {
  struct {
    uint32_t rate;
    int width, speed;
  } cases[] = {{10, 1, 4},   {25, 1, 32},  {40, 2, 4},   {50, 1, 64},
               {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
  for (auto& c : cases) {
    DeviceModel device;
    device.rate_gbps = c.rate;
    EXPECT_EQ(device.active_width(), c.width) << c.rate;
    EXPECT_EQ(device.active_speed(), c.speed) << c.rate;
  }
}

TEST(Interfaces, ThisMachineHasALoopback) {
  auto interfaces = read_interfaces();
  ASSERT_TRUE(interfaces);
  bool found = false;
  for (const Interface& interface : *interfaces)
    if (interface.loopback) {
      found = true;
      EXPECT_EQ(interface.name, "lo");
      EXPECT_GE(interface.mtu, 1280u);
      EXPECT_GT(interface.ifindex, 0u);
    }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace verbena::host
