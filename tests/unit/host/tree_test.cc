// The generated tree: its values, that 16 processes racing make one whole tree, that a damaged one
// is replaced, and that counter files hold the sum over all processes in Linux's units.
#include "host/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "host/tree_counters.h"

namespace verbena::host {
namespace {

namespace fs = std::filesystem;

class Tree : public testing::Test {
 protected:
  void SetUp() override {
    base_ = testing::TempDir() + "tree_test_XXXXXX";
    ASSERT_NE(mkdtemp(base_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(base_); }

  static std::vector<DeviceModel> devices() {
    Interface lo{.name = "lo",
                 .ifindex = 1,
                 .mtu = 65536,
                 .up = true,
                 .running = true,
                 .loopback = true,
                 .addresses = {{*parse_gid("127.0.0.1"), 8}}};
    Interface eth0{.name = "eth0",
                   .ifindex = 2,
                   .mtu = 1500,
                   .up = true,
                   .running = true,
                   .mac = {2, 0xfc, 0, 0, 0, 1},
                   .addresses = {{*parse_gid("192.0.2.2"), 24}}};
    return *load_devices(ConfigSource{.identity = "x", .interfaces = {lo, eth0}});
  }

  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  std::string base_;
};

TEST_F(Tree, HoldsTheDeviceModel) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree) << tree.error().message;
  const std::string device = *tree + "/sys/class/infiniband/verbena0/";
  EXPECT_EQ(read(device + "node_guid"), "00fc:00ff:fe00:0001\n");
  EXPECT_EQ(read(device + "node_type"), "1: CA\n");
  EXPECT_EQ(read(device + "ports/1/state"), "4: ACTIVE\n");
  EXPECT_EQ(read(device + "ports/1/link_layer"), "Ethernet\n");
  EXPECT_EQ(read(device + "ports/1/rate"), "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(read(device + "ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:c000:0202\n");
  EXPECT_EQ(read(device + "ports/1/gid_attrs/types/0"), "RoCE v2\n");
  EXPECT_EQ(read(device + "ports/1/gid_attrs/ndevs/0"), "eth0\n");
  EXPECT_EQ(read(device + "ports/1/pkeys/0"), "0xffff\n");
  EXPECT_EQ(read(device + "device/numa_node"), "-1\n");
  EXPECT_EQ(read(device + "ports/1/counters/port_rcv_data"), counter_text(0));
  EXPECT_EQ(read(device + "ports/1/hw_counters/np_ecn_marked_roce_packets"), counter_text(0));
  EXPECT_EQ(read(*tree + "/sys/class/infiniband_verbs/uverbs1/ibdev"), "verbena1\n");
  EXPECT_EQ(fs::read_symlink(device + "device/net/eth0"), "/sys/class/net/eth0");
  EXPECT_EQ(fs::canonical(device + "device"),
            fs::canonical(*tree) / "sys/devices/pcibe00:00/be00:00:00.0");
  EXPECT_EQ(fs::canonical(*tree + "/sys/class/pci_bus/be00:01/../../be00:01:00.0"),
            fs::canonical(*tree) / "sys/devices/pcibe00:01/be00:01:00.0");
}

TEST_F(Tree, DeviceFilesAreCharacterDevices) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  for (const char* name : {"uverbs0", "uverbs1", "verbena0"}) {
    struct stat info;
    ASSERT_EQ(stat((*tree + "/dev/infiniband/" + name).c_str(), &info), 0) << name;
    EXPECT_TRUE(S_ISCHR(info.st_mode)) << name;
  }
  EXPECT_FALSE(fs::exists(*tree + "/dev/infiniband/rdma_cm"));
}

TEST_F(Tree, EqualDevicesShareATreeAndOthersDoNot) {
  auto one = ensure_tree(devices(), base_);
  auto two = ensure_tree(devices(), base_);
  auto changed = devices();
  changed[0].name = "mlx5_0";
  auto three = ensure_tree(changed, base_);
  ASSERT_TRUE(one && two && three);
  EXPECT_EQ(*one, *two);
  EXPECT_NE(*one, *three);
  EXPECT_TRUE(fs::exists(*three + "/sys/class/infiniband/mlx5_0/ports/1/gids/0"));
}

TEST_F(Tree, HoleHasAZeroGidAndNoType) {
  auto model = devices();
  model[0].gids.insert(model[0].gids.begin(), GidEntry{});
  auto tree = ensure_tree(model, base_);
  ASSERT_TRUE(tree);
  const std::string port = *tree + "/sys/class/infiniband/verbena0/ports/1/";
  EXPECT_EQ(read(port + "gids/0"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_FALSE(fs::exists(port + "gid_attrs/types/0"));
  EXPECT_EQ(read(port + "gid_attrs/types/1"), "RoCE v2\n");
}

TEST_F(Tree, SixteenProcessesMakeOneWholeTree) {
  const auto model = devices();
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto tree = ensure_tree(model, base_);
      const bool whole = tree && fs::exists(*tree + "/sys/class/infiniband/verbena1/ports/1/rate");
      _exit(whole ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(base_)) {
    EXPECT_EQ(entry.path().filename().string().rfind("tree-", 0), 0u) << entry.path();
    ++entries;
  }
  EXPECT_EQ(entries, 1u);
}

TEST_F(Tree, DamagedTreeIsReplaced) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  fs::remove_all(*tree + "/sys/class");
  fs::remove(*tree + "/.complete");
  auto again = ensure_tree(devices(), base_);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *tree);
  EXPECT_TRUE(fs::exists(*again + "/sys/class/infiniband/verbena0/ports"));
}

TEST_F(Tree, OldTreesArePruned) {
  auto model = devices();
  for (size_t i = 0; i < kMaxTrees + 3; ++i) {
    model[0].vendor_part_id = static_cast<uint32_t>(100 + i);
    ASSERT_TRUE(ensure_tree(model, base_));
  }
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(base_)) ++entries;
  EXPECT_EQ(entries, kMaxTrees);
}

std::string lock_and_add(const std::string& tree, const std::string& device,
                         std::span<const CounterDelta> deltas) {
  for (;;) {
    auto lock = TreeCounters::lock(tree);
    if (!lock && lock.error().code == EWOULDBLOCK) {
      usleep(100);
      continue;
    }
    if (!lock) return lock.error().message;
    auto added = lock->add(device, deltas);
    return added ? "" : added.error().message;
  }
}

TEST_F(Tree, CountersAddUpAndFollowInAnOpenFile) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  const std::string port = *tree + "/sys/class/infiniband/verbena0/ports/1/";
  std::ifstream kept(port + "counters/port_xmit_data");  // as perftest keeps it
  const CounterDelta values[] = {{"port_xmit_data", 1024}, {"out_of_sequence", 3}, {"novel", 1}};
  ASSERT_EQ(lock_and_add(*tree, "verbena0", values), "");
  ASSERT_EQ(lock_and_add(*tree, "verbena0", values), "");
  uint64_t number = 0;
  kept >> number;
  EXPECT_EQ(number, 2048u);
  EXPECT_EQ(read(port + "counters/port_xmit_data"), counter_text(2048));
  EXPECT_EQ(read(port + "hw_counters/out_of_sequence"), counter_text(6));
  EXPECT_EQ(read(port + "hw_counters/novel"), counter_text(2));
  EXPECT_EQ(read(port + "hw_counters/lifespan"), "10\n");
  EXPECT_EQ(read(*tree + "/sys/class/infiniband/verbena1/ports/1/counters/port_xmit_data"),
            counter_text(0));
  const CounterDelta wrap[] = {{"novel", UINT64_MAX}};
  ASSERT_EQ(lock_and_add(*tree, "verbena0", wrap), "");
  EXPECT_EQ(read(port + "hw_counters/novel"), counter_text(1));
  std::ofstream(port + "hw_counters/novel") << "no number";
  ASSERT_EQ(lock_and_add(*tree, "verbena0", values), "");
  EXPECT_EQ(read(port + "hw_counters/novel"), counter_text(1));
}

