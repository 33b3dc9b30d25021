// /proc/net/udp* gives the socket's inode and uid; /proc/PID/fd tells whose inode it is.
#include "broker/port_holder.h"

#include <dirent.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace verbena::broker {
namespace {

struct Holder {
  uint64_t inode;
  uint32_t uid;
};

void read_table(const char* table, uint16_t port, std::vector<Holder>& out) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // column titles
  while (std::getline(file, line)) {
    // sl local remote st tx:rx tr:when retransmit uid timeout inode ...
    std::istringstream fields(line);
    std::string number, local, skip, uid, inode;
    fields >> number >> local >> skip >> skip >> skip >> skip >> skip >> uid >> skip >> inode;
    size_t colon = local.rfind(':');
    if (inode.empty() || colon == std::string::npos) continue;
    if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) != port) continue;
    out.push_back({std::strtoull(inode.c_str(), nullptr, 10),
                   static_cast<uint32_t>(std::strtoul(uid.c_str(), nullptr, 10))});
  }
}

std::vector<Holder> find_sockets(uint16_t port) {
  std::vector<Holder> out;
  read_table("/proc/net/udp", port, out);
  read_table("/proc/net/udp6", port, out);
  return out;
}

bool holds(const std::string& pid, const std::vector<Holder>& sockets) {
  std::string folder = "/proc/" + pid + "/fd";
  DIR* fds = ::opendir(folder.c_str());
  if (!fds) return false;
  bool found = false;
  while (dirent* entry = ::readdir(fds)) {
    char target[64];
    ssize_t n = ::readlink((folder + "/" + entry->d_name).c_str(), target, sizeof(target) - 1);
    if (n <= 0) continue;
    target[n] = 0;
    uint64_t inode;
    if (std::sscanf(target, "socket:[%" SCNu64 "]", &inode) != 1) continue;
    for (const Holder& holder : sockets) found |= holder.inode == inode;
  }
  ::closedir(fds);
  return found;
}

std::string process_name(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// The first process found to hold one of the sockets, as "name (pid 123)"; empty when none is.
std::string find_process(const std::vector<Holder>& sockets) {
  DIR* proc = ::opendir("/proc");
  if (!proc) return {};
  std::string out;
  while (dirent* entry = ::readdir(proc)) {
    std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds(pid, sockets)) continue;
    out = process_name(pid) + " (pid " + pid + ")";
    break;
  }
  ::closedir(proc);
  return out;
}

}  // namespace

bool held_by_strangers(uint16_t port) {
  const std::vector<Holder> sockets = find_sockets(port);
  if (sockets.empty()) return false;
  return sockets[0].uid != ::geteuid() || find_process(sockets).empty();
}

std::string describe_port_holder(uint16_t port) {
  std::string what = "UDP port " + std::to_string(port) + " (RoCE v2) is already in use";
  const std::vector<Holder> sockets = find_sockets(port);
  const std::string elsewhere = ", or run in a network namespace of your own: unshare -rn";
  if (sockets.empty()) return what + "; stop its user" + elsewhere;
  std::string process = find_process(sockets);
  if (!process.empty()) return what + " by " + process + "; stop that process" + elsewhere;
  uint32_t uid = sockets[0].uid;
  if (uid != 0 && uid != ::geteuid()) {
    return what + " by a process of uid " + std::to_string(uid) +
           " (its name is not readable for this user); run as that user" + elsewhere;
  }
  // The kernel's sockets are root's.
  if (uid != 0) {
    return what +
           " by a process of this user that is not visible here: one of another container of this "
           "network, whose broker ended with the container it was started in; end that process" +
           elsewhere;
  }
  return what +
         " and no visible process holds it: most likely the kernel's rxe driver (see "
         "`rdma link`, remove it with `rdma link delete NAME`)" +
         elsewhere;
}

}  // namespace verbena::broker
