// Crowds of connections, one after another: a server and a client, two processes. In each round the
// client connects `depth` times at once; when all of them stand, each carries its number to the
// server and back, and all are ended. What a process has (descriptors, threads, mappings) is the
// same after the last round as after the first, and each number arrives once.
//
//     cm_crowd ADDRESS ROUNDS DEPTH
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "verbs_program.h"

namespace {

constexpr int kResolveMs = 2000;

// What a leak would make more of.
struct Belongings {
  size_t descriptors = 0, threads = 0, mappings = 0;
  bool operator==(const Belongings&) const = default;
};

size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

Belongings belongings() {
  Belongings own{entries("/proc/self/fd"), entries("/proc/self/task"), 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)  // those of memory with a name: shared
    if (line.find("memfd:") != line.npos || line.find("/dev/shm") != line.npos) ++own.mappings;
  return own;
}

// 0, or 1 with a line.
int compare(const char* who, const Belongings& before) {
  const Belongings after = belongings();
  if (after == before) return 0;
  std::printf("%s: %zu -> %zu descriptors, %zu -> %zu threads, %zu -> %zu mappings\n", who,
              before.descriptors, after.descriptors, before.threads, after.threads, before.mappings,
              after.mappings);
  return 1;
}

struct Connection {
  rdma_cm_id* id = nullptr;
  uint64_t* word = nullptr;  // of the registered memory
};

// What both sides have: one completion queue, and a word of memory for each connection.
class Side {
 public:
  explicit Side(uint32_t depth) : channel_(rdma_create_event_channel()), words_(depth) {
    REQUIRE(channel_ != nullptr);
    for (uint64_t& word : words_) unused_.push_back(&word);
  }

 protected:
  Connection& add(rdma_cm_id* id) {
    if (cq_ == nullptr) {
      completions_ = ibv_create_comp_channel(id->verbs);
      REQUIRE(completions_ != nullptr);
      const int entries = static_cast<int>(4 * words_.size());
      REQUIRE(cq_ = ibv_create_cq(id->verbs, entries, nullptr, completions_, 0));
      REQUIRE(!ibv_req_notify_cq(cq_, 0));
      REQUIRE(mr_ = ibv_reg_mr(id->pd, words_.data(), words_.size() * sizeof(uint64_t),
                               IBV_ACCESS_LOCAL_WRITE));
    }
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1};
    attr.qp_type = IBV_QPT_RC;
    REQUIRE(!rdma_create_qp(id, nullptr, &attr));
    REQUIRE(!unused_.empty());
    Connection& made = connections_[id->qp->qp_num];
    made = {id, unused_.back()};
    unused_.pop_back();
    ibv_sge sge = element(made);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    REQUIRE(!ibv_post_recv(id->qp, &wr, &bad));
    return made;
  }

  void send(const Connection& connection, uint64_t number) {
    *connection.word = number;
    ibv_sge sge = element(connection);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    REQUIRE(!ibv_post_send(connection.id->qp, &wr, &bad));
  }

  void end(rdma_cm_id* id) {
    unused_.push_back(connections_.at(id->qp->qp_num).word);
    connections_.erase(id->qp->qp_num);
    rdma_destroy_qp(id);
    REQUIRE(!rdma_destroy_id(id));
  }

  // Waits, then shows what came. -1: no third descriptor.
  template <typename OnEvent, typename OnMessage>
  bool step(int other, OnEvent on_event, OnMessage on_message) {
    pollfd wait[3] = {{channel_->fd, POLLIN, 0}, {-1, POLLIN, 0}, {other, POLLIN, 0}};
    if (completions_ != nullptr) wait[1].fd = completions_->fd;
    REQUIRE(poll(wait, 3, -1) > 0);
    if ((wait[0].revents & POLLIN) != 0) {
      rdma_cm_event* event = nullptr;
      REQUIRE(!rdma_get_cm_event(channel_, &event));
      rdma_cm_id* id = event->id;
      const rdma_cm_event_type type = event->event;
      rdma_ack_cm_event(event);
      on_event(id, type);
    }
    if ((wait[1].revents & POLLIN) != 0) take_messages(on_message);
    return (wait[2].revents & (POLLIN | POLLHUP)) != 0;
  }

  rdma_event_channel* channel_;
  std::map<uint32_t, Connection> connections_;  // by queue pair

 private:
  ibv_sge element(const Connection& connection) const {
    return {reinterpret_cast<uint64_t>(connection.word), sizeof(uint64_t), mr_->lkey};
  }

  template <typename OnMessage>
  void take_messages(OnMessage on_message) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    REQUIRE(!ibv_get_cq_event(completions_, &cq, &context));
    ibv_ack_cq_events(cq, 1);
    REQUIRE(!ibv_req_notify_cq(cq, 0));
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) > 0) {
      const auto found = connections_.find(wc.qp_num);
      if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV) continue;  // flushed, or sent
      REQUIRE(found != connections_.end());
      on_message(found->second);
    }
  }

  std::vector<uint64_t> words_;
  std::vector<uint64_t*> unused_;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