// As cat reads: what is there, then what is behind it.
TEST_F(Tree, ACounterThatGrowsBetweenTwoReadsIsStillOneNumber) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  const std::string path =
      *tree + "/sys/class/infiniband/verbena0/ports/1/hw_counters/out_of_sequence";
  const int fd = open(path.c_str(), O_RDONLY);
  char text[64];
  const ssize_t first = ::read(fd, text, sizeof(text));
  const CounterDelta deltas[] = {{"out_of_sequence", 1234}};
  ASSERT_EQ(lock_and_add(*tree, "verbena0", deltas), "");
  EXPECT_EQ(std::string(text, static_cast<size_t>(first)), counter_text(0));
  EXPECT_EQ(::read(fd, text, sizeof(text)), 0) << "nothing may be left";
  close(fd);
  EXPECT_EQ(read(path), counter_text(1234));
  EXPECT_EQ(counter_text(UINT64_MAX), "18446744073709551615\n");
  EXPECT_EQ(counter_text(7).size(), kCounterBytes);
}

TEST_F(Tree, CountersOfManyProcessesAreTheirSum) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const CounterDelta deltas[] = {{"port_rcv_packets", 7}, {"rdma_sends", 1}};
      for (int round = 0; round < 200; ++round)
        if (!lock_and_add(*tree, "verbena0", deltas).empty()) _exit(1);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const std::string port = *tree + "/sys/class/infiniband/verbena0/ports/1/";
  EXPECT_EQ(read(port + "counters/port_rcv_packets"), counter_text(11200));
  EXPECT_EQ(read(port + "hw_counters/rdma_sends"), counter_text(1600));
}

