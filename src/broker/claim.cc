// What a process does when its broker ends. The standby knows the lease by its token and takes the
// claim. When both have died nobody knows it: then a broker is started, who gathers the claims of
// all processes with their sockets (restoration.h) and answers with new ones.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "broker/client.h"
#include "broker/connect.h"
#include "broker/spawn.h"

namespace verbena::broker {
namespace {

constexpr int kRetryMs = 5;  // while a broker starts
// ms, after refusals. Shorter than a new broker waits for the claims of all.
constexpr int kFirstPatienceMs = 250, kMaxPatienceMs = 1000;

bool hung_up(int connection) {
  pollfd line{connection, 0, 0};
  return ::poll(&line, 1, 0) > 0 && (line.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

// Connects and claims. Errors: ETIMEDOUT a broker that does not read; those of connect_now().
Result<void> Lease::reconnect() {
  Result<link::Fd> connected = connect_now(options_.name);
  if (!connected && connected.error().code == EAGAIN) return fail(ETIMEDOUT, "no broker reads");
  if (!connected) return tl::unexpected<Error>(connected.error());
  connection_ = std::move(*connected);
  claim_ = identity_;
  claim_->type = RequestType::kReclaim;
  claim_->slot = slot_;
  const int fds[kMaxFds] = {segment_fd_.get(), wakeup_.get(), udp4_.get(), udp6_.get()};
  return put_request(connection_.get(), *claim_, {fds, udp6_.valid() ? kMaxFds : kMaxFds - 1});
}

// The answer to the claim. Errors: ETIMEDOUT not yet; else the claim is over.
Result<void> Lease::hear_claim(int wait_ms) {
  Result<Answer> claimed = hear_answer(connection_.get(), *claim_, wait_ms);
  if (!claimed && claimed.error().code == ETIMEDOUT) return tl::unexpected<Error>(claimed.error());
  claim_.reset();
  if (claimed) return move_to(*claimed);
  given_up_ = claimed.error().code == ESTALE;
  return tl::unexpected<Error>(claimed.error());
}

// The sockets and the page are put in the places of those we have: whoever has their descriptors,
// and reads, has the new ones at the next call.
Result<void> Lease::move_to(Answer& answer) {
  const Received& got = answer.message;
  if (got.fd_count < 2 || answer.reply.slot != slot_ || answer.reply.generation != generation_ ||
      got.fds[2].valid() != udp6_.valid())
    return fail(EPROTO, "malformed answer of the broker");
  if (Result<void> seen = host_.remap(got.fds[0].get()); !seen) return seen;
  for (auto [from, to] :
       {std::pair{got.fds[1].get(), udp4_.get()}, std::pair{got.fds[2].get(), udp6_.get()}})
    if (from >= 0 && ::dup3(from, to, O_CLOEXEC) < 0)
      return fail(errno, std::string("cannot take the new socket: ") + std::strerror(errno));
  moved_ = true;
  patience_ms_ = 0;
  return {};
}

Lease::Kept Lease::keep() {
  std::lock_guard<std::mutex> lock(mutex_);
  Kept kept;
  if (!attached_ || abandoned_) return kept;
  if (claim_) settle_claim(kept);
  if (connection_.valid() && hung_up(connection_.get())) lose_connection();
  if (!connection_.valid() && !given_up_) find_broker(kept);
  kept.line = {connection_.get(), claim_ ? short{POLLIN} : short{0}, 0};
  kept.moved = std::exchange(moved_, false);
  return kept;
}

void Lease::settle_claim(Kept& kept) {
  Result<void> claimed = hear_claim(0);
  if (claimed || claimed.error().code == ETIMEDOUT) return;
  lose_connection();
  if (is_lost_connection(claimed.error())) return;
  kept.explanation = "the next broker refuses this process: " + claimed.error().message;
  patience_ms_ = std::clamp<int64_t>(patience_ms_ * 2, kFirstPatienceMs, kMaxPatienceMs);
  next_try_ms_ = now_ms() + patience_ms_;
}

void Lease::find_broker(Kept& kept) {
  const int64_t now = now_ms();
  if (now >= next_try_ms_) {
    Result<void> claimed = reconnect();
    if (claimed) return;
    lose_connection();
    next_try_ms_ = now + kRetryMs;
    if (claimed.error().code == ECONNREFUSED && now - spawned_ms_ > kRespawnMs) {
      spawned_ms_ = now;
      Result<void> spawned = spawn_broker(options_.broker_path, options_.name, options_.port);
      kept.explanation = spawned ? "the broker and its standby ended; another one is started"
                                 : "the broker and its standby ended: " + spawned.error().message;
      if (!spawned) next_try_ms_ = now + kMaxPatienceMs;
    }
  }
  kept.again_ms = static_cast<int>(next_try_ms_ - now);
}

}  // namespace verbena::broker
