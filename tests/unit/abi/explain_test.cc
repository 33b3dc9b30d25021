// The explain log of calls that fail: VERBENA_LOG is set before the library reads it.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "verbs_fixture.h"

namespace verbena::test {
namespace {

const std::string& log_path() {
  static const std::string path = [] {
    std::string made = "/tmp/verbena-explain-" + std::to_string(getpid()) + ".log";
    setenv("VERBENA_LOG", ("explain:" + made).c_str(), 1);
    return made;
  }();
  return path;
}

// What was written since the last call.
std::string news() {
  static std::streamoff read = 0;
  std::ifstream file(log_path());
  file.seekg(read);
  std::stringstream text;
  text << file.rdbuf();
  read += static_cast<std::streamoff>(text.str().size());
  return text.str();
}

class Explained : public Verbs {
 protected:
  void SetUp() override {
    log_path();
    Verbs::SetUp();
    cq_ = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
    news();
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    Verbs::TearDown();
  }
  static void TearDownTestSuite() { unlink(log_path().c_str()); }  // the library keeps it open
  void expect_line(const char* call) {
    std::string said = news();
    EXPECT_NE(said.find(call), std::string::npos) << call << " left: " << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  ibv_cq* cq_ = nullptr;
};

TEST_F(Explained, CallsThatAreNotSupportedSayWhy) {
  ibv_modify_cq_attr moderate{};
  EXPECT_EQ(ibv_modify_cq(cq_, &moderate), EOPNOTSUPP);
  expect_line("ibv_modify_cq");
  ibv_query_device_ex_input input{.comp_mask = 1};
  ibv_device_attr_ex device;
  // The headers' inline function refuses by itself; what it calls is what newer ones reach.
  auto query = verbs_get_ctx(context_)->query_device_ex;
  EXPECT_EQ(query(context_, &input, &device, sizeof device), EINVAL);
  expect_line("ibv_query_device_ex");
  ibv_wq_init_attr wq{};
  errno = 0;
  EXPECT_EQ(ibv_create_wq(context_, &wq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  expect_line("ibv_create_wq");
  ibv_counters_init_attr counters{};
  EXPECT_EQ(ibv_create_counters(context_, &counters), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  expect_line("ibv_create_counters");
  ibv_rwq_ind_table_init_attr table{};
  EXPECT_EQ(ibv_create_rwq_ind_table(context_, &table), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  expect_line("ibv_create_rwq_ind_table");
  ibv_qp_init_attr init = rc_attr(cq_);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  news();
  ibv_flow_attr flow{};
  EXPECT_EQ(ibv_create_flow(qp, &flow), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  expect_line("ibv_create_flow");
  ibv_ece ece{};
  EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
  expect_line("ibv_query_ece");
  EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
  expect_line("ibv_set_ece");
  ibv_qp_attr attr{};
  attr.ah_attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_AV), EINVAL);
  std::string said = news();
  EXPECT_NE(said.find("lid = true"), std::string::npos) << said;
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// Failures that are not refused arguments: a binding to an import, a closed device, an overrun.
TEST_F(Explained, LateFailuresSayWhy) {
  char bytes[64];
  ibv_mr* mr = ibv_reg_mr(pd_, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mr* imported = ibv_import_mr(pd_, mr->handle);
  ibv_mw* window = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ibv_qp_init_attr init = rc_attr(cq_);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_TRUE(imported && window && qp);
  news();
  ibv_mw_bind bind{};
  bind.bind_info.mr = imported;
  bind.bind_info.length = sizeof bytes;
  EXPECT_EQ(ibv_bind_mw(qp, window, &bind), EINVAL);
  expect_line("bind: the region is an import");
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  ibv_unimport_mr(imported);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  ibv_context* other = open_loopback();
  ibv_pd* pd = ibv_alloc_pd(other);
  ibv_cq* cq = ibv_create_cq(other, 8, nullptr, nullptr, 0);
  init = qp_attr(IBV_QPT_UD, cq);
  ibv_qp* orphan = ibv_create_qp(pd, &init);
  ASSERT_NE(orphan, nullptr);
  EXPECT_EQ(ibv_close_device(other), 0);
  news();
  ibv_qp_attr attr;
  EXPECT_EQ(ibv_query_qp(orphan, &attr, IBV_QP_STATE, &init), EIO);
  expect_line("ibv_query_qp: the device was closed");
  ibv_gid group{};
  group.raw[0] = 0xff;
  EXPECT_EQ(ibv_attach_mcast(orphan, &group, 0), EIO);
  expect_line("ibv_attach_mcast: the device was closed");
  EXPECT_EQ(ibv_destroy_qp(orphan), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// Both families of posting calls.
TEST_F(Explained, APostToAClosedDeviceSaysWhy) {
  ibv_context* other = open_loopback();
  ibv_pd* pd = ibv_alloc_pd(other);
  ibv_cq* cq = ibv_create_cq(other, 8, nullptr, nullptr, 0);
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* qp = ibv_create_qp_ex(other, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_close_device(other), 0);
  news();
  ibv_qp_ex* staged = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(staged);
  ibv_wr_send(staged);
  EXPECT_EQ(ibv_wr_complete(staged), EIO);
  expect_line("post: the device of this queue pair was closed");
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad), EIO);
  EXPECT_EQ(bad, &send);
  expect_line("post: the device of this queue pair was closed");
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// Before the child has any link of its own, too: the move to RTR would ask the links for the road.
TEST_F(Explained, AForkedChildLearnsWhoseQueuePairItIs) {
  ibv_qp_init_attr init = rc_attr(cq_);
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
  news();
  int status = in_child([&] {
    int error = ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    return error == EIO;
  });
  EXPECT_EQ(status, 0);
  expect_line("the queue pair belongs to the process that forked this one");
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// Flushed receives overrun a queue of their completions, without any traffic.
TEST_F(Explained, OverrunSaysWhy) {
  ibv_cq_init_attr_ex spec{};
  spec.cqe = 1;
  ibv_cq_ex* small = ibv_create_cq_ex(context_, &spec);
  ASSERT_NE(small, nullptr);
  ibv_qp_init_attr init = qp_attr(IBV_QPT_RC, ibv_cq_ex_to_cq(small), 64);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  for (int i = 0; i < 64; ++i) {
    ibv_recv_wr receive{}, *bad = nullptr;
    ibv_post_recv(qp, &receive, &bad);
  }
  news();
  ibv_poll_cq_attr poll{};
  int result = ibv_start_poll(small, &poll);
  for (int i = 0; result == 0 && i < 64; ++i) result = ibv_next_poll(small);
  EXPECT_EQ(result, EIO);
  std::string said = news();
  EXPECT_NE(said.find("the completion queue has overrun"), std::string::npos) << said;
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(small)), 0);
}

// docs/decisions/0005: the device yes, its objects no, and never in silence.
TEST_F(Explained, ObjectsOfAnotherProcessAreNotImported) {
  ibv_alloc_dm_attr attr{};
  attr.length = 64;
  ibv_dm* dm = ibv_alloc_dm(context_, &attr);
  char bytes[64];
  ibv_mr* mr = ibv_reg_mr(pd_, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_TRUE(dm && mr);
  pid_t child = fork();
  if (child == 0) {
    ibv_context* imported = ibv_import_device(dup(context_->cmd_fd));
    if (!imported) _exit(100);
    ibv_pd* own = ibv_alloc_pd(imported);  // what the program does instead
    ibv_mr* registered = own ? ibv_reg_mr(own, bytes, sizeof bytes, 0) : nullptr;
    if (!registered) _exit(101);
    news();
    errno = 0;
    EXPECT_EQ(ibv_import_pd(imported, pd_->handle), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    expect_line("ibv_import_pd: the context comes from another process");
    errno = 0;
    EXPECT_EQ(ibv_import_mr(own, mr->handle), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    expect_line("ibv_import_mr: the context comes from another process");
    errno = 0;
    EXPECT_EQ(ibv_import_dm(imported, dm->handle), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    expect_line("ibv_import_dm: the context comes from another process");
    EXPECT_EQ(ibv_dereg_mr(registered), 0);
    EXPECT_EQ(ibv_dealloc_pd(own), 0);
    EXPECT_EQ(ibv_close_device(imported), 0);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace verbena::test
