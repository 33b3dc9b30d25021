// A deliberate mistake, as RDMA programs make it: an RDMA WRITE with a wrong rkey. Plain verbs,
// linked against the system's libibverbs; nothing here knows Verbena.
//
//   cc examples/wrong_rkey.c -o wrong_rkey -libverbs
//   VERBENA_LOG=explain build/bin/verbena run -- ./wrong_rkey
//
// Two RC queue pairs of one process are connected to each other. The first write is right and its
// bytes are compared; the second uses rkey + 1. Exit code 0: both ended as they should.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what) {
  perror(what);
  exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                   IBV_QP_ACCESS_FLAGS))
    stop("INIT");
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = peer,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1,
                                        .port_num = 1,
                                        .grh = {.dgid = gid, .sgid_index = 0, .hop_limit = 64}}};
  if (ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER))
    stop("RTR");
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
                            .rnr_retry = 7, .max_rd_atomic = 1};
  if (ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
    stop("RTS");
}

static enum ibv_wc_status write_with(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *from,
                                     struct ibv_mr *to, uint32_t rkey) {
  struct ibv_sge sge = {(uintptr_t)from->addr, 32, from->lkey};
  struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
  wr.wr.rdma.rkey = rkey;
  struct ibv_send_wr *bad;
  struct ibv_wc wc;
  if (ibv_post_send(qp, &wr, &bad)) stop("ibv_post_send");
  while (ibv_poll_cq(cq, 1, &wc) == 0) {}
  return wc.status;
}

int main(void) {
  static char source[32] = "thirty-two bytes over RDMA", target[32];
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
  if (!context) stop("no RDMA device");
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_mr *from = ibv_reg_mr(pd, source, sizeof source, 0);
  struct ibv_mr *to = ibv_reg_mr(pd, target, sizeof target,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                  .cap = {16, 16, 1, 1, 0}};
  struct ibv_qp *a = ibv_create_qp(pd, &init), *b = ibv_create_qp(pd, &init);
  union ibv_gid gid;
  if (!pd || !cq || !from || !to || !a || !b || ibv_query_gid(context, 1, 0, &gid))
    stop("set-up");
  connect_to(a, b->qp_num, gid);
  connect_to(b, a->qp_num, gid);

  enum ibv_wc_status right = write_with(a, cq, from, to, to->rkey);
  printf("write with the right rkey: %s, target holds \"%s\"\n", ibv_wc_status_str(right), target);
  enum ibv_wc_status wrong = write_with(a, cq, from, to, to->rkey + 1);
  printf("write with rkey + 1:       %s (status %d)\n", ibv_wc_status_str(wrong), wrong);
  int good = right == IBV_WC_SUCCESS && strcmp(source, target) == 0 &&
             wrong == IBV_WC_REM_ACCESS_ERR;
  return good ? 0 : 1;
}
