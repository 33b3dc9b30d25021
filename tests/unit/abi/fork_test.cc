// fork while other threads are inside verbs calls: what they held must be free in the child.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "verbs_fixture.h"

namespace verbena::test {
namespace {

class ForkedVerbs : public Verbs {
 protected:
  // Every table of the library once: devices, regions, windows, domains, XRC domains, memory.
  bool use_everything() {
    ibv_device** devices = ibv_get_device_list(nullptr);
    if (!devices || !devices[0] || ibv_get_device_guid(devices[0]) == 0) return false;
    ibv_free_device_list(devices);
    ibv_device_attr attr;
    if (ibv_query_device(context_, &attr) != 0) return false;
    ibv_pd* pd = ibv_alloc_pd(context_);
    ibv_mr* mr = pd ? ibv_reg_mr(pd, bytes_, sizeof bytes_, IBV_ACCESS_LOCAL_WRITE) : nullptr;
    ibv_mw* mw = mr ? ibv_alloc_mw(pd, IBV_MW_TYPE_1) : nullptr;
    if (!mw || ibv_dealloc_mw(mw) != 0 || ibv_dereg_mr(mr) != 0 || ibv_dealloc_pd(pd) != 0)
      return false;
    ibv_xrcd* xrcd = make_xrcd(context_, -1);
    if (!xrcd || ibv_close_xrcd(xrcd) != 0) return false;
    ibv_alloc_dm_attr dm_attr{};
    dm_attr.length = 4096;
    ibv_dm* dm = ibv_alloc_dm(context_, &dm_attr);
    return dm && ibv_free_dm(dm) == 0;
  }

  uint8_t bytes_[64];
};

TEST_F(ForkedVerbs, ThreadsInControlCallsLeaveNoLockBehind) {
  std::atomic<bool> stop{false}, failed{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!stop)
        if (!use_everything()) failed = true;
    });
  for (int i = 0; i < 100; ++i) ASSERT_EQ(in_child([&] { return use_everything(); }), 0) << i;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(failed);
}

// A batch between ibv_wr_start() and ibv_wr_complete() holds its queue pair's lock for as long as
// the program likes: fork does not wait for it.
TEST_F(ForkedVerbs, BatchOfAnotherThreadIsNotOpenInTheChild) {
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  attr.qp_type = IBV_QPT_RC;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd_;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* staged = ibv_qp_to_qp_ex(qp);
  std::atomic<int> step{0};
  std::thread other([&] {
    ibv_wr_start(staged);
    step = 1;
    while (step != 2) usleep(1000);
    ibv_wr_abort(staged);
  });
  while (step != 1) usleep(1000);
  EXPECT_EQ(in_child([&] {
              ibv_wr_start(staged);
              ibv_wr_abort(staged);
              return true;
            }),
            0);
  step = 2;
  other.join();
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace verbena::test
