// Completion queues, shared receive queues and queue pairs: creation, limits, refusals, capacity.
#include <fcntl.h>
#include <poll.h>

#include "verbs_fixture.h"

namespace verbena::test {
namespace {

#define EXPECT_REFUSED(call, code) \
  do {                             \
    errno = 0;                     \
    EXPECT_EQ((call), nullptr);    \
    EXPECT_EQ(errno, code);        \
  } while (false)

class Queues : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    ASSERT_EQ(ibv_query_device(context_, &limits_), 0);
    cq_ = ibv_create_cq(context_, 16, this, nullptr, 0);
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    Verbs::TearDown();
  }

  ibv_device_attr limits_{};
  ibv_cq* cq_ = nullptr;
};

TEST_F(Queues, CompletionQueueSizes) {
  EXPECT_REFUSED(ibv_create_cq(context_, 0, nullptr, nullptr, 0), EINVAL);
  EXPECT_REFUSED(ibv_create_cq(context_, -1, nullptr, nullptr, 0), EINVAL);
  EXPECT_REFUSED(ibv_create_cq(context_, limits_.max_cqe + 1, nullptr, nullptr, 0), EINVAL);
  EXPECT_REFUSED(ibv_create_cq(context_, 1, nullptr, nullptr, context_->num_comp_vectors), EINVAL);
  EXPECT_REFUSED(ibv_create_cq(context_, 1, nullptr, nullptr, -1), EINVAL);
  ibv_cq* most = ibv_create_cq(context_, limits_.max_cqe, nullptr, nullptr, 0);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(most->cqe, limits_.max_cqe);
  EXPECT_EQ(ibv_destroy_cq(most), 0);
  EXPECT_EQ(ibv_resize_cq(cq_, 3), 0);
  EXPECT_EQ(cq_->cqe, 3);
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
}

TEST_F(Queues, ExtendedCompletionQueueFlags) {
  ibv_cq_init_attr_ex attr{.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &attr);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr poll_attr{.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(cq, &poll_attr), EOPNOTSUPP);
  poll_attr = {};
  EXPECT_EQ(ibv_start_poll(cq, &poll_attr), ENOENT);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  for (uint64_t flag : {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO}) {
    attr = {.cqe = 4, .wc_flags = flag};
    EXPECT_REFUSED(ibv_create_cq_ex(context_, &attr), EOPNOTSUPP);
  }
  attr = {.cqe = 4, .wc_flags = uint64_t{1} << 40};
  EXPECT_REFUSED(ibv_create_cq_ex(context_, &attr), EOPNOTSUPP);
  attr = {.cqe = 4, .comp_mask = 1 << 5};
  EXPECT_REFUSED(ibv_create_cq_ex(context_, &attr), EOPNOTSUPP);
  attr = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd_};
  EXPECT_REFUSED(ibv_create_cq_ex(context_, &attr), EINVAL);
  attr = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 2};
  EXPECT_REFUSED(ibv_create_cq_ex(context_, &attr), EOPNOTSUPP);
}

