// A multi-threaded verbs program, as a user would write one: threads with their own queue pairs and
// one shared completion queue, a thread that waits for events, connections made and torn down all
// the time. It knows only libibverbs; under the sanitizer presets it shows what the library does
// between threads. Every transfer's bytes are compared.
//   verbs_stress [SECONDS] [THREADS]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "verbs_program.h"

namespace {

std::atomic<bool> stopping{false};
std::atomic<long> transfers{0};
std::atomic<long> events{0};

constexpr int kTimeout = 18;  // 1.07 s: under a sanitizer everything is late
constexpr int kRetries = 7;

struct Side {
  ibv_qp* qp;
  ibv_mr* mr;
  std::vector<unsigned char> memory = std::vector<unsigned char>(1 << 16);
};

void wait_for(ibv_cq* cq, uint64_t wr_id) {
  for (ibv_wc wc{};;) {
    int n = ibv_poll_cq(cq, 1, &wc);
    REQUIRE(n >= 0);
    if (n == 0) continue;
    if (wc.status != IBV_WC_SUCCESS || wc.wr_id != wr_id) {
      std::fprintf(stderr, "completion of wr_id %lu: %s\n", wc.wr_id, ibv_wc_status_str(wc.status));
      std::exit(1);
    }
    return;
  }
}

void post(ibv_qp* qp, ibv_wr_opcode opcode, const Side& local, const Side& remote, uint32_t offset,
          uint32_t length, uint64_t wr_id) {
  post_rdma(qp, opcode,
            {reinterpret_cast<uintptr_t>(local.memory.data()) + offset, length, local.mr->lkey},
            reinterpret_cast<uintptr_t>(remote.memory.data()) + offset, remote.mr->rkey, wr_id);
}

// One life of a connection: made, used for a while, torn down.
void connection(ibv_context* context, const ibv_gid& gid, unsigned seed) {
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  REQUIRE(pd && cq);
  Side sides[2];
  for (Side& side : sides) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {16, 16, 1, 1, 64};
    side.qp = ibv_create_qp(pd, &init);
    side.mr = ibv_reg_mr(pd, side.memory.data(), side.memory.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    REQUIRE(side.qp && side.mr);
  }
  connect_rc(sides[0].qp, sides[1].qp->qp_num, gid, kTimeout, kRetries);
  connect_rc(sides[1].qp, sides[0].qp->qp_num, gid, kTimeout, kRetries);
  for (uint64_t i = 0; i < 200 && !stopping; ++i) {
    seed = seed * 1664525 + 1013904223;
    uint32_t length = 1 + (seed >> 8) % 20000, offset = (seed >> 4) % 40000;
    Side& from = sides[seed & 1];
    Side& to = sides[~seed & 1];
    std::memset(from.memory.data() + offset, static_cast<int>(seed), length);
    bool read = (seed >> 20) & 1;
    post(read ? to.qp : from.qp, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, read ? to : from,
         read ? from : to, offset, length, i);
    wait_for(cq, i);
    REQUIRE(std::memcmp(from.memory.data() + offset, to.memory.data() + offset, length) == 0);
    ++transfers;
  }
  for (Side& side : sides) {
    REQUIRE(!ibv_destroy_qp(side.qp));
    REQUIRE(!ibv_dereg_mr(side.mr));
  }
  REQUIRE(!ibv_destroy_cq(cq));
  REQUIRE(!ibv_dealloc_pd(pd));
}

// Sleeps for the events of `cq` and takes `messages` completions of 100 bytes.
void take_announced(ibv_comp_channel* channel, ibv_cq* cq, long messages,
                    std::atomic<long>& taken) {
  for (long got = 0; got < messages;) {
    REQUIRE(!ibv_req_notify_cq(cq, 0));
    ibv_wc wc{};
    int n;
    while ((n = ibv_poll_cq(cq, 1, &wc)) > 0) {
      REQUIRE(wc.status == IBV_WC_SUCCESS && wc.byte_len == 100);
      ++got;
      ++taken;
    }
    if (got >= messages) break;
    ibv_cq* from = nullptr;
    void* context_pointer = nullptr;
    REQUIRE(!ibv_get_cq_event(channel, &from, &context_pointer));
    ibv_ack_cq_events(from, 1);
    ++events;
  }
}

// SENDs to oneself, each announced by a completion event that another thread sleeps for.
void eventful(ibv_context* context, const ibv_gid& gid) {
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* cq = ibv_create_cq(context, 64, nullptr, channel, 0);
  ibv_cq* send_cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = send_cq;
  init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {16, 16, 1, 1, 64};
  Side side;
  side.qp = ibv_create_qp(pd, &init);
  side.mr = ibv_reg_mr(pd, side.memory.data(), side.memory.size(), IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(channel && cq && send_cq && side.qp && side.mr);
  connect_rc(side.qp, side.qp->qp_num, gid, kTimeout, kRetries);
  constexpr long kMessages = 500;
  constexpr long kAhead = 32;  // of the sleeper, or its completion queue of 64 overruns
  std::atomic<long> taken{0};
  std::thread sleeper([&] { take_announced(channel, cq, kMessages, taken); });
  for (long i = 0; i < kMessages; ++i) {
    while (i - taken > kAhead) std::this_thread::yield();
    ibv_sge into{reinterpret_cast<uintptr_t>(side.memory.data()), 4096, side.mr->lkey};
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    receive.sg_list = &into;
    receive.num_sge = 1;
    REQUIRE(!ibv_post_recv(side.qp, &receive, &bad_receive));
    ibv_sge from{reinterpret_cast<uintptr_t>(side.memory.data()) + 8192, 100, side.mr->lkey};
    ibv_send_wr send{}, *bad = nullptr;
    send.wr_id = static_cast<uint64_t>(i);
    send.sg_list = &from;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    REQUIRE(!ibv_post_send(side.qp, &send, &bad));
    wait_for(send_cq, static_cast<uint64_t>(i));
    ++transfers;
  }
  sleeper.join();
  REQUIRE(!ibv_destroy_qp(side.qp));
  REQUIRE(!ibv_dereg_mr(side.mr));
  REQUIRE(!ibv_destroy_cq(cq));
  REQUIRE(!ibv_destroy_cq(send_cq));
  REQUIRE(!ibv_destroy_comp_channel(channel));
  REQUIRE(!ibv_dealloc_pd(pd));
}

}  // namespace

int main(int argc, char** argv) {
  int seconds = argc > 1 ? std::atoi(argv[1]) : 5;
  int threads = argc > 2 ? std::atoi(argv[2]) : 4;
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = list && list[0] ? ibv_open_device(list[0]) : nullptr;
  REQUIRE(context);
  ibv_gid gid{};
  REQUIRE(!ibv_query_gid(context, 1, 0, &gid));
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([=, &gid] {
      for (unsigned life = 0; !stopping; ++life)
        connection(context, gid, static_cast<unsigned>(t) * 7919 + life);
    });
  workers.emplace_back([=, &gid] {
    while (!stopping) eventful(context, gid);
  });
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  stopping = true;
  for (std::thread& worker : workers) worker.join();
  REQUIRE(!ibv_close_device(context));
  ibv_free_device_list(list);
  std::printf("%ld transfers compared, %ld events\n", transfers.load(), events.load());
  return transfers > 100 && events > 0 ? 0 : 1;
}
