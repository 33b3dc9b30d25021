// What a verbs program sees when its peer is killed: a child takes the other end of an RC
// connection, writes go through, the child gets SIGKILL, more writes are posted. Prints how long
// the first of them took to fail, its status and those of the rest.
//   verbs_killed [TIMEOUT_CODE] [RETRY_CNT]
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "verbs_program.h"

namespace {

constexpr int kPosted = 5;  // writes after the kill

// What each end tells the other.
struct Address {
  uint32_t qpn;
  uint32_t rkey;
  uint64_t memory;
};

struct End {
  ibv_context* context;
  ibv_cq* cq;
  ibv_qp* qp;
  ibv_mr* mr;
  ibv_gid gid;
  char memory[4096];
};

void open_end(End& end) {
  ibv_device** list = ibv_get_device_list(nullptr);
  end.context = list && list[0] ? ibv_open_device(list[0]) : nullptr;
  REQUIRE(end.context);
  ibv_pd* pd = ibv_alloc_pd(end.context);
  end.cq = ibv_create_cq(end.context, 16, nullptr, nullptr, 0);
  REQUIRE(pd && end.cq && !ibv_query_gid(end.context, 1, 0, &end.gid));
  end.mr = ibv_reg_mr(pd, end.memory, sizeof end.memory,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {16, 16, 1, 1, 0};
  end.qp = ibv_create_qp(pd, &init);
  REQUIRE(end.mr && end.qp);
}

void write_to(End& end, const Address& peer, uint64_t wr_id) {
  post_rdma(end.qp, IBV_WR_RDMA_WRITE,
            {reinterpret_cast<uintptr_t>(end.memory), sizeof end.memory, end.mr->lkey}, peer.memory,
            peer.rkey, wr_id);
}

ibv_wc_status next_status(End& end, uint64_t wr_id) {
  ibv_wc wc{};
  int taken = 0;
  while ((taken = ibv_poll_cq(end.cq, 1, &wc)) == 0) {
  }
  REQUIRE(taken == 1 && wc.wr_id == wr_id);
  return wc.status;
}

Address exchange(End& end, int in, int out) {
  const Address own{end.qp->qp_num, end.mr->rkey, reinterpret_cast<uintptr_t>(end.memory)};
  Address peer{};
  REQUIRE(write(out, &own, sizeof own) == sizeof own);
  REQUIRE(read(in, &peer, sizeof peer) == sizeof peer);
  return peer;
}

}  // namespace

int main(int argc, char** argv) {
  const int timeout = argc > 1 ? std::atoi(argv[1]) : 14;
  const int retry_cnt = argc > 2 ? std::atoi(argv[2]) : 7;
  int to_child[2], to_parent[2];
  REQUIRE(!pipe(to_child) && !pipe(to_parent));
  static End end;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  open_end(end);
  const Address peer = child == 0 ? exchange(end, to_child[0], to_parent[1])
                                  : exchange(end, to_parent[0], to_child[1]);
  connect_rc(end.qp, peer.qpn, end.gid, timeout, retry_cnt);
  char ready = 'r';
  if (child == 0) {
    REQUIRE(write(to_parent[1], &ready, 1) == 1);
    for (;;) pause();
  }
  REQUIRE(read(to_parent[0], &ready, 1) == 1);
  write_to(end, peer, 0);
  REQUIRE(next_status(end, 0) == IBV_WC_SUCCESS);

  REQUIRE(!kill(child, SIGKILL));
  REQUIRE(waitpid(child, nullptr, 0) == child);
  const auto posted = std::chrono::steady_clock::now();
  for (uint64_t i = 1; i <= kPosted; ++i) write_to(end, peer, i);
  const ibv_wc_status first = next_status(end, 1);
  const auto took = std::chrono::steady_clock::now() - posted;
  int flushed = 0;
  for (uint64_t i = 2; i <= kPosted; ++i)
    if (next_status(end, i) == IBV_WC_WR_FLUSH_ERR) ++flushed;
  std::printf(
      "status %d after %lld us, %d of %d flushed\n", first,
      static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()),
      flushed, kPosted - 1);
  return 0;
}
