// Devices, ports, tables, domains and sharing by handle.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "verbs_fixture.h"

extern "C" int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                   size_t size);

namespace verbena::test {
namespace {

int count_threads() {
  DIR* tasks = opendir("/proc/self/task");
  int count = 0;
  while (dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

// Runs before any other test makes a queue pair (gtest keeps the order of definition).
TEST_F(Verbs, AANoThreadBeforeTheFirstQueuePair) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ibv_cq* cq = ibv_create_cq(context_, 10, nullptr, channel, 0);
  char buffer[64];
  ibv_mr* mr = ibv_reg_mr(pd_, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(count_threads(), 1);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST(Devices, KeepTheirAddressAcrossLists) {
  setenv("VERBENA_DEVICES", "test0=lo", 0);
  ibv_device** first = ibv_get_device_list(nullptr);
  ibv_device** second = ibv_get_device_list(nullptr);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_STREQ(ibv_get_device_name(first[0]), "test0");
  EXPECT_NE(ibv_get_device_guid(first[0]), 0u);
  EXPECT_EQ(ibv_get_device_index(first[0]), 0);
  ibv_free_device_list(first);
  ibv_free_device_list(second);
}

TEST_F(Verbs, DeviceAttributes) {
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attr.max_pkeys, 1);
  EXPECT_EQ(attr.node_guid, ibv_get_device_guid(context_->device));
  EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_XRC);
  EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  EXPECT_FALSE(attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
  ibv_device_attr_ex extended;
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp, attr.max_qp);
  EXPECT_TRUE(extended.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
  EXPECT_EQ(extended.phys_port_cnt_ex, 1u);
  EXPECT_GE(extended.max_dm_size, 4096u);
}

TEST_F(Verbs, PortAndTables) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.flags, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(port.max_msg_sz, 1u << 31);
  ibv_port_attr none;
  EXPECT_EQ(ibv_query_port(context_, 2, &none), EINVAL);
  EXPECT_EQ(ibv_query_port(context_, 0, &none), EINVAL);

  ibv_gid_entry entries[256];
  ssize_t count = ibv_query_gid_table(context_, entries, 256, 0);
  ASSERT_GE(count, 1);
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(context_, 1, static_cast<int>(entries[0].gid_index), &gid), 0);
  EXPECT_EQ(memcmp(gid.raw, entries[0].gid.raw, 16), 0);
  EXPECT_EQ(entries[0].gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  EXPECT_EQ(ibv_query_gid_table(context_, entries, static_cast<size_t>(count) - 1, 0), -EINVAL);
  EXPECT_EQ(ibv_query_gid_table(context_, entries, 256, 1), -EOPNOTSUPP);
  ASSERT_GT(port.gid_tbl_len, count) << "there is room in the table";
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, static_cast<uint32_t>(count), entries, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid(context_, 1, static_cast<int>(count), &gid), 0);
  EXPECT_EQ(gid.global.interface_id, 0u) << "an empty entry reads as zero";
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 256, entries, 0), EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_query_gid(context_, 1, 256, &gid), -1);
  EXPECT_EQ(errno, EINVAL);

  __be16 pkey;
  ASSERT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_query_pkey(context_, 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0xffff), 0);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0x1234), -1);
}

