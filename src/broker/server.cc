// The event loop and the five requests.
#include "broker/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "broker/slot_segment.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; older kernels answer ENOPROTOOPT
#endif

namespace verbena::broker {
namespace {

constexpr int kLingerMs = 300;        // after the last lease
constexpr int kFirstClientMs = 3000;  // a broker nobody used
constexpr int kRefuseMs = 1000;
constexpr int kRetellMs = 200;    // processes have so long to tell a new broker their ports
constexpr int kLinesMs = 2000;    // and their peers' datagrams are swallowed for so long
constexpr int kNoStandbyMs = 20;  // between tries to start one
constexpr rlim_t kMinFiles = 32;  // the broker's own and those of two or three programs
constexpr size_t kMaxConnections = 1024;
constexpr size_t kMaxOfProcess = 64;  // that needs two, and a few between two brokers

Error no_room() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return {EMFILE, "the broker of this host (pid " + std::to_string(::getpid()) +
                      ") has no file descriptor left: the program that started it had a hard "
                      "limit of " +
                      std::to_string(files.rlim_max) +
                      " (ulimit -Hn); start the first RDMA program with a higher one"};
}

// Tells a client the error whether it has asked yet or not; the caller hangs up.
void tell_unasked(int client, const Error& error) {
  Reply reply = refuse(error.code, error.message);
  send_message(client, &reply, sizeof(reply), {}, MSG_DONTWAIT);
}

// Takes one client from the backlog for that.
void refuse_client(int listener, const Error& error) {
  link::Fd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (client.valid()) tell_unasked(client.get(), error);
}

// A client that was refused these has nothing more to say here.
bool ends_with_refusal(RequestType type) {
  return type != RequestType::kOpenPeer && type != RequestType::kDetach &&
         type != RequestType::kBindPort && type != RequestType::kReleasePort;
}

// A process that tells the ports it has to a new broker, or gives ports back, does so in bursts of
// thousands and waits for nothing.
bool is_answered(const Request& request, const Reply& reply) {
  if (reply.error != 0) return true;
  const bool again = (request.service.flags & kServiceAgain) != 0;
  return request.type != RequestType::kReleasePort &&
         (request.type != RequestType::kBindPort || !again);
}

}  // namespace

link::Fd open_process(int connection, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof(fd);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return link::Fd(fd);
  if (pid <= 0) return {};
  return link::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool segment_is_sound(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(kSegmentBytes)) return false;
  int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK);
}

Reply refuse(int error, const std::string& text) {
  Reply reply;
  reply.error = error;
  std::strncpy(reply.text, text.c_str(), sizeof(reply.text) - 1);
  return reply;
}

void Server::run() {
  begin_serving();
  serve_until_idle();
  stop_standby();
  connections_.clear();
  // The port before the name: whoever gets the name next must find the port free.
  custody_ = Custody{};
  listener_.reset();
}

void Server::begin_serving() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  custody_.page().broker_pid.store(::getpid(), std::memory_order_relaxed);
  watch(listener_.get(), tag(Tag::kListener));
  adopt_claims();
  slot_zero_from_ = now_ms() + (took_over_ ? kRetellMs : 0);
  lines_until_ = now_ms() + (took_over_ ? kLinesMs : 0);
  watch_slot_zero();
  for (uint32_t slot = link::kFirstSlot; slot <= link::kLastSlot; ++slot) {
    LeaseRow& lease = custody_.lease(slot);
    if (lease.used && lease.process.valid())
      watch(lease.process.get(), process_tag(slot, lease.generation));
  }
  start_standby();
  answer_claims();
}

