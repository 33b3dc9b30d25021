// Messages whose memory is special: reached through windows, or unmapped behind its region's back.
#include <sys/mman.h>

#include "traffic_fixture.h"

namespace verbena::test {
namespace {

TEST_F(Traffic, LongReadThroughAWindow) {
  make_rc_pair();
  std::vector<uint8_t> source(200'000), target(200'000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7 + i / 251);
  ibv_mr* from = ibv_reg_mr(pd_, source.data(), source.size(), kAccess);
  ibv_mr* to = ibv_reg_mr(pd_, target.data(), target.size(), kAccess);
  ibv_mw* window = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ibv_mw_bind bind{.wr_id = 1,
                   .send_flags = IBV_SEND_SIGNALED,
                   .bind_info = {from, reinterpret_cast<uint64_t>(source.data()), source.size(),
                                 IBV_ACCESS_REMOTE_READ}};
  ASSERT_EQ(ibv_bind_mw(qp_[1], window, &bind), 0);
  expect_success(reap(), IBV_WC_BIND_MW, 1);
  begin(2);
  ibv_wr_rdma_read(sender_, window->rkey, reinterpret_cast<uint64_t>(source.data()));
  ibv_wr_set_sge(sender_, to->lkey, reinterpret_cast<uint64_t>(target.data()),
                 static_cast<uint32_t>(target.size()));
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_RDMA_READ, 2);
  EXPECT_EQ(source, target);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(from), 0);
  EXPECT_EQ(ibv_dereg_mr(to), 0);
}

// An adapter has pinned the pages and never notices; here the packet is refused and the program
// lives.
TEST_F(Traffic, MemoryUnmappedWhileRegisteredIsRefused) {
  constexpr uint32_t kLength = 20'000;
  std::vector<uint8_t> source(kLength, 5);
  for (int protection : {PROT_NONE, PROT_READ}) {
    for (uint32_t length : {8u, kLength}) {  // inside the packet, by reference
      make_rc_pair();
      void* gone =
          mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ibv_mr* mr = ibv_reg_mr(pd_, gone, kLength, kAccess);
      ibv_mr* from = ibv_reg_mr(pd_, source.data(), kLength, kAccess);
      ASSERT_EQ(mprotect(gone, kLength, protection), 0);
      begin(2);
      ibv_wr_rdma_write(sender_, mr->rkey, reinterpret_cast<uint64_t>(gone));
      ibv_wr_set_sge(sender_, from->lkey, reinterpret_cast<uint64_t>(source.data()), length);
      ASSERT_EQ(ibv_wr_complete(sender_), 0);
      EXPECT_EQ(reap().status, IBV_WC_REM_OP_ERR) << protection << ", " << length;
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
      EXPECT_EQ(ibv_dereg_mr(from), 0);
      munmap(gone, kLength);
      for (ibv_qp*& qp : qp_) EXPECT_EQ(ibv_destroy_qp(std::exchange(qp, nullptr)), 0);
    }
  }
}

TEST_F(Traffic, WindowsOfBothTypes) {
  make_rc_pair();
  ibv_mw* one = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ibv_mw_bind bind{.wr_id = 1,
                   .send_flags = IBV_SEND_SIGNALED,
                   .bind_info = {mr_, address(4096), 64, IBV_ACCESS_REMOTE_WRITE}};
  uint32_t before = one->rkey;
  ASSERT_EQ(ibv_bind_mw(qp_[1], one, &bind), 0);
  expect_success(reap(), IBV_WC_BIND_MW, 1);
  EXPECT_EQ(one->rkey, ibv_inc_rkey(before));
  EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY) << "a window is bound";
  begin(2);
  ibv_wr_rdma_write(sender_, one->rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  expect_success(reap(), IBV_WC_RDMA_WRITE, 2);
  ibv_send_wr wrong{.wr_id = 3, .opcode = IBV_WR_BIND_MW};
  wrong.bind_mw = {one, ibv_inc_rkey(one->rkey), bind.bind_info};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp_[1], &wrong, &bad), EINVAL) << "only type 2";
  EXPECT_EQ(ibv_dealloc_mw(one), 0);

  ibv_mw* two = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  EXPECT_EQ(ibv_bind_mw(qp_[1], two, &bind), EINVAL);
  ibv_qp_ex* binder = ibv_qp_to_qp_ex(qp_[1]);
  ibv_wr_start(binder);
  binder->wr_id = 3;
  binder->wr_flags = IBV_SEND_SIGNALED;
  ibv_mw_bind_info info = {mr_, address(4096), 64, IBV_ACCESS_REMOTE_WRITE};
  uint32_t unbound = two->rkey, rkey = ibv_inc_rkey(unbound);
  ibv_wr_bind_mw(binder, two, rkey, &info);
  ibv_wr_abort(binder);
  EXPECT_EQ(two->rkey, unbound) << "never posted";
  ibv_wr_start(binder);
  ibv_wr_bind_mw(binder, two, rkey, &info);
  ASSERT_EQ(ibv_wr_complete(binder), 0);
  EXPECT_EQ(two->rkey, rkey);
  expect_success(reap(), IBV_WC_BIND_MW, 3);
  ibv_wr_start(binder);
  binder->wr_id = 4;
  ibv_wr_local_inv(binder, rkey);
  ASSERT_EQ(ibv_wr_complete(binder), 0);
  expect_success(reap(), IBV_WC_LOCAL_INV, 4);
  begin(5);
  ibv_wr_rdma_write(sender_, rkey, address(4096));
  ibv_wr_set_sge(sender_, mr_->lkey, address(0), 4);
  ASSERT_EQ(ibv_wr_complete(sender_), 0);
  ibv_wc refused = reap();
  EXPECT_EQ(refused.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(refused.wr_id, 5u);
  EXPECT_EQ(ibv_dealloc_mw(two), 0);
  // The peer reports the violation; destroying it must wait for our acknowledgement.
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, qp_[1]);
  ibv_ack_async_event(&event);
}

}  // namespace
}  // namespace verbena::test
