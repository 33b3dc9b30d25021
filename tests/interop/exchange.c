/* One end of a conversation that checks every byte: the same program runs on Linux's own rxe and
   over Verbena. Each scenario prints "NAME: ok", or what is wrong; the exit status counts those.
     exchange DEVICE GID_INDEX MTU TCP_PORT [SERVER]     without SERVER it serves
   LOSSY=1 leaves out what loses messages with their packets (UC). */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <time.h>

#include "both_ends.h"

enum { kBytes = 1 << 21, kWindow = 256 * 1024 };

struct end {
  uint32_t qpn, psn, rkey;
  uint64_t address;
  union ibv_gid gid;
};

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static uint8_t* memory; /* the first half is ours, the second is the peer's to write */
static int gid_index, serving;
static enum ibv_mtu path_mtu;
static union ibv_gid own_gid;

static struct ibv_wc await(int seconds) {
  struct ibv_wc wc;
  memset(&wc, 0, sizeof wc);
  time_t end = time(NULL) + seconds;
  int n;
  while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
    if (time(NULL) > end) {
      wc.status = 99; /* none came */
      return wc;
    }
  if (n < 0) die("ibv_poll_cq");
  return wc;
}

static struct ibv_qp* make(enum ibv_qp_type type, struct ibv_srq* srq, struct end* own) {
  struct ibv_qp_init_attr init = {.send_cq = cq,
                                  .recv_cq = cq,
                                  .srq = srq,
                                  .qp_type = type,
                                  .cap = {64, 64, 2, 2, 64},
                                  .sq_sig_all = 1};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  if (!qp) die("ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC;
  if (type == IBV_QPT_UC)
    attr.qp_access_flags &= ~(unsigned)(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    die("INIT");
  own->qpn = qp->qp_num;
  own->psn = (uint32_t)rand() & 0xffffff;
  own->rkey = mr->rkey;
  own->address = (uintptr_t)memory;
  own->gid = own_gid;
  return qp;
}

/* `rnr_retry` 7 is for ever. The time-out is 268 ms. */
static struct end connect_qp(struct ibv_qp* qp, struct end own, int retry, int rnr_retry) {
  struct end peer;
  put(&own, sizeof own);
  get(&peer, sizeof peer);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = path_mtu,
                             .dest_qp_num = peer.qpn,
                             .rq_psn = peer.psn,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 12};
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  int reliable = qp->qp_type == IBV_QPT_RC;
  if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(qp, &attr, mask)) die("RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = own.psn;
  attr.timeout = 16;
  attr.retry_cnt = (uint8_t)retry;
  attr.rnr_retry = (uint8_t)rnr_retry;
  attr.max_rd_atomic = 4;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (reliable)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (ibv_modify_qp(qp, &attr, mask)) die("RTS");
  meet();
  return peer;
}

static void receive(struct ibv_qp* qp, uint64_t id, size_t at, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)memory + at, length, mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
  if (ibv_post_recv(qp, &wr, &bad)) die("ibv_post_recv");
}

static void post(struct ibv_qp* qp, struct ibv_send_wr wr, size_t at, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)memory + at, length, mr->lkey};
  struct ibv_send_wr* bad;
  wr.sg_list = &sge;
  wr.num_sge = length ? 1 : 0;
  if (ibv_post_send(qp, &wr, &bad)) die("ibv_post_send");
}

static struct ibv_send_wr remote(enum ibv_wr_opcode opcode, const struct end* peer, size_t at) {
  struct ibv_send_wr wr;
  memset(&wr, 0, sizeof wr);
  wr.wr_id = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = peer->address + at;
  wr.wr.rdma.rkey = peer->rkey;
  return wr;
}