void Server::watch(int fd, uint64_t tag, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Server::serve_until_idle() {
  bool had_lease = custody_.lease_count() > 0;
  int64_t idle_since = now_ms();
  while (true) {
    int timeout = standby_.valid() ? 1000 : kNoStandbyMs;
    if (custody_.lease_count() == 0) {
      int64_t left = idle_since + (had_lease ? kLingerMs : kFirstClientMs) - now_ms();
      if (left <= 0 && !has_pending_client()) return;
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, timeout));
    }
    if (slot_zero_from_ >= 0) timeout = std::min(timeout, kNoStandbyMs);
    if (const int soon = look_again(); soon >= 0) timeout = std::min(timeout, soon);
    epoll_event events[32];
    int n = ::epoll_wait(epoll_.get(), events, 32, timeout);
    for (int i = 0; i < n; ++i) dispatch(events[i].data.u64);
    watch_slot_zero();
    sweep_released();
    if (!standby_.valid()) start_standby();
    if (custody_.lease_count() > 0) {
      had_lease = true;
      idle_since = now_ms();
    }
  }
}

void Server::dispatch(uint64_t tag) {
  const uint32_t value = static_cast<uint32_t>(tag);
  switch (static_cast<Tag>(tag >> 56)) {
    case Tag::kListener:
      return on_listener();
    case Tag::kConnection:
      return on_connection(static_cast<int>(value));
    case Tag::kProcess:
      return on_process_exit(tag >> 32 & 0xff, value);
    case Tag::kStandby:
      return on_standby();
    case Tag::kSlotZero:
      return on_slot_zero();
  }
}

