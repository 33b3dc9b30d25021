/* Stands for NCCL, which Debian does not package: does what the InfiniBand part of its network
 * layer does to find and use an adapter, and no more. It loads libibverbs by name ("libibverbs.so"
 * first) and takes versioned symbols from it, wants a PCI-shaped path behind the device and the GID
 * types of sysfs, registers memory with relaxed ordering, and moves data by RDMA WRITE, then a
 * WRITE of no bytes with the size as immediate data that tells the receiver.
 *
 *   nccl_probe DEVICE      both ends in one process; prints what it found, and "verified: N bytes"
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                         \
  do {                                                             \
    if (!(condition)) {                                            \
      printf("nccl_probe: %s: %s\n", #condition, strerror(errno)); \
      exit(1);                                                     \
    }                                                              \
  } while (0)

enum { kSize = 4 << 20, kRounds = 16 };

/* The symbols and the versions it asks for. */
static const struct {
  const char *name, *version;
} kSymbols[] = {
    {"ibv_get_device_list", "IBVERBS_1.1"}, {"ibv_free_device_list", "IBVERBS_1.1"},
    {"ibv_get_device_name", "IBVERBS_1.1"}, {"ibv_open_device", "IBVERBS_1.1"},
    {"ibv_close_device", "IBVERBS_1.1"},    {"ibv_get_async_event", "IBVERBS_1.1"},
    {"ibv_ack_async_event", "IBVERBS_1.1"}, {"ibv_query_device", "IBVERBS_1.1"},
    {"ibv_query_port", "IBVERBS_1.1"},      {"ibv_query_gid", "IBVERBS_1.1"},
    {"ibv_query_qp", "IBVERBS_1.1"},        {"ibv_alloc_pd", "IBVERBS_1.1"},
    {"ibv_dealloc_pd", "IBVERBS_1.1"},      {"ibv_reg_mr", "IBVERBS_1.1"},
    {"ibv_reg_mr_iova2", "IBVERBS_1.8"},    {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"},
    {"ibv_dereg_mr", "IBVERBS_1.1"},        {"ibv_create_cq", "IBVERBS_1.1"},
    {"ibv_destroy_cq", "IBVERBS_1.1"},      {"ibv_create_qp", "IBVERBS_1.1"},
    {"ibv_modify_qp", "IBVERBS_1.1"},       {"ibv_destroy_qp", "IBVERBS_1.1"},
    {"ibv_fork_init", "IBVERBS_1.1"},       {"ibv_event_type_str", "IBVERBS_1.1"},
    {"ibv_query_ece", "IBVERBS_1.10"},      {"ibv_set_ece", "IBVERBS_1.10"},
};
enum { kSymbolCount = sizeof kSymbols / sizeof kSymbols[0] };
static void* found[kSymbolCount];

static void* symbol(const char* name) {
  for (int i = 0; i < kSymbolCount; ++i)
    if (strcmp(kSymbols[i].name, name) == 0) return found[i];
  printf("nccl_probe: %s is not in the list\n", name);
  exit(1);
}
#define CALL(name) ((typeof(&name))symbol(#name))

static void load(void) {
  void* library = dlopen("libibverbs.so", RTLD_NOW);
  if (library == NULL) library = dlopen("libibverbs.so.1", RTLD_NOW);
  REQUIRE(library != NULL);
  for (int i = 0; i < kSymbolCount; ++i) {
    found[i] = dlvsym(library, kSymbols[i].name, kSymbols[i].version);
    if (found[i] != NULL) continue;
    printf("nccl_probe: no %s@%s\n", kSymbols[i].name, kSymbols[i].version);
    exit(1);
  }
  printf("symbols: %d\n", kSymbolCount);
}

/* The topology is read from the path behind the device; the GID is chosen by its type. */
static void read_sysfs(const char* device) {
  char path[PATH_MAX], real[PATH_MAX], type[64] = "";
  snprintf(path, sizeof path, "/sys/class/infiniband/%s/device", device);
  REQUIRE(realpath(path, real) != NULL);
  printf("path: %s\n", real);
  snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/gid_attrs/types/0", device);
  FILE* file = fopen(path, "r");
  REQUIRE(file != NULL);
  REQUIRE(fgets(type, sizeof type, file) != NULL);
  fclose(file);
  printf("type: %s", type);
}

struct End {
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  unsigned char* bytes;
};

static struct End make_end(struct ibv_context* context, struct ibv_pd* pd) {
  struct End end;
  REQUIRE(posix_memalign((void**)&end.bytes, 4096, kSize) == 0);
  memset(end.bytes, 0, kSize);
  end.mr = CALL(ibv_reg_mr_iova2)(pd, end.bytes, kSize, (uintptr_t)end.bytes,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
  REQUIRE(end.mr != NULL);
  end.cq = CALL(ibv_create_cq)(context, 256, NULL, NULL, 0);
  REQUIRE(end.cq != NULL);
  struct ibv_qp_init_attr init = {
      .send_cq = end.cq,
      .recv_cq = end.cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 256, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1}};
  end.qp = CALL(ibv_create_qp)(pd, &init);
  REQUIRE(end.qp != NULL);
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  REQUIRE(CALL(ibv_modify_qp)(
              end.qp, &attr,
              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  return end;
}

static void connect_to(struct End* end, const struct End* peer, union ibv_gid gid,
                       enum ibv_mtu mtu) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = mtu,
      .dest_qp_num = peer->qp->qp_num,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 255}}};
  REQUIRE(CALL(ibv_modify_qp)(end->qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER) == 0);
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  REQUIRE(CALL(ibv_modify_qp)(end->qp, &attr,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct ibv_wc completion(struct End* end) {
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) continue;
  REQUIRE(count == 1);
  if (wc.status == IBV_WC_SUCCESS) return wc;
  printf("nccl_probe: a completion of status %d\n", wc.status);
  exit(1);
}

static void transfer(struct End* from, struct End* to, int round) {
  for (int i = 0; i < kSize; ++i) from->bytes[i] = (unsigned char)(i * 7 + (i >> 12) + round);
  struct ibv_recv_wr receive = {.wr_id = 7}, *bad_receive;
  REQUIRE(ibv_post_recv(to->qp, &receive, &bad_receive) == 0);
  struct ibv_sge sge = {(uintptr_t)from->bytes, kSize, from->mr->lkey};
  struct ibv_send_wr told = {.wr_id = 9,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = kSize},
                     data = {.wr_id = 8,
                             .next = &told,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)to->bytes, to->mr->rkey}},
                     *bad;
  REQUIRE(ibv_post_send(from->qp, &data, &bad) == 0);
  const struct ibv_wc received = completion(to);
  REQUIRE(received.opcode == IBV_WC_RECV_RDMA_WITH_IMM && received.imm_data == kSize);
  REQUIRE(received.wr_id == 7 && (received.wc_flags & IBV_WC_WITH_IMM) != 0);
  REQUIRE(memcmp(from->bytes, to->bytes, kSize) == 0);
  const struct ibv_wc sent = completion(from);
  REQUIRE(sent.wr_id == 9 && sent.opcode == IBV_WC_RDMA_WRITE);
}

