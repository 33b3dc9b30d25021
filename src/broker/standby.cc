// The standby: a fork of the broker that holds the same sockets and leases and waits for the
// broker to die (docs/decisions/0002-warm-standby.md). It keeps the listening socket too, so
// clients that connect during a takeover just wait in its backlog.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "broker/server.h"

namespace verbena::broker {
namespace {

constexpr int64_t kMinRestartMs = 20;  // a standby that dies at once is not restarted in a frenzy

}  // namespace

void Server::start_standby() {
  if (now_ms() - standby_started_ms_ < kMinRestartMs) return;
  standby_started_ms_ = now_ms();
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;
  link::Fd ours(pair[0]), theirs(pair[1]);
  pid_t child = ::fork();
  if (child < 0) return;
  if (child == 0) {
    ours.reset();
    standby_started_ms_ = 0;
    live_as_standby(std::move(theirs));
    run();  // the broker died: this process is the broker now, whatever the frames above were doing
    ::_exit(0);
  }
  standby_ = std::move(ours);
  standby_pid_ = child;
  custody_.page().standby_pid.store(child, std::memory_order_relaxed);
  watch(standby_.get(), tag(Tag::kStandby));
}

void Server::on_standby() {
  char byte;
  ssize_t n = ::recv(standby_.get(), &byte, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  stop_standby();
  start_standby();
}

// Its state is a copy of ours, so ending it loses nothing.
void Server::stop_standby() {
  if (standby_.valid()) {
    Update quit{Update::Type::kQuit};
    send_message(standby_.get(), &quit, sizeof(quit), {}, MSG_DONTWAIT);
    standby_.reset();
  }
  if (standby_pid_ <= 0) return;
  ::kill(standby_pid_, SIGKILL);
  while (::waitpid(standby_pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  standby_pid_ = 0;
}

void Server::tell_standby(const Update& update, std::span<const int> fds) {
  if (!standby_.valid()) return;
  if (send_message(standby_.get(), &update, sizeof(update), fds, MSG_DONTWAIT) == 0) return;
  stop_standby();  // dead or not reading: a new one starts from the present state
  start_standby();
}

// Returns when the broker has died.
void Server::live_as_standby(link::Fd updates) {
  // Connections must close when the broker dies, or its clients would not notice.
  connections_.clear();
  claims_.clear();  // they come again
  epoll_.reset();
  standby_.reset();
  standby_pid_ = 0;
  for (uint32_t slot = 0; slot < link::kSlots; ++slot)
    custody_.lease(slot).connection = custody_.lease(slot).manager = -1;
  ports_ = PortTable(static_cast<uint64_t>(now_ms()));
  management_.reset();
  while (true) {
    Update update;
    Received message = receive_message(updates.get(), &update, sizeof(update));
    // An update was lost: a standby that does not know every lease is worse than none. The broker
    // sees this one's end and forks another from its present state.
    if (message.error != 0 && message.error != ECONNRESET) ::_exit(1);
    if (message.length != sizeof(update)) break;
    apply(update, message);
  }
  custody_.page().takeovers.fetch_add(1, std::memory_order_relaxed);
  took_over_ = true;
}

void Server::apply(const Update& update, Received& message) {
  switch (update.type) {
    case Update::Type::kQuit:
      ::_exit(0);
    case Update::Type::kSockets: {
      if (update.slot != custody_.sockets().size()) return;
      custody_.sockets().adopt({std::move(message.fds[0]), std::move(message.fds[1])});
      return;
    }
    case Update::Type::kLease: {
      LeaseRow row;
      row.token = update.token;
      row.generation = update.generation;
      row.segment = std::move(message.fds[0]);
      row.wakeup = std::move(message.fds[1]);
      row.process = std::move(message.fds[2]);
      custody_.record(update.slot, std::move(row));
      return;
    }
    case Update::Type::kFree:
      custody_.release(update.slot, false);
      return;
  }
}

}  // namespace verbena::broker
