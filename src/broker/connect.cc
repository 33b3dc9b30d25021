// Sixteen programs started at once all come through here; the abstract name decides which broker
// lives, and everybody else's connect succeeds a few milliseconds later.
#include "broker/connect.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "broker/spawn.h"

namespace verbena::broker {
namespace {

// The descriptor, or -errno. EAGAIN: the backlog stayed full for `patience_ms`.
int connect_to(const std::string& name, int64_t patience_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) return -EINVAL;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  int waits = patience_ms > 0 ? 0 : SOCK_NONBLOCK;
  link::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | waits, 0));
  if (!fd.valid()) return -errno;
  timeval patience{patience_ms / 1000, patience_ms % 1000 * 1000};
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

tl::unexpected<Error> silent() {
  return fail(ETIMEDOUT, "the broker does not answer (is verbena-broker stopped?)");
}

tl::unexpected<Error> malformed() {
  return fail(EPROTO, "malformed answer of the broker");
}

}  // namespace

bool is_reply(Reply& reply, size_t length) {
  if (length != sizeof(Reply) || reply.magic != kProtocolMagic) return false;
  reply.text[sizeof(reply.text) - 1] = 0;
  return true;
}

Result<void> check_reply(const Reply& reply, RequestType type) {
  if (reply.error != 0) return fail(reply.error, reply.text);
  if (reply.type != type) return malformed();
  return {};
}

bool is_lost_connection(const Error& error) {
  return error.code == EPIPE || error.code == ECONNRESET || error.code == ENOTCONN;
}

Result<void> put_request(int connection, Request& request, std::span<const int> fds) {
  static std::atomic<uint32_t> next{0};
  while ((request.sequence = ++next) == 0) {
  }
  int error = send_message(connection, &request, sizeof(request), fds, MSG_DONTWAIT);
  if (error == 0) return {};
  if (error == EAGAIN) return silent();
  return fail(error, std::string("cannot reach the broker: ") + std::strerror(error));
}

Result<Answer> hear_answer(int connection, const Request& request, int wait_ms) {
  const int64_t deadline = now_ms() + wait_ms;
  while (true) {
    Answer answer;
    const Reply& reply = answer.reply;
    answer.message = receive_message(connection, &answer.reply, sizeof(reply), MSG_DONTWAIT);
    const Received& message = answer.message;
    if (message.error == EAGAIN) {
      int64_t left = deadline - now_ms();
      if (left <= 0) return silent();
      pollfd wait{connection, POLLIN, 0};
      ::poll(&wait, 1, static_cast<int>(left));
      continue;
    }
    const bool whole = is_reply(answer.reply, message.length);
    if (whole && reply.sequence != 0 && reply.sequence != request.sequence) continue;  // given up
    if (message.error != 0) {
      return fail(message.error,
                  std::string("cannot hear the broker: ") + std::strerror(message.error));
    }
    if (message.length == 0) return fail(ECONNRESET, "the broker ended");
    if (!whole) return malformed();
    Result<void> said = check_reply(reply, request.type);
    if (!said) return tl::unexpected<Error>(said.error());
    if (reply.sequence != request.sequence) return malformed();
    return answer;
  }
}

Result<Answer> ask(int connection, Request request, std::span<const int> fds, int timeout_ms) {
  Result<void> put = put_request(connection, request, fds);
  if (put) return hear_answer(connection, request, timeout_ms);
  // A broker that hung up before we asked may have said why.
  Result<Answer> last = hear_answer(connection, request, 0);
  bool refused = !last && last.error().code != ETIMEDOUT && !is_lost_connection(last.error());
  return tl::unexpected<Error>(refused ? last.error() : put.error());
}

Result<link::Fd> connect_now(const std::string& name) {
  int connected = connect_to(name, 0);
  if (connected < 0) {
    return fail(-connected, std::string("cannot reach the broker: ") + std::strerror(-connected));
  }
  link::Fd connection(connected);
  Result<void> trusted = check_broker(connection.get());
  if (!trusted) return tl::unexpected<Error>(trusted.error());
  return connection;
}

Result<Answer> connect_and_ask(const AttachOptions& options, const Request& request,
                               std::span<const int> fds, bool may_spawn) {
  const int64_t deadline = now_ms() + options.timeout_ms;
  int64_t spawned_at = 0;
  timespec pause{0, 1'000'000};
  Error last{ECONNREFUSED, "no broker runs on this host"};
  for (int64_t now = now_ms(); now < deadline; now = now_ms()) {
    int connected = connect_to(options.name, deadline - now);
    if (connected >= 0) {
      link::Fd connection(connected);
      Result<void> trusted = check_broker(connection.get());
      if (!trusted) return tl::unexpected<Error>(trusted.error());
      Result<Answer> answer = ask(connection.get(), request, fds, static_cast<int>(deadline - now));
      if (answer) {
        answer->connection = std::move(connection);
        return answer;
      }
      if (!is_lost_connection(answer.error())) return answer;
      last = answer.error();
    } else if (connected == -EAGAIN) {
      return silent();
    } else if (connected == -EINTR) {
      continue;
    } else if (connected != -ECONNREFUSED) {
      return fail(-connected, std::string("cannot reach the broker: ") + std::strerror(-connected));
    } else if (!may_spawn) {
      return tl::unexpected<Error>(last);
    } else if (spawned_at == 0 || now - spawned_at > kRespawnMs) {
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
