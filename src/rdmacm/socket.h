// What an rsocket is to the calls: a number of the program's, a lock, threads that sleep, and the
// operations of sockets, which streams (stream.h) do in their way.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <mutex>

namespace verbena::rdmacm {

using Lease = std::unique_lock<std::mutex>;

class Socket {
 public:
  Socket() = default;
  virtual ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  std::mutex mutex;  // of all below; before the library's and the process's locks
  int fd = -1;       // epoll of what tells of events: the program's number of the socket
  int flags = 0;     // O_NONBLOCK

  // --- the calls of the same names, locked: their results, or -1 with errno
  virtual int bind(const sockaddr* address, socklen_t length) = 0;
  virtual int listen(int backlog);                                         // EOPNOTSUPP
  virtual int accept(Lease& lease, sockaddr* address, socklen_t* length);  // the same
  virtual int connect(Lease& lease, const sockaddr* address, socklen_t length) = 0;
  virtual int shutdown(int how) = 0;
  virtual void close(Lease& lease) = 0;
  virtual ssize_t send(Lease& lease, const msghdr& message, int flags) = 0;
  // Takes addresses and parts of `message`, sets the address's length and msg_flags.
  virtual ssize_t receive(Lease& lease, msghdr& message, int flags) = 0;
  virtual int peer_name(sockaddr* address, socklen_t* length) = 0;
  virtual int own_name(sockaddr* address, socklen_t* length) = 0;
  virtual int set_option(int level, int option, const void* value, socklen_t length) = 0;
  virtual int get_option(int level, int option, void* value, socklen_t* length) = 0;
  // Mapped memory; the others: EOPNOTSUPP.
  virtual off_t map(void* bytes, size_t length, int prot, off_t offset);
  virtual int unmap(void* bytes, size_t length);
  virtual ssize_t write_mapped(Lease& lease, const void* bytes, size_t length, uint64_t offset,
                               int flags);
  // What poll(2) would answer now to who asks for `events`.
  virtual short ready(short events) const = 0;

  // --- events and who waits for them; locked
  int open();         // makes fd. 0 or errno. Not locked.
  int watch(int of);  // fd is readable while `of` is. 0 or errno.
  // May a call with these MSG_ flags wait?
  bool may_wait(int message_flags) const;
  // Takes all that happened. Others who sleep wake, as they will not hear of it otherwise.
  void progress();
  // Makes sure that fd becomes readable at the next event.
  virtual void arm() = 0;
  // Until something happens: 0 or errno (EINTR). Unlocks meanwhile; a cancellation point.
  int wait(Lease& lease);
  // The same, `ms` at most.
  void doze(Lease& lease, int ms);
  // Something happened that fd does not tell.
  void wake();
  // In a child of fork, not locked: closes what the program has no number of, so that the parent's
  // ports are free when the parent closes them. Nothing else is called any more.
  virtual void let_go();
  // Around a sleep on fd. `get_up` takes what `lie_down` gave.
  uint64_t lie_down();
  void get_up(uint64_t call);

 protected:
  virtual void take_all() = 0;  // of progress(): counts events in version_
  uint64_t version_ = 0;

 private:
  class Sleep;
  // A call to wake makes `bell_` readable until each of those who slept then is up.
  int bell_ = -1;
  uint64_t calls_ = 0;
  uint32_t sleepers_ = 0, owed_ = 0;
};

// --- the program's numbers (socket_table.cc). A child of fork has none of its parent's sockets:
// its calls answer EBADF, rclose closes the descriptor.
int enter_socket(const std::shared_ptr<Socket>& socket);  // its number
std::shared_ptr<Socket> find_socket(int fd);              // null with EBADF
// The socket is not found by its number any more. It ends when the caller and the calls that are in
// it let go of it, which is to happen without a lock. Null with EBADF: there is none.
std::shared_ptr<Socket> leave_socket(int fd);
// In a child: `fd` was a socket of the parent's and is closed.
bool close_inherited(int fd);

// An address as calls give it to the program: cut to its `length`, which becomes the full one. Null
// pointers: not asked for.
void give_address(const sockaddr& from, sockaddr* to, socklen_t* length);

}  // namespace verbena::rdmacm
