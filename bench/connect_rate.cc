// How many connections a second rdma_cm makes and ends on one processor: a server and a client,
// two processes held to the same one, connect, accept and disconnect, each connection with its own
// queue pair, `depth` of them at once. Prints the rate.
//
//     bench_connect_rate ADDRESS CONNECTIONS DEPTH
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kResolveMs = 2000;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

void check(int result, const char* what) {
  if (result != 0) give_up(what);
}

void stay_on_one_processor() {
  cpu_set_t allowed;
  check(sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_ZERO(&allowed);
    CPU_SET(cpu, &allowed);
    break;
  }
  check(sched_setaffinity(0, sizeof(allowed), &allowed), "sched_setaffinity");
}

double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void add_queue_pair(rdma_cm_id* id, ibv_cq* cq) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  attr.qp_type = IBV_QPT_RC;
  check(rdma_create_qp(id, nullptr, &attr), "rdma_create_qp");
}

// One completion queue for all: what is measured is the connection.
ibv_cq* queue_of(rdma_cm_id* id) {
  static ibv_cq* cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
  if (cq == nullptr) give_up("ibv_create_cq");
  return cq;
}

rdma_cm_event_type next(rdma_event_channel* channel, rdma_cm_id*& id) {
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
  id = event->id;
  const rdma_cm_event_type type = event->event;
  rdma_ack_cm_event(event);
  return type;
}

void end(rdma_cm_id* id) {
  rdma_destroy_qp(id);
  check(rdma_destroy_id(id), "rdma_destroy_id");
}

[[noreturn]] void serve(sockaddr_in address, int ready) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  check(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), "rdma_create_id");
  check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
  check(rdma_listen(listener, 0), "rdma_listen");
  const uint16_t port = rdma_get_src_port(listener);
  if (write(ready, &port, sizeof(port)) != sizeof(port)) give_up("write");
  rdma_conn_param param{};
  while (true) {
    rdma_cm_id* id = nullptr;
    switch (next(channel, id)) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        add_queue_pair(id, queue_of(id));
        check(rdma_accept(id, &param), "rdma_accept");
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
        rdma_disconnect(id);
        end(id);
        break;
      default:
        break;
    }
  }
}

class Client {
 public:
  Client(sockaddr_in server, uint32_t connections)
      : channel_(rdma_create_event_channel()), server_(server), left_(connections) {}

  void run(uint32_t depth) {
    for (uint32_t i = 0; i < depth && left_ > 0; ++i) start();
    while (open_ > 0) step();
  }

 private:
  void start() {
    --left_;
    ++open_;
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&server_), kResolveMs),
          "rdma_resolve_addr");
  }

  void step() {
    rdma_cm_id* id = nullptr;
    rdma_conn_param param{};
    const rdma_cm_event_type event = next(channel_, id);
    switch (event) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        return check(rdma_resolve_route(id, kResolveMs), "rdma_resolve_route");
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        add_queue_pair(id, queue_of(id));
        return check(rdma_connect(id, &param), "rdma_connect");
      case RDMA_CM_EVENT_ESTABLISHED:
        return check(rdma_disconnect(id), "rdma_disconnect");
      case RDMA_CM_EVENT_DISCONNECTED:
        end(id);
        --open_;
        if (left_ > 0) start();
        return;
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
      default:
        std::fprintf(stderr, "%s\n", rdma_event_str(event));
        std::exit(1);
    }
  }

  rdma_event_channel* channel_;
  sockaddr_in server_;
  uint32_t left_ = 0;
  uint32_t open_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (argc != 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
    std::fprintf(stderr, "usage: %s ADDRESS CONNECTIONS DEPTH\n", argv[0]);
    return 2;
  }
  const auto connections = static_cast<uint32_t>(std::atoi(argv[2]));
  stay_on_one_processor();
  int ready[2];
  check(pipe(ready), "pipe");
  const pid_t server = fork();
  if (server == 0) serve(address, ready[1]);
  close(ready[1]);
  if (read(ready[0], &address.sin_port, sizeof(address.sin_port)) != sizeof(address.sin_port))
    give_up("no server");
  Client client(address, connections);
  const double start = seconds();
  client.run(static_cast<uint32_t>(std::atoi(argv[3])));
  std::printf("%.0f connections/s\n", connections / (seconds() - start));
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return 0;
}