bool Server::has_pending_client() const {
  pollfd wait{listener_.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

void Server::on_listener() {
  link::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    if (errno == EMFILE || errno == ENFILE) refuse_next_client();
    return;
  }
  admit(std::move(fd));
}

Server::Connection* Server::admit(link::Fd fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return nullptr;
  // Another user's process knows from our credentials that it is in the wrong place (connect.cc).
  // It must not take up a row.
  if (credentials.uid != ::geteuid()) return nullptr;
  if (connections_.size() >= kMaxConnections) {
    tell_unasked(fd.get(), {EAGAIN, "the broker of this host has " +
                                        std::to_string(kMaxConnections) + " connections already"});
    return nullptr;
  }
  const auto of_process = std::count_if(
      connections_.begin(), connections_.end(),
      [&](const auto& each) { return credentials.pid != 0 && each.second.pid == credentials.pid; });
  if (static_cast<size_t>(of_process) >= kMaxOfProcess) {
    tell_unasked(fd.get(), {EAGAIN, "this process has " + std::to_string(kMaxOfProcess) +
                                        " connections to the broker of this host already"});
    return nullptr;
  }
  int key = fd.get();
  watch(key, tag(Tag::kConnection, static_cast<uint32_t>(key)));
  return &(connections_[key] = Connection{std::move(fd), credentials.uid, credentials.pid});
}

// Left in the backlog, it would wait for an answer, keep this broker alive and spin its loop.
void Server::refuse_next_client() {
  spare_.reset();
  refuse_client(listener_.get(), no_room());
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Server::on_connection(int fd) {
  auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  Connection& from = found->second;
  if (from.unsaid) return say_unsaid(from);
  if (!from.late.empty() && !say_late(from)) return;
  Request request;
  Received message = receive_message(fd, &request, sizeof(request), MSG_DONTWAIT);
  if (message.error == EAGAIN) return;
  bool lost_fds = message.error == EMFILE;
  if ((message.error != 0 && !lost_fds) || message.length == 0) return close_connection(fd);
  int fds[kMaxFds];
  size_t fd_count = 0;
  Reply reply;
  if (message.length != sizeof(request) || request.magic != kProtocolMagic ||
      request.version != kProtocolVersion) {
    reply = refuse(EPROTO,
                   "the broker of this host belongs to another Verbena version; stop the "
                   "programs that use it first");
  } else if (lost_fds) {
    reply = refuse(EMFILE, no_room().message);
  } else {
    reply = handle(from, request, message, fds, &fd_count);
  }
  reply.type = request.type;
  reply.sequence = request.sequence;
  if (!is_answered(request, reply)) return;
  int error = send_message(fd, &reply, sizeof(reply), {fds, fd_count}, MSG_DONTWAIT);
  bool over = reply.error == EPROTO || (reply.error != 0 && ends_with_refusal(request.type));
  if (error == EAGAIN && from.manages && !over) {
    from.unsaid = std::make_unique<Reply>(reply);
    return watch_connection(from);
  }
  if (error != 0 || over) close_connection(fd);
}

// A connection manager that does not read its line, full of datagrams, loses no port over it: it is
// asked nothing more until it has heard its answer.
void Server::say_unsaid(Connection& to) {
  const int fd = to.fd.get();
  const int error = send_message(fd, to.unsaid.get(), sizeof(Reply), {}, MSG_DONTWAIT);
  if (error == EAGAIN) return;
  if (error != 0) return close_connection(fd);
  to.unsaid.reset();
  watch_connection(to);
}

bool Server::say_late(Connection& to) {
  const int fd = to.fd.get();
  while (!to.late.empty()) {
    const int error = send_message(fd, &to.late.front(), sizeof(MadMessage), {}, MSG_DONTWAIT);
    if (error == EAGAIN) return true;
    if (error != 0) {
      close_connection(fd);
      return false;
    }
    to.late.pop_front();
  }
  watch_connection(to);
  return true;
}

void Server::watch_connection(Connection& connection) {
  const uint32_t out = connection.unsaid || !connection.late.empty() ? uint32_t{EPOLLOUT} : 0;
  const uint32_t in = connection.unsaid ? 0 : uint32_t{EPOLLIN};
  const int fd = connection.fd.get();
  watch(fd, tag(Tag::kConnection, static_cast<uint32_t>(fd)), in | out);
}

Reply Server::handle(Connection& from, const Request& request, Received& message, int* fds,
                     size_t* fd_count) {
  switch (request.type) {
    case RequestType::kAttach:
      return attach(from, request, message, fds, fd_count);
    case RequestType::kReclaim:
      return reclaim(from, request, fds, fd_count);
    case RequestType::kOpenPeer:
      return open_peer(request, fds, fd_count);
    case RequestType::kDetach:
      if (from.slot) release(from.slot);
      return {};
    case RequestType::kObserve:
      fds[(*fd_count)++] = custody_.page_fd();
      return {};
    case RequestType::kManage:
      return manage(from, request);
    case RequestType::kBindPort:
      return bind_port(from, request);
    case RequestType::kReleasePort:
      if (from.manages) ports_.release(from.slot, request.service, now_ms());
      return {};
  }
  return refuse(EPROTO, "unknown request to the broker");
}

Reply Server::attach(Connection& from, const Request& request, Received& message, int* fds,
                     size_t* fd_count) {
  std::optional<uint32_t> slot = custody_.find(request.token);
  if (!slot) {  // else: the answer to the first try was lost with the broker that gave it
    if (message.fd_count != 2 || from.slot || !segment_is_sound(message.fds[0].get())) {
      return refuse(EPROTO, "malformed request for a slot");
    }
    slot = custody_.lowest_free();
    if (!slot) {
      return refuse(EAGAIN,
                    "all 254 slots of UDP port 4791 are in use by running processes; wait "
                    "for one to end or use another network namespace");
    }
    while (custody_.sockets().size() <= *slot) {
      uint32_t next = static_cast<uint32_t>(custody_.sockets().size());
      Result<void> grown = custody_.sockets().grow_to(next);
      if (!grown) return refuse(grown.error().code, grown.error().message);
      const SlotSockets& made = custody_.sockets().at(next);
      int pair[2] = {made.udp4.get(), made.udp6.get()};
      tell_standby({Update::Type::kSockets, next}, {pair, made.udp6.valid() ? 2u : 1u});
    }
    LeaseRow row;
    row.token = request.token;
    row.segment = std::move(message.fds[0]);
    row.wakeup = std::move(message.fds[1]);
    row.process = open_process(from.fd.get(), from.pid);
    custody_.grant(*slot, request, from.uid, std::move(row));
    LeaseRow& lease = custody_.lease(*slot);
    int held[3] = {lease.segment.get(), lease.wakeup.get(), lease.process.get()};
    tell_standby({Update::Type::kLease, *slot, lease.generation, 0, lease.token},
                 {held, lease.process.valid() ? 3u : 2u});
    if (lease.process.valid()) {
      watch(lease.process.get(), process_tag(*slot, lease.generation));
    }
  }
  bind_connection(*slot, from);
  return show_lease(*slot, fds, fd_count);
}

Reply Server::show_lease(uint32_t slot, int* fds, size_t* fd_count) {
  const SlotSockets& own = custody_.sockets().at(slot);
  fds[(*fd_count)++] = custody_.page_fd();
  fds[(*fd_count)++] = own.udp4.get();
  if (own.udp6.valid()) fds[(*fd_count)++] = own.udp6.get();
  Reply reply;
  reply.slot = slot;
  reply.generation = custody_.lease(slot).generation;
  return reply;
}

Reply Server::reclaim(Connection& from, const Request& request, int* fds, size_t* fd_count) {
  std::optional<uint32_t> slot = custody_.find(request.token);
  if (!slot || *slot != request.slot) {
    return refuse(ESTALE,
                  "the broker does not know this process, which handed nothing over when the last "
                  "one and its standby died together; restart it");
  }
  bind_connection(*slot, from);
  return show_lease(*slot, fds, fd_count);
}

// An older connection of the lease, if it still stands, must not end the lease when it closes.
void Server::bind_connection(uint32_t slot, Connection& from) {
  LeaseRow& lease = custody_.lease(slot);
  auto older = connections_.find(lease.connection);
  if (older != connections_.end()) older->second.slot = 0;
  lease.connection = from.fd.get();
  from.slot = slot;
}

Reply Server::open_peer(const Request& request, int* fds, size_t* fd_count) {
  if (!link::is_process_slot(request.slot) || !custody_.lease(request.slot).used) {
    return refuse(ENOENT, "slot " + std::to_string(request.slot) + " has no process");
  }
  const LeaseRow& lease = custody_.lease(request.slot);
  fds[(*fd_count)++] = lease.segment.get();
  fds[(*fd_count)++] = lease.wakeup.get();
  Reply reply;
  reply.slot = request.slot;
  reply.generation = lease.generation;
  return reply;
}

void Server::close_connection(int fd) {
  auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  uint32_t slot = found->second.slot;
  const bool manages = found->second.manages;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  connections_.erase(found);
  if (slot && manages) return end_management(slot);
  if (slot) release(slot);
}

void Server::on_process_exit(uint32_t slot, uint32_t generation) {
  const LeaseRow& lease = custody_.lease(slot);
  if (lease.used && lease.generation == generation) release(slot);
}

void Server::release(uint32_t slot) {
  LeaseRow& lease = custody_.lease(slot);
  if (lease.process.valid()) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, lease.process.get(), nullptr);
  }
  auto connection = connections_.find(lease.connection);
  if (connection != connections_.end()) connection->second.slot = 0;
  end_management(slot);
  say_goodbye_for(slot);
  custody_.release(slot, true);
  tell_standby({Update::Type::kFree, slot}, {});
}

// Only leases without a connection (their broker died) can be given back behind our back.
void Server::sweep_released() {
  for (uint32_t slot = link::kFirstSlot; slot <= link::kLastSlot; ++slot) {
    LeaseRow& lease = custody_.lease(slot);
    if (lease.used && lease.connection < 0 && custody_.released_by_owner(slot)) release(slot);
  }
}

Result<void> check_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kMinFiles) {
    return tl::unexpected<Error>(no_room());
  }
  return {};
}

void refuse_clients(int listener, const Error& error) {
  int64_t end = now_ms() + kRefuseMs;
  for (int64_t left = kRefuseMs; left > 0; left = end - now_ms()) {
    pollfd wait{listener, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    refuse_client(listener, error);
  }
}

}  // namespace verbena::broker
