// What Verbena costs as it grows, by the verbs alone and in one process, its queue pairs joined to
// each other: set-up and memory of many queue pairs, the rate of several threads, what an idle
// process does, and single operations one after the other (for counts of instructions).
//   bench_scale queue-pairs COUNT           prints us and KiB a queue pair
//   bench_scale quiet                       prints threads before the first queue pair, and
//                                           wake-ups a second with one that is idle
//   bench_scale threads COUNT SECONDS       prints messages a second of 64 bytes, all threads
//   bench_scale spread COUNT SECONDS        the same from one thread, in turn over all queue pairs
//   bench_scale operations KIND BYTES COUNT  KIND: write, send, read or atomic
#include <dirent.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "bench_scale: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void check(bool good, const char* what) {
  if (!good) give_up(what);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Card {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_gid gid{};
  uint8_t gid_index = 0;
};

Card open_card() {
  Card card;
  ibv_device** list = ibv_get_device_list(nullptr);
  check(list && list[0], "no RDMA device");
  card.context = ibv_open_device(list[0]);
  check(card.context, "ibv_open_device");
  card.pd = ibv_alloc_pd(card.context);
  check(card.pd, "ibv_alloc_pd");
  for (uint32_t index = 0;; ++index) {
    ibv_gid_entry entry;
    check(ibv_query_gid_ex(card.context, 1, index, &entry, 0) == 0, "no RoCE v2 address");
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    card.gid = entry.gid;
    card.gid_index = static_cast<uint8_t>(index);
    return card;
  }
}

ibv_qp* create_queue_pair(const Card& card, ibv_cq* cq, uint32_t depth) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {depth, depth, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(card.pd, &init);
  check(qp, "ibv_create_qp");
  return qp;
}

void connect(const Card& card, ibv_qp* qp, uint32_t peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "to INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = card.gid;
  attr.ah_attr.grh.sgid_index = card.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 16;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "to RTS");
}

// Two joined queue pairs with a completion queue and registered memory each.
struct Pair {
  // `shared`: the completion queue of its requests, else one of its own.
  Pair(const Card& card, size_t bytes, ibv_cq* shared = nullptr)
      : memory(2 * bytes, 7), cq(shared) {
    if (!cq) cq = ibv_create_cq(card.context, 1024, nullptr, nullptr, 0);
    peer_cq = ibv_create_cq(card.context, 1024, nullptr, nullptr, 0);
    check(cq && peer_cq, "ibv_create_cq");
    qp = create_queue_pair(card, cq, 512);
    peer = create_queue_pair(card, peer_cq, 512);
    connect(card, qp, peer->qp_num);
    connect(card, peer, qp->qp_num);
    mr = ibv_reg_mr(card.pd, memory.data(), memory.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC);
    check(mr, "ibv_reg_mr");
    entry = {reinterpret_cast<uint64_t>(memory.data()), static_cast<uint32_t>(bytes), mr->lkey};
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = entry.addr + bytes;
    request.wr.rdma.rkey = mr->rkey;
  }
  void post() {
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
  }
  void post_receive() {
    ibv_sge place{entry.addr + entry.length, entry.length, mr->lkey};
    ibv_recv_wr receive{}, *bad = nullptr;
    receive.sg_list = &place;
    receive.num_sge = 1;
    check(ibv_post_recv(peer, &receive, &bad) == 0, "ibv_post_recv");
  }
  static void await(ibv_cq* queue) {
    ibv_wc done;
    int count;
    while ((count = ibv_poll_cq(queue, 1, &done)) == 0) {
    }
    check(count == 1 && done.status == IBV_WC_SUCCESS, "completion");
  }

  alignas(64) std::vector<uint8_t> memory;
  ibv_cq *cq, *peer_cq = nullptr;
  ibv_qp *qp = nullptr, *peer = nullptr;
  ibv_mr* mr = nullptr;
  ibv_sge entry{};
  ibv_send_wr request{};
};

