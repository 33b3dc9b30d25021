// verbena-broker: started by the first RDMA program of a network namespace, gone with the last.
// It keeps nothing of the program that started it: no descriptor, no session, no directory.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "broker/message.h"
#include "broker/restoration.h"
#include "broker/server.h"
#include "wire/headers.h"

namespace verbena::broker {
namespace {

void detach_from_starter() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::close_range(0, ~0u, 0) != 0) {
    for (int fd = 0; fd < 4096; ++fd) ::close(fd);
  }
  for (int fd = 0; fd < 3; ++fd) {
    if (::open("/dev/null", O_RDWR) < 0) break;
  }
  ::setsid();
  if (::chdir("/") != 0) return;
  ::umask(077);
  ::prctl(PR_SET_NAME, "verbena-broker");
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;  // 254 slots x 5 descriptors pass the usual soft limit
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Not valid: another broker has the name, or the namespace has no UNIX sockets.
link::Fd listen_on(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) return {};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  link::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return {};
  }
  return fd;
}

Result<void> begin(Custody& custody, uint16_t port, Restoration& restoration) {
  if (restoration.complete()) return custody.restore(port, restoration.claims());
  if (restoration.begun()) return fail(EADDRINUSE, "not all have handed over their sockets");
  return custody.open(port);
}

int serve(const std::string& name, uint16_t port) {
  link::Fd listener = listen_on(name);
  if (!listener.valid()) return 0;  // the others won the race: they serve
  if (Result<void> enough = check_file_limit(); !enough) {
    refuse_clients(listener.get(), enough.error());
    return 1;
  }
  // A predecessor or a client may be in the middle of closing its sockets; or both brokers died,
  // and their clients will come to hand over theirs.
  constexpr int kFirstClaimMs = 500, kAllClaimsMs = 1500, kStepMs = 10;
  const int64_t began = now_ms();
  Restoration restoration(listener.get(), port);
  while (true) {
    Custody custody;
    Result<void> opened = begin(custody, port, restoration);
    if (opened) {
      Server server(std::move(listener), std::move(custody));
      if (restoration.begun()) server.resume(restoration);
      server.run();
      return 0;
    }
    const int64_t patience = restoration.begun() ? kAllClaimsMs : kFirstClaimMs;
    const bool in_use = opened.error().code == EADDRINUSE;
    if (!in_use || now_ms() - began > patience) {
      const Error why = in_use && restoration.begun() ? restoration.missing() : opened.error();
      restoration.refuse_all(why);
      refuse_clients(listener.get(), why);
      return 1;
    }
    restoration.listen(kStepMs);
  }
}

}  // namespace
}  // namespace verbena::broker

int main(int argc, char** argv) {
  std::string name = verbena::broker::kDefaultName;
  unsigned long port = verbena::wire::kRoceUdpPort;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--name") == 0) name = argv[i + 1];
    if (std::strcmp(argv[i], "--port") == 0) port = std::strtoul(argv[i + 1], nullptr, 10);
  }
  if (port == 0 || port > 65535) return 2;
  verbena::broker::detach_from_starter();
  return verbena::broker::serve(name, static_cast<uint16_t>(port));
}
