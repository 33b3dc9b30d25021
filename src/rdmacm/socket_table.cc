// Which socket a number of the program's means. A fork leaves the child without the connections of
// its parent, so its numbers mean nothing there; the parent's sockets let go of their descriptors,
// lie in the child's memory and are not touched any more, as ending one would speak to the parent's
// peers.
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <new>
#include <unordered_map>
#include <unordered_set>

#include "rdmacm/socket.h"

namespace verbena::rdmacm {
namespace {

using Numbers = std::unordered_map<int, std::shared_ptr<Socket>>;

// Its mutex is held for look-ups only: no lock is taken and no call made under it.
struct Table {
  std::mutex mutex;
  Numbers sockets;
  std::unordered_set<int> inherited;  // of the parent of a fork, not closed yet

  Table();
};

Table& table() {
  static auto* instance = new Table;  // never destroyed: threads may be in calls at exit
  return *instance;
}

void before_fork() {
  table().mutex.lock();
}

void after_fork_parent() {
  table().mutex.unlock();
}

void after_fork_child() {
  Table& here = table();
  for (const auto& [fd, socket] : here.sockets) socket->let_go();
  try {
    for (const auto& [fd, socket] : here.sockets) here.inherited.insert(fd);
  } catch (...) {  // no memory: these stay open until the child ends
  }
  new (&here.sockets) Numbers;  // without a destructor: no socket ends
  here.mutex.unlock();
}

Table::Table() {
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

}  // namespace

int enter_socket(const std::shared_ptr<Socket>& socket) {
  Table& here = table();
  std::lock_guard lock(here.mutex);
  here.inherited.erase(socket->fd);  // closed otherwise, or the number would not be new
  here.sockets[socket->fd] = socket;
  return socket->fd;
}

std::shared_ptr<Socket> find_socket(int fd) {
  Table& here = table();
  std::lock_guard lock(here.mutex);
  auto found = here.sockets.find(fd);
  if (found != here.sockets.end()) return found->second;
  errno = EBADF;
  return nullptr;
}

std::shared_ptr<Socket> leave_socket(int fd) {
  Table& here = table();
  std::lock_guard lock(here.mutex);
  auto found = here.sockets.find(fd);
  if (found == here.sockets.end()) {
    errno = EBADF;
    return nullptr;
  }
  std::shared_ptr<Socket> last = std::move(found->second);
  here.sockets.erase(found);
  return last;
}

bool close_inherited(int fd) {
  Table& here = table();
  {
    std::lock_guard lock(here.mutex);
    if (here.inherited.erase(fd) == 0) return false;
  }
  ::close(fd);
  return true;
}

}  // namespace verbena::rdmacm
