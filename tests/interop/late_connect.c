/* Preloaded into a client of perftest: rdma_connect takes 300 ms longer. perftest's server has no
   listener between its client's two connections, which the slow calls of an adapter hide; Linux
   refuses at once whom nobody listens to, and a guest under emulation needs its time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

int rdma_connect(struct rdma_cm_id* id, struct rdma_conn_param* conn_param) {
  int (*next)(struct rdma_cm_id*, struct rdma_conn_param*);
  *(void**)&next = dlsym(RTLD_NEXT, "rdma_connect");
  usleep(300000);
  return next(id, conn_param);
}