TEST_F(Verbs, DomainsAreBusyWhileUsed) {
  char buffer[64];
  ibv_mr* mr = ibv_reg_mr(pd_, buffer, sizeof buffer, 0);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(context_, &td_attr);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr{.pd = pd_, .td = td};
  ibv_pd* parent = ibv_alloc_parent_domain(context_, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  mr = ibv_reg_mr(parent, buffer, sizeof buffer, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->pd, parent);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  attr = {.pd = nullptr};
  errno = 0;
  EXPECT_EQ(ibv_alloc_parent_domain(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Verbs, XrcDomains) {
  constexpr uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  ibv_xrcd_init_attr attr{.comp_mask = kBoth, .fd = -1, .oflags = O_CREAT};
  ibv_xrcd* alone = ibv_open_xrcd(context_, &attr);
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(ibv_close_xrcd(alone), 0);

  char path[] = "/tmp/verbena-xrcd-XXXXXX";
  int fd = mkstemp(path);
  attr = {.comp_mask = kBoth, .fd = fd, .oflags = 0};
  errno = 0;
  EXPECT_EQ(ibv_open_xrcd(context_, &attr), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  attr.oflags = O_CREAT | O_EXCL;
  ibv_xrcd* first = ibv_open_xrcd(context_, &attr);
  ASSERT_NE(first, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_open_xrcd(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.oflags = 0;
  ibv_xrcd* second = ibv_open_xrcd(context_, &attr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  EXPECT_EQ(ibv_close_xrcd(second), 0);
  close(fd);
  unlink(path);
}

TEST_F(Verbs, AddressHandles) {
  ibv_ah_attr attr{};
  attr.port_num = 1;
  errno = 0;
  EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr) << "RoCE needs a GRH";
  EXPECT_EQ(errno, EINVAL);
  attr.is_global = 1;
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &gid), 0);
  attr.grh.dgid = gid;
  attr.grh.sgid_index = 255;
  EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr);
  attr.grh.sgid_index = 0;
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// The reply to a datagram: the IPv4 header in the last 20 bytes of the GRH area names the sender.
TEST_F(Verbs, AddressFromAReceivedIpv4Header) {
  ibv_gid gid;
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  int index = -1;
  for (int i = 0; i < port.gid_tbl_len && index < 0; ++i)
    if (ibv_query_gid(context_, 1, i, &gid) == 0 && gid.raw[10] == 0xff && gid.raw[0] == 0)
      index = i;
  if (index < 0) GTEST_SKIP() << "no IPv4 GID";
  uint8_t area[40] = {};
  uint8_t* ip = area + 20;
  const uint8_t header[20] = {0x45, 0x08, 0,           60,          0,           0,          0x40,
                              0,    63,   17,          0,           0,           192,        0,
                              2,    9,    gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]};
  memcpy(ip, header, 20);
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(ip[i] << 8 | ip[i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  uint16_t checksum = static_cast<uint16_t>(~((sum & 0xffff) + (sum >> 16)));
  ip[10] = static_cast<uint8_t>(checksum >> 8);
  ip[11] = static_cast<uint8_t>(checksum);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  wc.sl = 10;
  ibv_ah_attr attr;
  ASSERT_EQ(ibv_init_ah_from_wc(context_, 1, &wc, reinterpret_cast<ibv_grh*>(area), &attr), 0);
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(attr.grh.sgid_index, index);
  EXPECT_EQ(attr.grh.hop_limit, 63);
  EXPECT_EQ(attr.grh.traffic_class, 8);
  EXPECT_EQ(attr.sl, 0);
  const uint8_t sender[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 9};
  EXPECT_EQ(memcmp(attr.grh.dgid.raw, sender, 16), 0);
}

TEST_F(Verbs, ImportsShareObjects) {
  char buffer[64];
  ibv_mr* mr = ibv_reg_mr(pd_, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  ibv_context* imported = ibv_import_device(dup(context_->cmd_fd));
  ASSERT_NE(imported, nullptr);
  ibv_pd* pd = ibv_import_pd(imported, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* same = ibv_import_mr(pd, mr->handle);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->lkey, mr->lkey);
  EXPECT_EQ(same->length, mr->length);
  EXPECT_EQ(same->addr, nullptr);
  char more[64];
  ibv_mr* own = ibv_reg_mr(pd, more, sizeof more, 0);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY) << "the import still owns a region";
  ibv_unimport_mr(same);
  ibv_unimport_pd(pd);  // with a region left: the name lives on until it goes
  EXPECT_EQ(ibv_dereg_mr(own), 0);
  EXPECT_EQ(ibv_close_device(imported), 0);
  errno = 0;
  EXPECT_EQ(ibv_import_device(STDOUT_FILENO), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_import_pd(context_, 123456), nullptr);
}

TEST(Sysfs, AnswersWithoutFiles) {
  setenv("VERBENA_DEVICES", "test0=lo", 0);
  ibv_device** list = ibv_get_device_list(nullptr);
  char text[64];
  int length = ibv_read_sysfs_file(list[0]->ibdev_path, "node_type", text, sizeof text);
  EXPECT_GT(length, 0);
  EXPECT_EQ(text[0], '1') << text;
  EXPECT_EQ(strchr(text, '\n'), nullptr);
  EXPECT_EQ(ibv_read_sysfs_file(list[0]->ibdev_path, "no_such_file", text, sizeof text), -1);
  ibv_free_device_list(list);
}

}  // namespace
}  // namespace verbena::test
