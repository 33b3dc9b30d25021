// What an idle queue pair costs: creates N RC queue pairs (16 + 16 work requests, 1 SGE each) and
// prints the growth of this process's resident memory.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_kib(void) {
  char line[256];
  long kib = -1;
  FILE* status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  if (status) fclose(status);
  return kib;
}

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 10000;
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = list && list[0] ? ibv_open_device(list[0]) : NULL;
  struct ibv_pd* pd = context ? ibv_alloc_pd(context) : NULL;
  struct ibv_cq* cq = context ? ibv_create_cq(context, 1024, NULL, NULL, 0) : NULL;
  if (!pd || !cq) {
    fprintf(stderr, "idle_qps: no RDMA device\n");
    return 1;
  }
  struct ibv_qp_init_attr init = {
      .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
  struct ibv_qp** qps = calloc((size_t)count, sizeof *qps);
  long before = resident_kib();
  for (int i = 0; i < count; ++i) {
    qps[i] = ibv_create_qp(pd, &init);
    if (!qps[i]) {
      perror("idle_qps: ibv_create_qp");
      return 1;
    }
  }
  printf("%d %ld\n", count, resident_kib() - before);
  return 0;
}
