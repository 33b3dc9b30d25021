// Lives that end in an unusual order: objects that outlive their context, queue pairs shared by
// two contexts, groups left behind, and the copies of everything that a forked child inherits.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "verbs_fixture.h"

namespace verbena::test {
namespace {

ibv_gid group_gid() {
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  const uint8_t ipv4[4] = {239, 7, 7, 7};
  memcpy(group.raw + 12, ipv4, sizeof ipv4);
  return group;
}

// pyverbs closes a context before what was made in it.
TEST(Lifetime, ObjectsOutliveTheirContext) {
  ibv_context* context = open_loopback();
  ASSERT_NE(context, nullptr);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, channel, 0);
  ibv_srq_init_attr srq_init{};
  srq_init.attr = {.max_wr = 2, .max_sge = 1};
  ibv_srq* srq = ibv_create_srq(pd, &srq_init);
  ibv_qp* qp = make_ud(pd, cq);
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(context, &td_attr);
  ibv_xrcd* xrcd = make_xrcd(context, -1);
  ibv_alloc_dm_attr dm_attr{.length = 64};
  ibv_dm* dm = ibv_alloc_dm(context, &dm_attr);
  ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  char buffer[64];
  ibv_mr* mr = ibv_reg_mr(pd, buffer, sizeof buffer, 0);
  ASSERT_TRUE(qp && srq && td && xrcd && dm && mw && mr);
  ibv_gid group = group_gid();
  ASSERT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  ASSERT_EQ(ibv_close_device(context), 0);

  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), EINVAL) << "the close has left the group";
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EIO);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// A membership left behind by a closed context would keep the group for ever.
TEST_F(Verbs, AGroupCanBeJoinedAgainAfterAClose) {
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ibv_qp* qp = make_ud(pd_, cq);
  ASSERT_NE(qp, nullptr);
  ibv_gid group = group_gid();
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(Lifetime, ASharedQueuePairSurvivesItsCreatorsContext) {
  char path[] = "/tmp/verbena-shared-XXXXXX";
  int fd = mkstemp(path);
  unlink(path);
  ibv_context* creator = open_loopback();
  ibv_context* other = open_loopback();
  ibv_xrcd* domain = make_xrcd(creator, fd);
  ibv_xrcd* same = make_xrcd(other, fd);
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = domain;
  ibv_qp* made = ibv_create_qp_ex(creator, &init);
  ASSERT_NE(made, nullptr);
  ibv_qp_open_attr open{
      .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
      .qp_num = made->qp_num,
      .xrcd = same,
      .qp_type = IBV_QPT_XRC_RECV};
  ibv_qp* opened = ibv_open_qp(other, &open);
  ASSERT_NE(opened, nullptr);
  ASSERT_EQ(ibv_close_device(creator), 0);

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(made, &attr, mask), EIO);
  EXPECT_EQ(ibv_modify_qp(opened, &attr, mask), 0) << "the other context still has it";
  EXPECT_EQ(opened->state, IBV_QPS_INIT);
  EXPECT_EQ(ibv_destroy_qp(made), 0);
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  EXPECT_EQ(ibv_close_xrcd(same), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
  close(fd);
}

#define CHILD_EXPECTS(condition)                                                    \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition); \
      return false;                                                                 \
    }                                                                               \
  } while (false)