TEST_F(Queues, ChannelIsARealDescriptor) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, channel, 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* which;
  void* user;
  EXPECT_EQ(ibv_get_cq_event(channel, &which, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
  pollfd waiting{.fd = channel->fd, .events = POLLIN};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Queues, SharedReceiveQueue) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 0, .max_sge = 1};
  EXPECT_REFUSED(ibv_create_srq(pd_, &attr), EINVAL);
  attr.attr = {.max_wr = static_cast<uint32_t>(limits_.max_srq_wr) + 1, .max_sge = 1};
  EXPECT_REFUSED(ibv_create_srq(pd_, &attr), EINVAL);
  attr.attr = {.max_wr = 4, .max_sge = static_cast<uint32_t>(limits_.max_srq_sge) + 1};
  EXPECT_REFUSED(ibv_create_srq(pd_, &attr), EINVAL);
  attr.attr = {.max_wr = 2, .max_sge = 1};
  ibv_srq* srq = ibv_create_srq(pd_, &attr);
  ASSERT_NE(srq, nullptr);
  ibv_sge sges[2] = {};
  ibv_recv_wr second{.wr_id = 2, .sg_list = sges, .num_sge = 2};
  ibv_recv_wr first{.wr_id = 1, .next = &second, .sg_list = sges, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &first, &bad), EINVAL);
  EXPECT_EQ(bad, &second) << "the first was taken";
  second.num_sge = 1;
  EXPECT_EQ(ibv_post_srq_recv(srq, &first, &bad), ENOMEM);
  EXPECT_EQ(bad, &second);
  ibv_srq_attr change{.max_wr = 1};
  EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL) << "two are waiting";
  change = {.srq_limit = 3};
  EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), EINVAL);
  change = {.max_wr = 8, .srq_limit = 5};
  EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  change = {.max_wr = 4};
  EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL) << "below the armed limit";
  EXPECT_EQ(ibv_modify_srq(srq, &change, 1 << 10), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_srq(srq, &change), 0);
  EXPECT_EQ(change.max_wr, 8u);
  EXPECT_EQ(change.srq_limit, 5u);
  uint32_t number;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), EINVAL);
  ibv_qp_init_attr qp_attr = rc_attr(cq_);
  qp_attr.srq = srq;
  ibv_qp* qp = ibv_create_qp(pd_, &qp_attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp_attr.cap.max_recv_wr, 0u);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Queues, QueuePairLimits) {
  ibv_qp_init_attr good = rc_attr(cq_);
  auto refused = [&](auto change, int code) {
    ibv_qp_init_attr attr = good;
    change(attr);
    errno = 0;
    ibv_qp* qp = ibv_create_qp(pd_, &attr);
    EXPECT_EQ(qp, nullptr);
    EXPECT_EQ(errno, code);
    if (qp) ibv_destroy_qp(qp);
  };
  uint32_t most_wr = static_cast<uint32_t>(limits_.max_qp_wr);
  uint32_t most_sge = static_cast<uint32_t>(limits_.max_sge);
  refused([&](auto& a) { a.cap.max_send_wr = most_wr + 1; }, EINVAL);
  refused([&](auto& a) { a.cap.max_recv_wr = most_wr + 1; }, EINVAL);
  refused([&](auto& a) { a.cap.max_send_sge = most_sge + 1; }, EINVAL);
  refused([&](auto& a) { a.cap.max_recv_sge = most_sge + 1; }, EINVAL);
  refused([&](auto& a) { a.cap.max_inline_data = 1 << 20; }, EINVAL);
  refused([&](auto& a) { a.send_cq = nullptr; }, EINVAL);
  refused([&](auto& a) { a.recv_cq = nullptr; }, EINVAL);
  refused([&](auto& a) { a.qp_type = static_cast<ibv_qp_type>(77); }, EINVAL);
  refused([&](auto& a) { a.qp_type = IBV_QPT_RAW_PACKET; }, EOPNOTSUPP);
  ibv_qp* qp = ibv_create_qp(pd_, &good);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(good.cap.max_send_wr, 8u);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr) << "created without send_ops_flags";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Queues, ExtendedQueuePairFlags) {
  auto base = [&] {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    attr.qp_type = IBV_QPT_UD;
    attr.pd = pd_;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    return attr;
  };
  ibv_qp_init_attr_ex attr = base();
  attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  EXPECT_REFUSED(ibv_create_qp_ex(context_, &attr), EOPNOTSUPP);
  attr = base();
  attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  EXPECT_REFUSED(ibv_create_qp_ex(context_, &attr), EOPNOTSUPP);
  attr = base();
  attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
  EXPECT_REFUSED(ibv_create_qp_ex(context_, &attr), EOPNOTSUPP);  // UD reads nothing
  attr = base();
  attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_NE(ibv_qp_to_qp_ex(qp), nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Queues, UnsupportedBitsAreRefusedNeverIgnored) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  attr.qp_type = IBV_QPT_RC;
  attr.pd = pd_;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD;
  EXPECT_REFUSED(ibv_create_qp_ex(context_, &attr), EINVAL);
  ibv_values_ex values{.comp_mask = 2};
  EXPECT_EQ(ibv_query_rt_values_ex(context_, &values), EOPNOTSUPP);
  ibv_srq_init_attr_ex srq{};
  srq.attr = {.max_wr = 1, .max_sge = 1};
  srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ;
  srq.srq_type = IBV_SRQT_BASIC;
  srq.pd = pd_;
  srq.cq = cq_;
  EXPECT_REFUSED(ibv_create_srq_ex(context_, &srq), EINVAL);
}

