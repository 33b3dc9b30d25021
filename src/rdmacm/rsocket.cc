// rsockets: the calls of rsocket.h. Not built on this library yet: each says so and fails with
// ENOSYS.
#include <errno.h>
#include <rdma/rsocket.h>

#include <atomic>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

using namespace verbena::rdmacm;

namespace {

int missing() {
  static std::atomic<bool> said{false};
  return shielded([] {
    if (said.exchange(true)) return refuse(ENOSYS);
    return refuse(ENOSYS, "rsocket", "rsockets are not there; use plain sockets or rdma_cm");
  });
}

}  // namespace

extern "C" {
int rsocket(int, int, int) {
  return missing();
}
int rbind(int, const sockaddr*, socklen_t) {
  return missing();
}
int rlisten(int, int) {
  return missing();
}
int raccept(int, sockaddr*, socklen_t*) {
  return missing();
}
int rconnect(int, const sockaddr*, socklen_t) {
  return missing();
}
int rshutdown(int, int) {
  return missing();
}
int rclose(int) {
  return missing();
}
ssize_t rrecv(int, void*, size_t, int) {
  return missing();
}
ssize_t rrecvfrom(int, void*, size_t, int, sockaddr*, socklen_t*) {
  return missing();
}
ssize_t rrecvmsg(int, msghdr*, int) {
  return missing();
}
ssize_t rsend(int, const void*, size_t, int) {
  return missing();
}
ssize_t rsendto(int, const void*, size_t, int, const sockaddr*, socklen_t) {
  return missing();
}
ssize_t rsendmsg(int, const msghdr*, int) {
  return missing();
}
ssize_t rread(int, void*, size_t) {
  return missing();
}
ssize_t rreadv(int, const iovec*, int) {
  return missing();
}
ssize_t rwrite(int, const void*, size_t) {
  return missing();
}
ssize_t rwritev(int, const iovec*, int) {
  return missing();
}
int rpoll(pollfd*, nfds_t, int) {
  return missing();
}
int rselect(int, fd_set*, fd_set*, fd_set*, timeval*) {
  return missing();
}
int rgetpeername(int, sockaddr*, socklen_t*) {
  return missing();
}
int rgetsockname(int, sockaddr*, socklen_t*) {
  return missing();
}
int rsetsockopt(int, int, int, const void*, socklen_t) {
  return missing();
}
int rgetsockopt(int, int, int, void*, socklen_t*) {
  return missing();
}
int rfcntl(int, int, ...) {
  return missing();
}
off_t riomap(int, void*, size_t, int, int, off_t) {
  return missing();
}
int riounmap(int, void*, size_t) {
  return missing();
}
size_t riowrite(int, const void*, size_t, off_t, int) {
  return static_cast<size_t>(missing());
}
}