// The parent's queue pairs are not the child's: nothing may be sent under their numbers, what is
// posted to them flushes, and they can be destroyed.
TEST_F(Verbs, AForkedChildCannotUseTheParentsQueuePairs) {
  ibv_cq* cq = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
  ibv_qp_init_attr init = rc_attr(cq);
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
  EXPECT_EQ(in_child([&] {
              ibv_recv_wr receive{.wr_id = 5};
              ibv_recv_wr* bad = nullptr;
              CHILD_EXPECTS(ibv_post_recv(qp, &receive, &bad) == 0);
              ibv_wc wc{};
              CHILD_EXPECTS(ibv_poll_cq(cq, 1, &wc) == 1);
              CHILD_EXPECTS(wc.wr_id == 5 && wc.status == IBV_WC_WR_FLUSH_ERR);
              ibv_qp_init_attr own_init = rc_attr(cq);
              ibv_qp* own = ibv_create_qp(pd_, &own_init);  // attaches the child
              CHILD_EXPECTS(own != nullptr && own->qp_num != qp->qp_num);
              attr.qp_state = IBV_QPS_RESET;
              CHILD_EXPECTS(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EIO);
              attr.qp_state = IBV_QPS_INIT;
              CHILD_EXPECTS(ibv_modify_qp(qp, &attr, mask) == EIO);
              CHILD_EXPECTS(ibv_modify_qp(own, &attr, mask) == 0);
              receive.wr_id = 6;
              CHILD_EXPECTS(ibv_post_recv(qp, &receive, &bad) == 0);
              CHILD_EXPECTS(ibv_poll_cq(cq, 1, &wc) == 1);
              CHILD_EXPECTS(wc.wr_id == 6 && wc.status == IBV_WC_WR_FLUSH_ERR);
              CHILD_EXPECTS(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(own) == 0);
              return true;
            }),
            0);
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0) << "the parent's goes on";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// One datagram to `group` through the queue pair itself; true when it comes back.
bool hears_itself(ibv_context* context, ibv_pd* pd, const ibv_gid& group, ibv_qp* inherited) {
  ibv_cq* cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
  ibv_qp* qp = make_ud(pd, cq);
  CHILD_EXPECTS(qp != nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 0x11;
  CHILD_EXPECTS(
      ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
  attr.qp_state = IBV_QPS_RTR;
  CHILD_EXPECTS(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  CHILD_EXPECTS(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
  CHILD_EXPECTS(ibv_attach_mcast(qp, &group, 0) == 0);
  // The parent's attachment was never this socket's.
  CHILD_EXPECTS(ibv_detach_mcast(inherited, &group, 0) == 0);
  char buffer[128] = "to the group";
  ibv_mr* mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  ibv_sge sge{reinterpret_cast<uint64_t>(buffer), sizeof buffer, mr->lkey};
  ibv_recv_wr receive{.wr_id = 1, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad_receive;
  CHILD_EXPECTS(ibv_post_recv(qp, &receive, &bad_receive) == 0);
  ibv_ah_attr to{};
  to.is_global = 1;
  to.port_num = 1;
  to.grh.dgid = group;
  to.grh.hop_limit = 1;
  ibv_ah* ah = ibv_create_ah(pd, &to);
  CHILD_EXPECTS(ah != nullptr);
  ibv_sge out{reinterpret_cast<uint64_t>(buffer), 12, mr->lkey};
  ibv_send_wr send{.wr_id = 2, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND};
  send.wr.ud = {.ah = ah, .remote_qpn = 0xffffff, .remote_qkey = 0x11};
  ibv_send_wr* bad_send;
  CHILD_EXPECTS(ibv_post_send(qp, &send, &bad_send) == 0);
  bool heard = false;
  ibv_wc wc{};
  for (int i = 0; i < 3000 && !heard; ++i) {
    if (ibv_poll_cq(cq, 1, &wc) == 1) heard = wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS;
    usleep(1000);
  }
  ibv_detach_mcast(qp, &group, 0);
  ibv_destroy_qp(qp);
  ibv_destroy_ah(ah);
  ibv_dereg_mr(mr);
  ibv_destroy_cq(cq);
  return heard;
}

// A child's socket is a member of nothing, whatever the parent had joined.
TEST_F(Verbs, AForkedChildJoinsItsGroupsItself) {
  ibv_cq* cq = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
  ibv_qp* qp = make_ud(pd_, cq);
  ibv_gid group = group_gid();
  ASSERT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(in_child([&] { return hears_itself(context_, pd_, group, qp); }), 0);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace verbena::test