TEST_F(Queues, PartsOfAnotherContextAreRefused) {
  ibv_context* other = open_loopback();
  ibv_pd* pd = ibv_alloc_pd(other);
  ibv_cq* cq = ibv_create_cq(other, 4, nullptr, nullptr, 0);
  constexpr uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  ibv_xrcd_init_attr xrcd_attr{.comp_mask = kBoth, .fd = -1, .oflags = O_CREAT};
  ibv_xrcd* xrcd = ibv_open_xrcd(other, &xrcd_attr);
  ibv_xrcd* own_xrcd = ibv_open_xrcd(context_, &xrcd_attr);
  ibv_srq_init_attr_ex srq{};
  srq.attr = {.max_wr = 1, .max_sge = 1};
  srq.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD;
  srq.srq_type = IBV_SRQT_XRC;
  auto refused = [&](ibv_pd* with_pd, ibv_cq* with_cq, ibv_xrcd* with_xrcd) {
    srq.pd = with_pd;
    srq.cq = with_cq;
    srq.xrcd = with_xrcd;
    EXPECT_REFUSED(ibv_create_srq_ex(context_, &srq), EINVAL);
  };
  refused(pd, cq_, own_xrcd);
  refused(pd_, cq, own_xrcd);
  refused(pd_, cq_, xrcd);
  srq.xrcd = own_xrcd;
  ibv_srq* made = ibv_create_srq_ex(context_, &srq);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(ibv_destroy_srq(made), 0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
  EXPECT_EQ(ibv_close_xrcd(own_xrcd), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(Queues, ModifyRefusesNonsense) {
  ibv_qp_init_attr init = rc_attr(cq_);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 2;
  int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_init), EINVAL);
  attr.port_num = 1;
  attr.pkey_index = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_init), EINVAL);
  attr.pkey_index = 0;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL) << "attributes are missing";
  EXPECT_EQ(ibv_modify_qp(qp, &attr, 1 << 30), EOPNOTSUPP);
  attr.qp_access_flags = 1 << 15;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_init), EOPNOTSUPP);
  attr.qp_access_flags = 0;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_CAP), EOPNOTSUPP);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_init), 0);
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_256;
  int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.ah_attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_rtr), EINVAL) << "no GRH";
  attr.ah_attr.is_global = 1;
  EXPECT_EQ(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid), 0);
  attr.path_mtu = static_cast<ibv_mtu>(256 + IBV_MTU_256);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_rtr), EINVAL) << "not cut to 8 bits";
  attr.path_mtu = IBV_MTU_256;
  attr.max_dest_rd_atomic = 129;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, to_rtr), EINVAL) << "above max_qp_rd_atom";
  attr.qkey = 0x80010000;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), EPERM);
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ibv_qp_init_attr back;
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &back), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(attr.cap.max_send_wr, 8u);
  EXPECT_EQ(back.send_cq, cq_);
  EXPECT_EQ(back.qp_type, IBV_QPT_RC);
  ibv_ece ece{};
  EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Queues, PostingNeedsTheRightState) {
  ibv_qp_init_attr init = rc_attr(cq_);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  ibv_recv_wr receive{.wr_id = 1};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);
  EXPECT_EQ(bad_send, &send);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// A program that closes the device before its queue pairs still gets through.
TEST_F(Queues, ClosingTheDeviceEndsItsQueuePairs) {
  ibv_context* context = open_loopback();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init = rc_attr(cq);
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
  ibv_qp_attr attr;
  EXPECT_EQ(ibv_query_qp(qp, &attr, 0, &init), EIO);
}

}  // namespace
}  // namespace verbena::test
