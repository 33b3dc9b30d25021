// Limits a configuration sets are the limits programs meet: a device with small ones.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "verbs_fixture.h"

namespace verbena::test {
namespace {

constexpr char kSmall[] =
    "[[device]]\nname = \"small0\"\ninterface = \"lo\"\n[device.limits]\n"
    "max_pd = 2\nmax_mr_size = 4096\nmax_mcast_grp = 1\nmax_qp_rd_atom = 3\n"
    "max_qp_init_rd_atom = 2\n"
    "[[device]]\nname = \"lid0\"\ninterface = \"lo\"\nlid = true\n";

class Limits : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "verbena-limits-" + std::to_string(getpid()) + ".toml";
    std::FILE* file = std::fopen(path_.c_str(), "w");
    std::fputs(kSmall, file);
    std::fclose(file);
    unsetenv("VERBENA_DEVICES");
    setenv("VERBENA_CONFIG", path_.c_str(), 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_TRUE(list && list[0]) << strerror(errno);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    ASSERT_NE(pd_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
    unlink(path_.c_str());
  }
  std::string path_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

TEST_F(Limits, Domains) {
  ibv_pd* second = ibv_alloc_pd(context_);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_alloc_pd(context_), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_dealloc_pd(second), 0);
  second = ibv_alloc_pd(context_);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(second), 0);
}

TEST_F(Limits, RegionSize) {
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(attr.max_mr_size, 4096u);
  std::vector<char> memory(8192);
  ibv_mr* mr = ibv_reg_mr(pd_, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_reg_mr(pd_, memory.data(), 4097, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 4097, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  mr = ibv_alloc_null_mr(pd_);
  ASSERT_NE(mr, nullptr) << "no memory, so no limit";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Limits, ReadDepthsAndGroups) {
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init = qp_attr(IBV_QPT_RC, cq);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid), 0);
  int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.max_dest_rd_atomic = 4;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, rtr), EINVAL);
  attr.max_dest_rd_atomic = 3;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, rtr), 0);
  attr.qp_state = IBV_QPS_RTS;
  int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
            IBV_QP_MAX_QP_RD_ATOMIC;
  attr.max_rd_atomic = 3;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, rts), EINVAL);
  attr.max_rd_atomic = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, rts), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);

  init.qp_type = IBV_QPT_UD;
  qp = ibv_create_qp(pd_, &init);
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  group.raw[15] = 1;
  ibv_gid second = group;
  second.raw[15] = 2;
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(qp, &second, 0), ENOMEM);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(qp, &second, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(qp, &second, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// A personality whose peers are known by LID says back what it was given.
TEST_F(Limits, ConnectedByLid) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_TRUE(list && list[0] && list[1]);
  ibv_context* context = ibv_open_device(list[1]);
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr);
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.lid, 1) << "the last bytes of 127.0.0.1";
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init = qp_attr(IBV_QPT_RC, cq);
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.ah_attr.dlid = port.lid;
  attr.ah_attr.sl = 3;
  int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  for (uint8_t wrong : {0, 2}) {
    attr.ah_attr.port_num = wrong;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, rtr), EINVAL) << int{wrong};
  }
  attr.ah_attr.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, rtr), 0);
  ibv_qp_attr got{};
  ASSERT_EQ(ibv_query_qp(qp, &got, IBV_QP_AV, &init), 0);
  EXPECT_EQ(got.ah_attr.is_global, 0);
  EXPECT_EQ(got.ah_attr.dlid, port.lid);
  EXPECT_EQ(got.ah_attr.sl, 3);
  EXPECT_EQ(got.ah_attr.port_num, 1);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace verbena::test