long resident_kib() {
  char line[256];
  long kib = -1;
  FILE* status = std::fopen("/proc/self/status", "r");
  while (status && std::fgets(line, sizeof line, status))
    if (std::sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  if (status) std::fclose(status);
  return kib;
}

void queue_pairs(int count) {
  Card card = open_card();
  ibv_cq* cq = ibv_create_cq(card.context, 1024, nullptr, nullptr, 0);
  check(cq, "ibv_create_cq");
  std::vector<ibv_qp*> pairs;
  pairs.reserve(static_cast<size_t>(count));
  long before = resident_kib();
  auto start = Clock::now();
  for (int i = 0; i < count; ++i) pairs.push_back(create_queue_pair(card, cq, 16));
  for (size_t i = 0; i < pairs.size(); ++i) connect(card, pairs[i], pairs[i ^ 1]->qp_num);
  double us = seconds_since(start) * 1e6 / count;
  std::printf("%.2f %.3f\n", us, static_cast<double>(resident_kib() - before) / count);
}

// Every thread of this process but the caller: how many, and how often they have woken up.
struct Threads {
  int count = 0;
  long woken = 0;
};

Threads look_at_threads() {
  Threads found;
  DIR* folder = opendir("/proc/self/task");
  check(folder, "/proc/self/task");
  while (dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    ++found.count;
    if (std::atoi(entry->d_name) == getpid()) continue;
    std::string path = std::string("/proc/self/task/") + entry->d_name + "/status";
    FILE* status = std::fopen(path.c_str(), "r");
    char line[256];
    long switches = 0;
    while (status && std::fgets(line, sizeof line, status))
      if (std::sscanf(line, "voluntary_ctxt_switches: %ld", &switches) == 1)
        found.woken += switches;
    if (status) std::fclose(status);
  }
  closedir(folder);
  return found;
}

void quiet() {
  using std::chrono::seconds;
  Card card = open_card();
  int before = look_at_threads().count;
  Pair pair(card, 64);
  pair.post();
  Pair::await(pair.cq);
  std::this_thread::sleep_for(seconds(1));
  long woken = look_at_threads().woken;
  std::this_thread::sleep_for(seconds(4));
  std::printf("%d %.2f\n", before - 1, static_cast<double>(look_at_threads().woken - woken) / 4);
}

void threads(int count, double duration) {
  constexpr int kDeep = 64;
  Card card = open_card();
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < count; ++i) pairs.push_back(std::make_unique<Pair>(card, 64));
  std::atomic<uint64_t> total{0};
  auto start = Clock::now();
  auto work = [&](Pair* pair) {
    uint64_t done = 0;
    int waiting = 0;
    ibv_wc completions[32];
    while (seconds_since(start) < duration) {
      for (; waiting < kDeep; ++waiting) pair->post();
      int got = ibv_poll_cq(pair->cq, 32, completions);
      check(got >= 0, "ibv_poll_cq");
      waiting -= got;
      done += static_cast<uint64_t>(got);
    }
    total += done;
  };
  std::vector<std::thread> running;
  for (const auto& pair : pairs) running.emplace_back(work, pair.get());
  for (std::thread& thread : running) thread.join();
  std::printf("%.0f\n", static_cast<double>(total) / seconds_since(start));
}

// One thread, its messages in turn over all queue pairs.
void spread(size_t count, double duration) {
  constexpr size_t kDeep = 64;
  Card card = open_card();
  ibv_cq* cq = ibv_create_cq(card.context, 1024, nullptr, nullptr, 0);
  check(cq, "ibv_create_cq");
  std::vector<std::unique_ptr<Pair>> pairs;
  for (size_t i = 0; i < count; ++i) pairs.push_back(std::make_unique<Pair>(card, 64, cq));
  size_t waiting = 0, next = 0;
  uint64_t done = 0;
  ibv_wc completions[32];
  auto start = Clock::now();
  while (seconds_since(start) < duration) {
    for (; waiting < kDeep; ++waiting) {
      pairs[next]->post();
      next = next + 1 == count ? 0 : next + 1;
    }
    int got = ibv_poll_cq(cq, 32, completions);
    check(got >= 0, "ibv_poll_cq");
    waiting -= static_cast<size_t>(got);
    done += static_cast<uint64_t>(got);
  }
  std::printf("%.0f\n", static_cast<double>(done) / seconds_since(start));
}

void operations(const std::string& kind, size_t bytes, int count) {
  Card card = open_card();
  Pair pair(card, bytes);
  if (kind == "send") pair.request.opcode = IBV_WR_SEND;
  if (kind == "read") pair.request.opcode = IBV_WR_RDMA_READ;
  if (kind == "atomic") {
    pair.request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    pair.request.wr.atomic = {pair.entry.addr + pair.entry.length, 1, 0, pair.mr->rkey};
  }
  for (int i = 0; i < count; ++i) {
    if (kind == "send") pair.post_receive();
    pair.post();
    Pair::await(pair.cq);
    if (kind == "send") Pair::await(pair.peer_cq);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "queue-pairs" && argc == 3 && std::atoi(argv[2]) > 0) {
    queue_pairs(std::atoi(argv[2]) & ~1);
  } else if (mode == "quiet" && argc == 2) {
    quiet();
  } else if (mode == "threads" && argc == 4) {
    threads(std::atoi(argv[2]), std::atof(argv[3]));
  } else if (mode == "spread" && argc == 4 && std::atoi(argv[2]) > 0) {
    spread(std::strtoul(argv[2], nullptr, 10), std::atof(argv[3]));
  } else if (mode == "operations" && argc == 5) {
    operations(argv[2], std::strtoul(argv[3], nullptr, 10), std::atoi(argv[4]));
  } else {
    std::fprintf(stderr,
                 "usage: bench_scale queue-pairs COUNT | quiet | threads COUNT SECONDS |"
                 " spread COUNT SECONDS | operations write|send|read|atomic BYTES COUNT\n");
    return 2;
  }
  return 0;
}
