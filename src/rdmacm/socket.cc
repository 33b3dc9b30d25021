// How threads wait for a socket. All sleep on its one descriptor, but who wakes first takes the
// events from it: a thread that took some rings a bell, which stays readable until each thread that
// was asleep then has got up.
#include "rdmacm/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "rdmacm/id.h"

namespace verbena::rdmacm {

// A sleep on fd, whose end is kept also when the thread is cancelled in it.
class Socket::Sleep {
 public:
  Sleep(Socket& socket, Lease& lease) : socket_(socket), lease_(lease), call_(socket.lie_down()) {
    lease_.unlock();
  }
  ~Sleep() {
    lease_.lock();
    socket_.get_up(call_);
  }
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;

 private:
  Socket& socket_;
  Lease& lease_;
  uint64_t call_;
};

Socket::~Socket() {
  for (int each : {bell_, fd})
    if (each >= 0) ::close(each);
}

int Socket::open() {
  fd = epoll_create1(EPOLL_CLOEXEC);
  bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd < 0 || bell_ < 0 ? errno : watch(bell_);
}

int Socket::watch(int of) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (fcntl(of, F_SETFL, fcntl(of, F_GETFL) | O_NONBLOCK) < 0) return errno;
  return epoll_ctl(fd, EPOLL_CTL_ADD, of, &event) < 0 ? errno : 0;
}

bool Socket::may_wait(int message_flags) const {
  return (flags & O_NONBLOCK) == 0 && (message_flags & MSG_DONTWAIT) == 0;
}

void Socket::progress() {
  const uint64_t before = version_;
  take_all();
  if (version_ != before) wake();
}

int Socket::wait(Lease& lease) {
  const uint64_t before = version_;
  arm();
  progress();
  if (version_ != before) return 0;
  Sleep sleep(*this, lease);
  return port().wait_readable(fd);
}

void Socket::doze(Lease& lease, int ms) {
  const uint64_t before = version_;
  arm();
  progress();
  if (version_ != before) return;
  Sleep sleep(*this, lease);
  pollfd one{fd, POLLIN, 0};
  ::poll(&one, 1, ms);
}

void Socket::wake() {
  if (sleepers_ == 0) return;
  ++calls_;
  const uint64_t one = 1;
  if (owed_ == 0 && ::write(bell_, &one, sizeof one) < 0) return;  // never: the counter is 0
  owed_ = sleepers_;
}

void Socket::let_go() {
  ::close(std::exchange(bell_, -1));
}

uint64_t Socket::lie_down() {
  ++sleepers_;
  return calls_;
}

void Socket::get_up(uint64_t call) {
  --sleepers_;
  if (call == calls_ || --owed_ > 0) return;
  const int saved = errno;
  uint64_t count;
  if (::read(bell_, &count, sizeof count) < 0) errno = saved;
}

// --- what only some kinds of sockets can

int Socket::listen(int) {
  return refuse(EOPNOTSUPP);
}

int Socket::accept(Lease&, sockaddr*, socklen_t*) {
  return refuse(EOPNOTSUPP);
}

off_t Socket::map(void*, size_t, int, off_t) {
  return refuse(EOPNOTSUPP, "riomap", "only streams map memory");
}

int Socket::unmap(void*, size_t) {
  return refuse(EOPNOTSUPP);
}

ssize_t Socket::write_mapped(Lease&, const void*, size_t, uint64_t, int) {
  return refuse(EOPNOTSUPP);
}

void give_address(const sockaddr& from, sockaddr* to, socklen_t* length) {
  if (length == nullptr) return;
  // librspreload asks for the length alone.
  if (to != nullptr) memcpy(to, &from, std::min(*length, length_of(&from)));
  *length = length_of(&from);
}

}  // namespace verbena::rdmacm
