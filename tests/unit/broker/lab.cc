// Namespaces, processes and patience for tests.
#include "lab.h"

#include <dirent.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace verbena::lab {
namespace {

void write_file(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
}

bool loopback_up() {
  int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool up = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags |= IFF_UP;
  up = up && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return up;
}

ino_t network_of(const std::string& pid) {
  struct stat info;
  return ::stat(("/proc/" + pid + "/ns/net").c_str(), &info) == 0 ? info.st_ino : 0;
}

void pause_ms(long ms) {
  timespec t{ms / 1000, ms % 1000 * 1'000'000};
  ::nanosleep(&t, nullptr);
}

}  // namespace

bool enter_private_network() {
  static int state = -1;
  if (state >= 0) return state == 1;
  uid_t uid = ::getuid();
  gid_t gid = ::getgid();
  if (::unshare(CLONE_NEWNET) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      state = 0;
      return false;
    }
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
    write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
  }
  state = loopback_up() ? 1 : 0;
  return state == 1;
}

Child::Child(const std::function<void(int socket)>& body) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pair[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body(pair[1]);
    ::_exit(0);
  }
  ::close(pair[1]);
  socket_ = pair[0];
}

Child::~Child() {
  if (!reaped_) {
    kill(SIGKILL);
    wait();
  }
  ::close(socket_);
}

void Child::send(const std::string& text) {
  say(socket_, text);
}
std::string Child::receive(int timeout_ms) {
  return hear(socket_, timeout_ms);
}
void Child::kill(int signal) {
  ::kill(pid_, signal);
}
int Child::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  return status;
}

void say(int socket, const std::string& text) {
  ssize_t n = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  (void)n;
}

std::string hear(int socket, int timeout_ms) {
  pollfd wait{socket, POLLIN, 0};
  if (::poll(&wait, 1, timeout_ms) <= 0) return {};
  char buffer[4096];
  ssize_t n = ::recv(socket, buffer, sizeof(buffer), 0);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

bool eventually(const std::function<bool()>& condition, int timeout_ms) {
  for (int waited = 0; waited < timeout_ms; waited += 5) {
    if (condition()) return true;
    pause_ms(5);
  }
  return condition();
}

int count_processes(const std::string& name) {
  ino_t here = network_of("self");
  int count = 0;
  DIR* proc = ::opendir("/proc");
  while (dirent* entry = ::readdir(proc)) {
    std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file("/proc/" + pid + "/comm");
    std::string comm;
    std::getline(file, comm);
    if (comm == name && network_of(pid) == here) ++count;
  }
  ::closedir(proc);
  return count;
}

}  // namespace verbena::lab