/* Both ends send lengths around packet borders to each other at once and compare. */
static void sends(enum ibv_qp_type type, struct ibv_srq* srq, const char* name) {
  struct end own, peer;
  struct ibv_qp* qp = make(type, srq, &own);
  uint32_t mtu = 128u << path_mtu;
  uint32_t lengths[] = {0, 1, 3, mtu - 1, mtu, mtu + 1, 4 * mtu, 100003};
  int count = (int)(sizeof lengths / sizeof *lengths), good = 1;
  for (int i = 0; i < count && !srq; ++i)
    receive(qp, 100 + (uint64_t)i, kBytes / 2 + (size_t)i * kWindow / 4, 110000);
  if (srq)
    for (int i = 0; i < count; ++i) {
      struct ibv_sge sge = {(uintptr_t)memory + kBytes / 2 + (size_t)i * kWindow / 4, 110000,
                            mr->lkey};
      struct ibv_recv_wr wr = {.wr_id = 100 + (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;
      if (ibv_post_srq_recv(srq, &wr, &bad)) die("ibv_post_srq_recv");
    }
  peer = connect_qp(qp, own, 7, 7);
  (void)peer;
  long detail = 0;
  for (int i = 0; i < count && good; ++i) {
    fill(memory, lengths[i], (unsigned)i + (serving ? 50 : 0));
    memset(memory + kBytes / 2 + (size_t)i * kWindow / 4, 0, lengths[i]);
    meet();
    struct ibv_send_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = 1;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(0xabcd0000u + (uint32_t)i);
    post(qp, wr, 0, lengths[i]);
    for (int seen = 0; seen < 2 && good; ++seen) {
      struct ibv_wc wc = await(20);
      good = wc.status == IBV_WC_SUCCESS;
      detail = wc.status;
      if (good && wc.wr_id >= 100)
        good = wc.byte_len == lengths[i] && (wc.wc_flags & IBV_WC_WITH_IMM) &&
               wc.imm_data == htonl(0xabcd0000u + (uint32_t)i) && wc.wr_id == 100 + (uint64_t)i;
    }
    good = good && same(memory + kBytes / 2 + (size_t)i * kWindow / 4, lengths[i],
                        (unsigned)i + (serving ? 0 : 50));
    if (!good && !detail) detail = 1000 + i;
    meet();
  }
  result(name, good, "status or length index", detail);
  meet();
  ibv_destroy_qp(qp);
}

/* Only the client acts; the server compares its memory afterwards. */
static void one_sided(void) {
  struct end own, peer;
  struct ibv_qp* qp = make(IBV_QPT_RC, NULL, &own);
  receive(qp, 100, 0, 0);
  fill(memory + kBytes / 2, kWindow, 7);
  peer = connect_qp(qp, own, 7, 7);
  struct ibv_wc wc;
  if (!serving) {
    fill(memory, 200001, 3);
    post(qp, remote(IBV_WR_RDMA_WRITE, &peer, 1), 0, 200001);
    wc = await(20);
    result("write", wc.status == 0, "status", wc.status);
    struct ibv_send_wr imm = remote(IBV_WR_RDMA_WRITE_WITH_IMM, &peer, 1);
    imm.imm_data = htonl(77);
    post(qp, imm, 0, 0);
    wc = await(20);
    result("write with immediate", wc.status == 0, "status", wc.status);
    memset(memory, 0, kWindow);
    post(qp, remote(IBV_WR_RDMA_READ, &peer, kBytes / 2), 0, kWindow - 1);
    wc = await(20);
    result("read", wc.status == 0 && same(memory, kWindow - 1, 7), "status", wc.status);
  } else {
    wc = await(60);
    result("write with immediate", wc.status == 0 && wc.imm_data == htonl(77), "status", wc.status);
    result("write", same(memory + 1, 200001, 3), "memory differs", 0);
  }
  meet();
  uint64_t* counter = (uint64_t*)(void*)(memory + 4096);
  *counter = serving ? 40 : 0;
  meet();
  if (!serving) {
    struct ibv_send_wr add;
    memset(&add, 0, sizeof add);
    add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    add.wr.atomic.remote_addr = peer.address + 4096;
    add.wr.atomic.rkey = peer.rkey;
    add.wr.atomic.compare_add = 2;
    post(qp, add, 4096, 8);
    wc = await(20);
    result("fetch and add", wc.status == 0 && *counter == 40, "status or value", (long)*counter);
    add.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    add.wr.atomic.compare_add = 42;
    add.wr.atomic.swap = 99;
    post(qp, add, 4096, 8);
    wc = await(20);
    result("compare and swap", wc.status == 0 && *counter == 42, "status or value", (long)*counter);
  }
  meet();
  if (serving) result("atomics", *counter == 99, "value", (long)*counter);
  meet();
  ibv_destroy_qp(qp);
}

/* The client is refused, with the status hardware gives, and both queue pairs end in error. */
static void wrong_rkey(enum ibv_wr_opcode opcode, const char* name) {
  struct end own, peer;
  struct ibv_qp* qp = make(IBV_QPT_RC, NULL, &own);
  peer = connect_qp(qp, own, 7, 7);
  if (!serving) {
    peer.rkey ^= 0x100;
    post(qp, remote(opcode, &peer, 0), 0, 64);
    struct ibv_wc wc = await(20);
    /* Its NAK may be lost, and whoever sent it is in error then and answers no more. */
    int right = wc.status == IBV_WC_REM_ACCESS_ERR ||
                (getenv("LOSSY") && wc.status == IBV_WC_RETRY_EXC_ERR);
    result(name, right, "status", wc.status);
  }
  meet();
  ibv_destroy_qp(qp);
}

/* The receive comes 300 ms after the message: RNR NAKs until then. */
static void late_receive(void) {
  struct end own;
  struct ibv_qp* qp = make(IBV_QPT_RC, NULL, &own);
  connect_qp(qp, own, 7, 7);
  if (serving) {
    usleep(300000);
    receive(qp, 100, kBytes / 2, 5000);
    struct ibv_wc wc = await(20);
    result("late receive", wc.status == 0 && same(memory + kBytes / 2, 5000, 21), "status",
           wc.status);
  } else {
    fill(memory, 5000, 21);
    struct ibv_send_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.opcode = IBV_WR_SEND;
    post(qp, wr, 0, 5000);
    struct ibv_wc wc = await(20);
    result("late receive", wc.status == 0, "status", wc.status);
  }
  meet();
  ibv_destroy_qp(qp);
  /* And none at all, with a bounded count. */
  qp = make(IBV_QPT_RC, NULL, &own);
  connect_qp(qp, own, 7, 2);
  if (!serving) {
    struct ibv_send_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.opcode = IBV_WR_SEND;
    post(qp, wr, 0, 64);
    struct ibv_wc wc = await(20);
    result("no receive", wc.status == IBV_WC_RNR_RETRY_EXC_ERR, "status", wc.status);
  }
  meet();
  ibv_destroy_qp(qp);
}

/* The server's queue pair is gone: the client hears of it by its retries. */
static void gone(void) {
  struct end own, peer;
  struct ibv_qp* qp = make(IBV_QPT_RC, NULL, &own);
  peer = connect_qp(qp, own, 2, 7);
  if (serving) ibv_destroy_qp(qp);
  meet();
  if (!serving) {
    post(qp, remote(IBV_WR_RDMA_WRITE, &peer, 0), 0, 64);
    struct ibv_wc wc = await(20);
    result("peer gone", wc.status == IBV_WC_RETRY_EXC_ERR, "status", wc.status);
    ibv_destroy_qp(qp);
  }
  meet();
}

int main(int argc, char** argv) {
  if (argc < 5) return 101;
  gid_index = atoi(argv[2]);
  int bytes = atoi(argv[3]);
  path_mtu = bytes == 256    ? IBV_MTU_256
             : bytes == 512  ? IBV_MTU_512
             : bytes == 1024 ? IBV_MTU_1024
             : bytes == 2048 ? IBV_MTU_2048
                             : IBV_MTU_4096;
  serving = argc == 5;
  srand((unsigned)getpid());
  struct ibv_device** list = ibv_get_device_list(NULL);
  for (int i = 0; list && list[i]; ++i)
    if (!strcmp(ibv_get_device_name(list[i]), argv[1])) context = ibv_open_device(list[i]);
  if (!context) die(argv[1]);
  if (ibv_query_gid(context, 1, gid_index, &own_gid)) die("ibv_query_gid");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 256, NULL, NULL, 0);
  if (posix_memalign((void**)&memory, 4096, kBytes)) die("memory");
  memset(memory, 0, kBytes);
  mr = ibv_reg_mr(pd, memory, kBytes,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_ATOMIC);
  if (!pd || !cq || !mr) die("set-up");
  open_line(serving ? NULL : argv[5], argv[4]);
  sends(IBV_QPT_RC, NULL, "sends RC");
  if (!getenv("LOSSY")) sends(IBV_QPT_UC, NULL, "sends UC");
  struct ibv_srq_init_attr init = {.attr = {64, 1, 0}};
  struct ibv_srq* srq = ibv_create_srq(pd, &init);
  if (!srq) die("ibv_create_srq");
  sends(IBV_QPT_RC, srq, "sends into an SRQ");
  one_sided();
  wrong_rkey(IBV_WR_RDMA_WRITE, "write with a wrong rkey");
  wrong_rkey(IBV_WR_RDMA_READ, "read with a wrong rkey");
  late_receive();
  gone();
  return failures;
}
