// A socket's inode number is the same in every process that has it, and the kernel lists those of a
// port: so a broker knows when it has them all.
#include "broker/restoration.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "broker/message.h"
#include "broker/port_holder.h"
#include "broker/server.h"
#include "broker/slot_segment.h"

namespace verbena::broker {
namespace {

constexpr size_t kMaxClients = 1024;
constexpr size_t kClaimFds = 3;  // segment, eventfd, udp4; and udp6 where there is IPv6

uint64_t inode_of(const link::Fd& fd) {
  struct stat info;
  return fd.valid() && ::fstat(fd.get(), &info) == 0 ? info.st_ino : 0;
}

bool is_our_user(int connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

uint32_t generation_in(const link::Fd& segment) {
  uint32_t generation = 0;
  const ssize_t n =
      ::pread(segment.get(), &generation, sizeof(generation), offsetof(SegmentHeader, generation));
  return n == sizeof(generation) ? generation : 0;
}

}  // namespace

void Restoration::listen(int wait_ms) {
  const int64_t end = now_ms() + wait_ms;
  for (int64_t left = wait_ms; left > 0; left = end - now_ms()) {
    std::vector<pollfd> fds{{listener_, POLLIN, 0}};
    for (const link::Fd& each : unheard_) fds.push_back({each.get(), POLLIN, 0});
    if (::poll(fds.data(), fds.size(), static_cast<int>(left)) <= 0) continue;
    for (size_t i = unheard_.size(); i-- > 0;)
      if (fds[i + 1].revents != 0 && hear(unheard_[i]))
        unheard_.erase(unheard_.begin() + static_cast<std::ptrdiff_t>(i));
    if (fds[0].revents != 0) accept_all();
    if (complete()) return;
  }
}

void Restoration::accept_all() {
  while (unheard_.size() + others_.size() + claims_.size() < kMaxClients) {
    link::Fd client(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) return;
    if (is_our_user(client.get())) unheard_.push_back(std::move(client));
  }
}

bool Restoration::hear(link::Fd& connection) {
  Request request;
  const ssize_t n =
      ::recv(connection.get(), &request, sizeof(request), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) return true;  // gone
  if (n == sizeof(request) && request.type == RequestType::kReclaim)
    take_claim(std::move(connection));
  else
    others_.push_back(std::move(connection));
  return true;
}

// One that makes no sense, or came without descriptors because none were left, is hung up on; its
// sender comes again.
void Restoration::take_claim(link::Fd connection) {
  Claim claim;
  Received message =
      receive_message(connection.get(), &claim.request, sizeof(claim.request), MSG_DONTWAIT);
  const Request& request = claim.request;
  if (message.error != 0 || message.fd_count < kClaimFds || request.magic != kProtocolMagic ||
      request.version != kProtocolVersion || request.token == 0 ||
      !link::is_process_slot(request.slot) || !segment_is_sound(message.fds[0].get()))
    return;
  claim.generation = generation_in(message.fds[0]);
  if (claim.generation == 0) return;
  claim.row.token = request.token;
  claim.row.segment = std::move(message.fds[0]);
  claim.row.wakeup = std::move(message.fds[1]);
  claim.sockets = {std::move(message.fds[2]), std::move(message.fds[3])};
  claim.connection = std::move(connection);
  // Who lost his connection and claims again has the slot; nobody else has.
  for (Claim& earlier : claims_) {
    if (earlier.request.slot != request.slot) continue;
    if (earlier.request.token == request.token) earlier = std::move(claim);
    return;
  }
  claims_.push_back(std::move(claim));
}

std::set<uint64_t> Restoration::handed_over() const {
  std::set<uint64_t> inodes;
  for (const Claim& claim : claims_) {
    inodes.insert(inode_of(claim.sockets.udp4));
    if (claim.sockets.udp6.valid()) inodes.insert(inode_of(claim.sockets.udp6));
  }
  return inodes;
}

bool Restoration::complete() const {
  return begun() && sockets_on(port_) == handed_over();
}

Error Restoration::missing() const {
  return {EADDRINUSE, describe_port_holder(port_, handed_over())};
}

void Restoration::refuse_all(const Error& error) {
  Reply reply = refuse(error.code, error.message);
  for (Claim& claim : claims_) {
    reply.type = claim.request.type;
    reply.sequence = claim.request.sequence;
    send_message(claim.connection.get(), &reply, sizeof(reply), {}, MSG_DONTWAIT);
  }
  reply.sequence = 0;
  for (const link::Fd& each : others_)
    send_message(each.get(), &reply, sizeof(reply), {}, MSG_DONTWAIT);
  claims_.clear();
  others_.clear();
  unheard_.clear();
}

}  // namespace verbena::broker