static struct ibv_context* open_named(const char* name) {
  int count;
  struct ibv_device** list = CALL(ibv_get_device_list)(&count);
  REQUIRE(list != NULL);
  struct ibv_context* context = NULL;
  for (int i = 0; i < count; ++i)
    if (strcmp(CALL(ibv_get_device_name)(list[i]), name) == 0)
      context = CALL(ibv_open_device)(list[i]);
  CALL(ibv_free_device_list)(list);
  REQUIRE(context != NULL);
  return context;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  load();
  REQUIRE(CALL(ibv_fork_init)() == 0);
  read_sysfs(argv[1]);
  struct ibv_context* context = open_named(argv[1]);
  struct ibv_port_attr port = {0};
  struct verbs_context* operations = verbs_get_ctx_op(context, query_port);
  REQUIRE(operations != NULL);
  REQUIRE(operations->query_port(context, 1, &port, sizeof port) == 0);
  REQUIRE(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
  union ibv_gid gid;
  REQUIRE(CALL(ibv_query_gid)(context, 1, 0, &gid) == 0);
  struct ibv_pd* pd = CALL(ibv_alloc_pd)(context);
  REQUIRE(pd != NULL);
  /* How it asks for dma-buf: with no descriptor, EBADF says yes and EOPNOTSUPP no. */
  errno = 0;
  REQUIRE(CALL(ibv_reg_dmabuf_mr)(pd, 0, 0, 0, -1, 0) == NULL);
  printf("dma-buf: %s\n", errno == EBADF ? "yes" : errno == EOPNOTSUPP ? "no" : strerror(errno));

  struct End ends[2] = {make_end(context, pd), make_end(context, pd)};
  connect_to(&ends[0], &ends[1], gid, port.active_mtu);
  connect_to(&ends[1], &ends[0], gid, port.active_mtu);
  for (int round = 0; round < kRounds; ++round)
    transfer(&ends[round % 2], &ends[1 - round % 2], round);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(CALL(ibv_destroy_qp)(ends[i].qp) == 0);
    REQUIRE(CALL(ibv_destroy_cq)(ends[i].cq) == 0);
    REQUIRE(CALL(ibv_dereg_mr)(ends[i].mr) == 0);
  }
  REQUIRE(CALL(ibv_dealloc_pd)(pd) == 0);
  REQUIRE(CALL(ibv_close_device)(context) == 0);
  printf("verified: %ld bytes\n", (long)kSize * kRounds);
  return 0;
}
