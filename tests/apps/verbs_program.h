// What the verbs programs of these tests share: a connection made by hand, as programs without
// rdma_cm make it, and RDMA work requests. They know only libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// The program ends with status 1 and errno's text.
#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) {        \
      std::perror(#condition); \
      std::exit(1);            \
    }                          \
  } while (false)

// Reset to ready to send. `gid` is the peer's, entry 0 of the same device's table is ours.
inline void connect_rc(ibv_qp* qp, uint32_t peer_qpn, const ibv_gid& gid, int timeout,
                       int retry_cnt) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  REQUIRE(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer_qpn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.hop_limit = 64;
  REQUIRE(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = static_cast<uint8_t>(timeout);
  attr.retry_cnt = static_cast<uint8_t>(retry_cnt);
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  REQUIRE(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

// A signalled RDMA READ or WRITE of one SGE.
inline void post_rdma(ibv_qp* qp, ibv_wr_opcode opcode, ibv_sge sge, uint64_t remote_address,
                      uint32_t rkey, uint64_t wr_id) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = remote_address;
  wr.wr.rdma.rkey = rkey;
  REQUIRE(!ibv_post_send(qp, &wr, &bad));
}