TEST_F(Tree, CountersAreNeverWaitedFor) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  {
    auto held = TreeCounters::lock(*tree);
    ASSERT_TRUE(held);
    EXPECT_EQ(TreeCounters::lock(*tree).error().code, EWOULDBLOCK);
  }
  EXPECT_TRUE(TreeCounters::lock(*tree));
  EXPECT_EQ(TreeCounters::lock(base_ + "/nowhere").error().code, ENOENT);
}

TEST_F(Tree, CountersRefuseBadNamesAndDevices) {
  auto tree = ensure_tree(devices(), base_);
  ASSERT_TRUE(tree);
  auto lock = TreeCounters::lock(*tree);
  ASSERT_TRUE(lock);
  const CounterDelta bad[] = {{"../state", 1}};
  EXPECT_EQ(lock->add("verbena0", bad).error().code, EINVAL);
  const CounterDelta good[] = {{"novel", 1}};
  EXPECT_EQ(lock->add("nobody", good).error().code, ENOENT);
  EXPECT_EQ(lock->add("../x", good).error().code, EINVAL);
}

TEST(Counters, DataCountsInWordsAsSysfsHasIt) {
  EXPECT_EQ(counter_divisor("port_xmit_data"), 4u);
  EXPECT_EQ(counter_divisor("port_rcv_data"), 4u);
  EXPECT_EQ(counter_divisor("port_xmit_packets"), 1u);
}

// A first choice that takes the directory but not the tree, as a full file system does: here its
// path leaves no room for the tree's.
TEST_F(Tree, IsMadeInTheNextDirectoryWhereTheFirstCannotHoldIt) {
  const std::string before = fs::current_path();
  std::string deep = base_;
  fs::current_path(base_);
  while (deep.size() < 4030) {
    const std::string name(std::min<size_t>(200, 4040 - deep.size()), 'd');
    fs::create_directory(name);
    fs::current_path(name);
    deep += "/" + name;
  }
  fs::current_path(before);
  setenv("XDG_RUNTIME_DIR", deep.c_str(), 1);
  auto tree = ensure_tree(devices());
  unsetenv("XDG_RUNTIME_DIR");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_NE(tree->substr(0, base_.size()), base_);
  EXPECT_EQ(read(*tree + "/sys/class/infiniband/verbena0/node_type"), "1: CA\n");
}

// All users of `unshare -rn` are uid 0 to themselves: the name is taken, the next one is ours.
TEST_F(Tree, PrivateDirectoryStepsAsideWhereTheNameIsTaken) {
  const std::string wanted = base_ + "/verbena-" + std::to_string(geteuid());
  setenv("XDG_RUNTIME_DIR", base_.c_str(), 1);
  for (mode_t taken : {0755, 0777, 0}) {
    fs::remove_all(wanted);
    if (taken == 0) {
      std::ofstream(wanted) << "a file";
    } else {
      fs::create_directory(wanted);
      chmod(wanted.c_str(), taken);
    }
    auto path = private_directory();
    EXPECT_TRUE(path && *path == wanted + ".1") << (path ? *path : path.error().message);
    auto again = private_directory();
    EXPECT_TRUE(again && *again == wanted + ".1");
  }
  unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(Tree, PrivateDirectoryIsOursAlone) {
  auto path = private_directory();
  ASSERT_TRUE(path) << path.error().message;
  struct stat info;
  ASSERT_EQ(stat(path->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(info.st_uid, geteuid());
}

}  // namespace
}  // namespace verbena::host
