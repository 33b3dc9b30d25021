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

std::vector<Holder> find_sockets(uint16_t port, const std::set<uint64_t>& except = {}) {
  std::vector<Holder> out;
  read_table("/proc/net/udp", port, out);
  read_table("/proc/net/udp6", port, out);
  std::erase_if(out, [&except](const Holder& each) { return except.contains(each.inode); });
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

// The processes found to hold some of the sockets, each as "name (pid 123)"; not more than a
// sentence can bear.
std::vector<std::string> find_processes(const std::vector<Holder>& sockets) {
  constexpr size_t kMaxNamed = 8;
  std::vector<std::string> out;
  DIR* proc = ::opendir("/proc");
  if (!proc) return out;
  while (dirent* entry = ::readdir(proc)) {
    std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds(pid, sockets)) continue;
    out.push_back(out.size() < kMaxNamed ? process_name(pid) + " (pid " + pid + ")" : "others");
    if (out.size() > kMaxNamed) break;
  }
  ::closedir(proc);
  return out;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out = names[0];
  for (size_t i = 1; i < names.size(); ++i)
    out += (i + 1 < names.size() ? ", " : " and ") + names[i];
  return out;
}

}  // namespace

std::set<uint64_t> sockets_on(uint16_t port) {
  std::set<uint64_t> inodes;
  for (const Holder& each : find_sockets(port)) inodes.insert(each.inode);
  return inodes;
}

bool held_by_strangers(uint16_t port) {
  const std::vector<Holder> sockets = find_sockets(port);
  if (sockets.empty()) return false;
  return sockets[0].uid != ::geteuid() || find_processes(sockets).empty();
}

std::string describe_port_holder(uint16_t port, const std::set<uint64_t>& except) {
  std::string what = "UDP port " + std::to_string(port) + " (RoCE v2) is already in use";
  const std::vector<Holder> sockets = find_sockets(port, except);
  const std::string elsewhere = ", or run in a network namespace of your own: unshare -rn";
  if (sockets.empty()) return what + "; stop its user" + elsewhere;
  const std::vector<std::string> processes = find_processes(sockets);
  if (!processes.empty())
    return what + " by " + listed(processes) + "; stop " +
           (processes.size() == 1 ? "that process" : "those processes") + elsewhere;
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
