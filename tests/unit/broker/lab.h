// A private network namespace with a living loopback, and helper processes that take commands:
// what broker and link tests stand on. Nothing here touches the machine's own port 4791.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace verbena::lab {

// Moves this (single-threaded) process into a network namespace of its own with `lo` up. False:
// not permitted here; tests skip and say so.
bool enter_private_network();

// A forked process running `body`, which talks over the given socket (SOCK_SEQPACKET).
class Child {
 public:
  explicit Child(const std::function<void(int socket)>& body);
  ~Child();  // kills and reaps
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void send(const std::string& text);
  std::string receive(int timeout_ms = 10000);  // "" on timeout or end
  void kill(int signal);
  int wait();  // exit status as of waitpid

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  bool reaped_ = false;
};

void say(int socket, const std::string& text);
std::string hear(int socket, int timeout_ms = 10000);

// Waits until `condition` holds, at most `timeout_ms`.
bool eventually(const std::function<bool()>& condition, int timeout_ms = 5000);

// Processes named `name` in this network namespace (by /proc/PID/comm and ns/net).
int count_processes(const std::string& name);

}  // namespace verbena::lab

// For tests that need the namespace.
#define REQUIRE_PRIVATE_NETWORK()                                        \
  static const bool lab_ready = ::verbena::lab::enter_private_network(); \
  if (!lab_ready) GTEST_SKIP() << "no private network namespace permitted on this host"
