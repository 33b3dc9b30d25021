// Two connected queue pairs of this process on one completion queue, and one region around them.
#pragma once

#include <chrono>
#include <cstring>
#include <utility>

#include "verbs_fixture.h"

namespace verbena::test {

inline constexpr uint64_t kAllOperations =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
    IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE;
inline constexpr uint64_t kUdOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
inline constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                               IBV_ACCESS_MW_BIND;
inline constexpr uint32_t kQkey = 0x11;

class Traffic : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    channel_ = ibv_create_comp_channel(context_);
    ibv_cq_init_attr_ex attr{.cqe = 64,
                             .cq_context = this,
                             .channel = channel_,
                             .wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} |
                                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
    cq_ex_ = ibv_create_cq_ex(context_, &attr);
    ASSERT_NE(cq_ex_, nullptr);
    cq_ = ibv_cq_ex_to_cq(cq_ex_);
    mr_ = ibv_reg_mr(pd_, memory_, sizeof memory_, kAccess);
    ASSERT_NE(mr_, nullptr);
  }
  void TearDown() override {
    for (ibv_qp*& qp : qp_)
      if (qp) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
      }
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    Verbs::TearDown();
  }

  ibv_qp* make(ibv_qp_type type, uint64_t operations) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 32};
    attr.qp_type = type;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd_;
    attr.send_ops_flags = operations;
    return ibv_create_qp_ex(context_, &attr);
  }

  ibv_ah_attr to_self() {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    EXPECT_EQ(ibv_query_gid(context_, 1, 0, &attr.grh.dgid), 0);
    attr.grh.hop_limit = 1;
    return attr;
  }

  void connect(ibv_qp* qp, uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess & ~IBV_ACCESS_MW_BIND;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.rq_psn = 7;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr = to_self();
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 7;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  void make_rc_pair() {
    for (ibv_qp*& qp : qp_) {
      qp = make(IBV_QPT_RC, kAllOperations);
      ASSERT_NE(qp, nullptr) << strerror(errno);
    }
    connect(qp_[0], qp_[1]->qp_num);
    connect(qp_[1], qp_[0]->qp_num);
    sender_ = ibv_qp_to_qp_ex(qp_[0]);
  }

  void make_ud_pair() {
    for (ibv_qp*& qp : qp_) {
      qp = make(IBV_QPT_UD, kUdOperations);
      ASSERT_NE(qp, nullptr) << strerror(errno);
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_INIT;
      attr.port_num = 1;
      attr.qkey = kQkey;
      ASSERT_EQ(
          ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
          0);
      attr.qp_state = IBV_QPS_RTR;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
      attr.qp_state = IBV_QPS_RTS;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    }
    sender_ = ibv_qp_to_qp_ex(qp_[0]);
  }

  uint64_t address(size_t offset) { return reinterpret_cast<uint64_t>(memory_ + offset); }
  ibv_sge sge(size_t offset, uint32_t length) { return {address(offset), length, mr_->lkey}; }

  void post_receive(uint64_t id, size_t offset, uint32_t length) {
    ibv_sge to = sge(offset, length);
    ibv_recv_wr wr{.wr_id = id, .sg_list = &to, .num_sge = 1};
    ibv_recv_wr* bad;
    ASSERT_EQ(ibv_post_recv(qp_[1], &wr, &bad), 0);
  }

  ibv_wc reap() {
    ibv_wc wc{};
    auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ibv_poll_cq(cq_, 1, &wc) == 0)
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "no completion";
        break;
      }
    return wc;
  }
  // The completions of a message that completes at both ends, sender's first.
  std::pair<ibv_wc, ibv_wc> reap_both() {
    ibv_wc first = reap(), second = reap();
    if (first.opcode & IBV_WC_RECV) std::swap(first, second);
    return {first, second};
  }
  void expect_success(const ibv_wc& wc, ibv_wc_opcode opcode, uint64_t id) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.wr_id, id);
  }
  void begin(uint64_t id) {
    ibv_wr_start(sender_);
    sender_->wr_id = id;
    sender_->wr_flags = IBV_SEND_SIGNALED;
  }

  alignas(4096) uint8_t memory_[8192] = {};
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq_ex* cq_ex_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_[2] = {};
  ibv_qp_ex* sender_ = nullptr;
};

}  // namespace verbena::test
