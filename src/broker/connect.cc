// Sixteen programs started at once all come through here; the abstract name decides which broker
// lives, and everybody else's connect succeeds a few milliseconds later.
#include "broker/connect.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "broker/spawn.h"

namespace verbena::broker {
namespace {

constexpr int64_t kRespawnMs = 400;  // a broker that did not come up by then will not

int64_t now_ms() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

// The descriptor, or -errno.
int connect_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) return -EINVAL;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  link::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return -errno;
  // A full backlog blocks connect(); bounded by the same timeout.
  timeval patience{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return -errno;
  return fd.release();
}

// Anybody may bind the name first; descriptors go only to a broker of our own user.
Result<void> check_broker(int connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return fail(errno, "cannot tell who the broker is");
  }
  if (peer.uid == ::geteuid()) return {};
  return fail(EACCES,
              "UDP port 4791 of this host (network namespace) is shared out by a broker "
              "of uid " +
                  std::to_string(peer.uid) + " (pid " + std::to_string(peer.pid) +
                  "), and this process has uid " + std::to_string(::geteuid()) +
                  "; run it as the same user, or in a network namespace of its own: "
                  "unshare -rn");
}

}  // namespace

bool is_lost_connection(const Error& error) {
  return error.code == EPIPE || error.code == ECONNRESET || error.code == ENOTCONN;
}

Result<Answer> ask(int connection, const Request& request, std::span<const int> fds,
                   int timeout_ms) {
  timeval patience{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (int error = send_message(connection, &request, sizeof(request), fds)) {
    return fail(error, std::string("cannot reach the broker: ") + std::strerror(error));
  }
  Answer answer;
  answer.message = receive_message(connection, &answer.reply, sizeof(answer.reply));
  if (answer.message.error == EAGAIN) {
    return fail(ETIMEDOUT, "the broker does not answer (is verbena-broker stopped?)");
  }
  if (answer.message.error != 0) {
    return fail(answer.message.error,
                std::string("cannot hear the broker: ") + std::strerror(answer.message.error));
  }
  if (answer.message.length == 0) return fail(ECONNRESET, "the broker ended");
  if (answer.message.length != sizeof(Reply) || answer.reply.magic != kProtocolMagic) {
    return fail(EPROTO, "malformed answer of the broker");
  }
  if (answer.reply.error != 0) {
    answer.reply.text[sizeof(answer.reply.text) - 1] = 0;
    return fail(answer.reply.error, answer.reply.text);
  }
  return answer;
}

Result<Answer> connect_and_ask(const AttachOptions& options, const Request& request,
                               std::span<const int> fds, bool may_spawn) {
  const int64_t deadline = now_ms() + options.timeout_ms;
  int64_t spawned_at = 0;
  timespec pause{0, 1'000'000};
  Error last{ECONNREFUSED, "no broker runs on this host"};
  for (int64_t now = now_ms(); now < deadline; now = now_ms()) {
    link::Fd connection(connect_to(options.name));
    if (connection.valid()) {
      Result<void> trusted = check_broker(connection.get());
      if (!trusted) return tl::unexpected<Error>(trusted.error());
      Result<Answer> answer = ask(connection.get(), request, fds, static_cast<int>(deadline - now));
      if (answer) {
        answer->connection = std::move(connection);
        return answer;
      }
      if (!is_lost_connection(answer.error())) return answer;
      last = answer.error();
      continue;
    }
    if (!may_spawn) return tl::unexpected<Error>(last);
    if (spawned_at == 0 || now - spawned_at > kRespawnMs) {
      Result<void> spawned = spawn_broker(options.broker_path, options.name, options.port);
      if (!spawned) return tl::unexpected<Error>(spawned.error());
      spawned_at = now;
    }
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(pause.tv_nsec * 2, 20'000'000L);
  }
  return fail(ETIMEDOUT, "the broker did not answer within " + std::to_string(options.timeout_ms) +
                             " ms (" + last.message + ")");
}

}  // namespace verbena::broker
