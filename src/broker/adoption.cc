// How a broker begins that has its processes from a Restoration: they keep their slots, and get new
// sockets behind those that they had.
#include <sys/socket.h>

#include <cerrno>

#include "broker/server.h"

namespace verbena::broker {

void Server::resume(Restoration& from) {
  took_over_ = true;
  custody_.page().takeovers.fetch_add(1, std::memory_order_relaxed);
  claims_ = std::move(from.claims());
  others_ = std::move(from.others());
}

// Before the standby is made, which must know of all processes.
void Server::adopt_claims() {
  for (Claim& claim : claims_) {
    const int fd = claim.connection.get();
    Connection* connection = admit(std::move(claim.connection));
    if (connection == nullptr) {  // of a process with too many of them, which was told so
      custody_.release(claim.request.slot, true);
      continue;
    }
    LeaseRow& lease = custody_.lease(claim.request.slot);
    lease.process = open_process(fd, connection->pid);
    bind_connection(claim.request.slot, *connection);
  }
  for (link::Fd& each : others_) admit(std::move(each));
  others_.clear();
}

void Server::answer_claims() {
  for (const Claim& claim : claims_) {
    const uint32_t slot = claim.request.slot;
    const int connection = custody_.lease(slot).connection;
    if (connection < 0) continue;  // as above
    int fds[kMaxFds];
    size_t fd_count = 0;
    Reply reply = show_lease(slot, fds, &fd_count);
    reply.type = claim.request.type;
    reply.sequence = claim.request.sequence;
    if (send_message(connection, &reply, sizeof(reply), {fds, fd_count}, MSG_DONTWAIT) != 0)
      close_connection(connection);
  }
  claims_.clear();
}

}  // namespace verbena::broker