class Server : public Side {
 public:
  Server(sockaddr_in address, uint32_t rounds, uint32_t depth, int client)
      : Side(depth), client_(client), seen_(size_t{rounds} * depth) {
    rdma_cm_id* listener = nullptr;
    REQUIRE(!rdma_create_id(channel_, &listener, nullptr, RDMA_PS_TCP));
    REQUIRE(!rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)));
    REQUIRE(!rdma_listen(listener, static_cast<int>(depth)));
    const uint16_t port = rdma_get_src_port(listener);
    REQUIRE(write(client_, &port, sizeof(port)) == sizeof(port));
  }

  // The client says when its first round is over ('f') and its last ('l'). The exit status.
  int run() {
    Belongings before;
    while (true) {
      const bool told = step(
          client_, [this](rdma_cm_id* id, rdma_cm_event_type type) { on_event(id, type); },
          [this](const Connection& from) { on_message(from); });
      if (!told || !connections_.empty()) continue;
      char what = 0;
      REQUIRE(read(client_, &what, 1) == 1);
      if (what == 'l') break;
      before = belongings();
      REQUIRE(write(client_, &what, 1) == 1);
    }
    for (const bool seen : seen_) REQUIRE(seen);
    return compare("server", before);
  }

 private:
  void on_event(rdma_cm_id* id, rdma_cm_event_type type) {
    rdma_conn_param param{};
    param.rnr_retry_count = 7;
    switch (type) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        add(id);
        REQUIRE(!rdma_accept(id, &param));
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
        rdma_disconnect(id);
        end(id);
        break;
      default:
        std::printf("server: %s\n", rdma_event_str(type));
        std::exit(1);
    }
  }

  void on_message(const Connection& from) {
    const uint64_t number = *from.word;
    REQUIRE(number < seen_.size() && !seen_[number]);
    seen_[number] = true;
    send(from, number);
  }

  int client_;
  std::vector<bool> seen_;
};

class Client : public Side {
 public:
  Client(sockaddr_in server, uint32_t depth) : Side(depth), server_(server), depth_(depth) {}

  void round(uint64_t first_number) {
    next_number_ = first_number;
    established_ = ended_ = 0;
    for (uint32_t i = 0; i < depth_; ++i) {
      rdma_cm_id* id = nullptr;
      REQUIRE(!rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP));
      REQUIRE(!rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&server_), kResolveMs));
    }
    while (ended_ < depth_)
      step(
          -1, [this](rdma_cm_id* id, rdma_cm_event_type type) { on_event(id, type); },
          [this](const Connection& from) { on_message(from); });
  }

 private:
  void on_event(rdma_cm_id* id, rdma_cm_event_type type) {
    rdma_conn_param param{};
    param.retry_count = param.rnr_retry_count = 7;
    switch (type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        REQUIRE(!rdma_resolve_route(id, kResolveMs));
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        add(id);
        REQUIRE(!rdma_connect(id, &param));
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        if (++established_ == depth_) send_all();
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
        end(id);
        ++ended_;
        break;
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
      default:
        std::printf("client: %s\n", rdma_event_str(type));
        std::exit(1);
    }
  }

  void send_all() {
    for (const auto& [qpn, connection] : connections_) {
      expected_[qpn] = next_number_;
      send(connection, next_number_++);
    }
  }

  void on_message(const Connection& from) {
    REQUIRE(*from.word == expected_.at(from.id->qp->qp_num));
    expected_.erase(from.id->qp->qp_num);
    REQUIRE(!rdma_disconnect(from.id));
  }

  sockaddr_in server_;
  uint32_t depth_;
  uint64_t next_number_ = 0;
  uint32_t established_ = 0, ended_ = 0;
  std::map<uint32_t, uint64_t> expected_;  // answers, by queue pair
};

// The exit status.
int ask(Client& client, int server, uint32_t rounds, uint32_t depth) {
  char what = 'f';
  client.round(0);
  REQUIRE(write(server, &what, 1) == 1);
  REQUIRE(read(server, &what, 1) == 1);
  const Belongings before = belongings();
  for (uint32_t round = 1; round < rounds; ++round) client.round(uint64_t{round} * depth);
  const int result = compare("client", before);
  what = 'l';
  REQUIRE(write(server, &what, 1) == 1);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (argc != 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
    std::fprintf(stderr, "usage: %s ADDRESS ROUNDS DEPTH\n", argv[0]);
    return 2;
  }
  const auto rounds = static_cast<uint32_t>(std::atoi(argv[2]));
  const auto depth = static_cast<uint32_t>(std::atoi(argv[3]));
  int ends[2];
  REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    std::exit(Server(address, rounds, depth, ends[0]).run());
  }
  close(ends[0]);
  if (read(ends[1], &address.sin_port, sizeof(address.sin_port)) != sizeof(address.sin_port))
    return 1;
  Client client(address, depth);
  const int result = ask(client, ends[1], rounds, depth);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  if (result != 0 || status != 0) return 1;
  std::printf("%u connections, %u at once, nothing left\n", rounds * depth, depth);
  return 0;
}
