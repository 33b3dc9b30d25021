// A program of rdma_cm and rsockets that goes one step when it is told to: connections_test.py
// brings two of them to any state of a connection, and ends one there. Reads a command a line and
// answers with a line: what the call or the event said. Knows only the public interfaces.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace {

constexpr int kResolveMs = 2000;

rdma_event_channel* g_channel = nullptr;  // null: synchronous ids
rdma_cm_id* g_listener = nullptr;
rdma_cm_id* g_id = nullptr;  // of the connection
ibv_cq* g_cq = nullptr;
ibv_comp_channel* g_completions = nullptr;
int g_listening = -1, g_stream = -1;  // rsockets
std::istringstream g_words;           // of the command that follow its name

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(1);
}

std::string outcome(int result) {
  return result >= 0 ? "ok" : std::string("errno ") + strerrorname_np(errno);
}

sockaddr_in address() {
  std::string host;
  uint16_t port = 0;
  g_words >> host >> port;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &to.sin_addr);
  return to;
}

sockaddr* plain(sockaddr_in& to) {
  return reinterpret_cast<sockaddr*>(&to);
}

// What may block says so first: whoever waits for it looks for the thread to sleep afterwards.
std::string blocking(const std::function<std::string()>& call) {
  say("blocking");
  return call();
}

std::string add_queue_pair(rdma_cm_id* id) {
  if (g_cq == nullptr) {
    g_completions = ibv_create_comp_channel(id->verbs);
    g_cq = ibv_create_cq(id->verbs, 16, nullptr, g_completions, 0);
  }
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = g_cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  attr.qp_type = IBV_QPT_RC;
  return outcome(rdma_create_qp(id, nullptr, &attr));
}

std::string take_event() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(g_channel, &event) != 0) return outcome(-1);
  const std::string said =
      std::string(rdma_event_str(event->event)).substr(14) + " " + std::to_string(event->status);
  const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  if (request) g_id = event->id;
  rdma_ack_cm_event(event);
  if (request) add_queue_pair(g_id);
  return said;
}

// Resolves; with a channel the two events are taken. "ok" or what went wrong.
std::string resolve() {
  sockaddr_in to = address();
  if (rdma_create_id(g_channel, &g_id, nullptr, RDMA_PS_TCP) != 0) return outcome(-1);
  if (rdma_resolve_addr(g_id, nullptr, plain(to), kResolveMs) != 0) return outcome(-1);
  if (g_channel != nullptr) take_event();
  if (rdma_resolve_route(g_id, kResolveMs) != 0) return outcome(-1);
  if (g_channel != nullptr) take_event();
  return add_queue_pair(g_id);
}

std::string listen_on_address() {
  sockaddr_in own = address();
  if (rdma_create_id(g_channel, &g_listener, nullptr, RDMA_PS_TCP) != 0) return outcome(-1);
  if (rdma_bind_addr(g_listener, plain(own)) != 0) return outcome(-1);
  return outcome(rdma_listen(g_listener, 0));
}

std::string get_request() {
  const int result = rdma_get_request(g_listener, &g_id);
  return result == 0 ? add_queue_pair(g_id) : outcome(result);
}

std::string connect_id() {
  rdma_conn_param param{};
  param.retry_count = 7;
  return outcome(rdma_connect(g_id, &param));
}

std::string accept_id() {
  rdma_conn_param param{};
  return outcome(rdma_accept(g_id, &param));
}

std::string wait_for_completion() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  return outcome(ibv_get_cq_event(g_completions, &cq, &context));
}

// An event is there; it is not taken.
std::string wait_for_event() {
  pollfd wait{g_channel->fd, POLLIN, 0};
  return outcome(poll(&wait, 1, -1));
}

std::string destroy() {
  rdma_destroy_qp(g_id);
  return outcome(rdma_destroy_id(g_id));
}

void on_signal(int) {
  constexpr char kText[] = "handled\n";
  if (write(STDOUT_FILENO, kText, sizeof(kText) - 1) < 0) _exit(1);
}

std::string handle_signals() {
  std::string how;
  g_words >> how;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = how == "restart" ? SA_RESTART : 0;
  return outcome(sigaction(SIGUSR1, &action, nullptr));
}

// --- rsockets

std::string listen_for_streams() {
  sockaddr_in own = address();
  g_listening = rsocket(AF_INET, SOCK_STREAM, 0);
  if (rbind(g_listening, plain(own), sizeof(own)) != 0) return outcome(-1);
  return outcome(rlisten(g_listening, 8));
}

std::string connect_stream() {
  sockaddr_in to = address();
  g_stream = rsocket(AF_INET, SOCK_STREAM, 0);
  return outcome(rconnect(g_stream, plain(to), sizeof(to)));
}

std::string accept_stream() {
  return outcome(g_stream = raccept(g_listening, nullptr, nullptr));
}

std::string receive() {
  char byte;
  return outcome(static_cast<int>(rrecv(g_stream, &byte, 1, 0)));
}

std::string wait_for_stream() {
  pollfd wait{g_stream, POLLIN, 0};
  return outcome(rpoll(&wait, 1, -1));
}

const std::map<std::string, std::function<std::string()>>& commands() {
  static const std::map<std::string, std::function<std::string()>> all{
      {"channel", [] { return outcome((g_channel = rdma_create_event_channel()) ? 0 : -1); }},
      {"handler", handle_signals},
      {"listen", listen_on_address},
      {"resolve", resolve},
      {"connect", [] { return blocking(connect_id); }},
      {"get_request", [] { return blocking(get_request); }},
      {"accept", [] { return blocking(accept_id); }},
      {"pending", [] { return blocking(wait_for_event); }},
      {"event", [] { return blocking(take_event); }},
      {"disconnect", [] { return blocking([] { return outcome(rdma_disconnect(g_id)); }); }},
      {"cq_event", [] { return blocking(wait_for_completion); }},
      {"destroy", destroy},
      {"close", [] { return outcome(rdma_destroy_id(g_listener)); }},
      {"rlisten", listen_for_streams},
      {"rconnect", [] { return blocking(connect_stream); }},
      {"raccept", [] { return blocking(accept_stream); }},
      {"rrecv", [] { return blocking(receive); }},
      {"rpoll", [] { return blocking(wait_for_stream); }},
  };
  return all;
}

}  // namespace

int main() {
  std::string line, name;
  while (std::getline(std::cin, line)) {
    g_words = std::istringstream(line);
    g_words >> name;
    const auto command = commands().find(name);
    say(command == commands().end() ? "no such command" : command->second());
  }
  return 0;
}
