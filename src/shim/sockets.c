// What rdma-core's librspreload leaves out of the calls of sockets: accept4(2), epoll(7), and fcntl
// as a program with 64-bit file offsets calls it. The descriptor that it gives a program for an
// rsocket is one of /dev/null, which the kernel lets nobody accept from or watch, so redis,
// Python's servers and whatever waits by epoll fail under it alone. Preloaded behind it, this
// stands in where the kernel has refused: accept4 by its accept, epoll by its poll, in which
// rsockets and other descriptors may be waited for together, and fcntl64 by its fcntl.
//
// Two differences from the kernel's epoll, for rsockets only: EPOLLET behaves as level-triggered,
// and epoll_pwait changes its mask beside the wait, not in one step with it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shim/paths.h"

// One rsocket in one epoll set.
struct Watched {
  int set;  // the epoll descriptor
  int fd;
  struct epoll_event event;
};

// An epoll set with rsockets in it.
struct Bell {
  int set;
  int fd;  // an eventfd: rung when the set changes under a sleeper
};

static pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
static struct Watched* watched_;
static size_t watched_count_, watched_room_;
static struct Bell* bells_;
static size_t bell_count_, bell_room_;

// Room for one more of `size` bytes each at *list. False: no memory.
static bool has_room(void** list, size_t count, size_t* room, size_t size) {
  if (count < *room) return true;
  const size_t wanted = *room == 0 ? 16 : 2 * *room;
  void* larger = realloc(*list, wanted * size);
  if (larger == NULL) return false;
  *list = larger;
  *room = wanted;
  return true;
}

// The kernel knows it as no socket, librspreload as one.
static bool is_rsocket(int fd) {
  int type = 0;
  socklen_t length = sizeof type;
  const int saved = errno;
  const bool answer = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
  errno = saved;
  return answer;
}

static struct Watched* find(int set, int fd) {
  for (size_t i = 0; i < watched_count_; ++i)
    if (watched_[i].set == set && watched_[i].fd == fd) return &watched_[i];
  return NULL;
}

static struct Bell* bell_of(int set) {
  for (size_t i = 0; i < bell_count_; ++i)
    if (bells_[i].set == set) return &bells_[i];
  return NULL;
}

static void ring(int set) {
  const struct Bell* bell = bell_of(set);
  if (bell != NULL) eventfd_write(bell->fd, 1);
}

static int add(int set, int fd, const struct epoll_event* event) {
  if (find(set, fd) != NULL) return EEXIST;
  if (!has_room((void**)&watched_, watched_count_, &watched_room_, sizeof *watched_)) return ENOMEM;
  if (bell_of(set) == NULL) {
    if (!has_room((void**)&bells_, bell_count_, &bell_room_, sizeof *bells_)) return ENOMEM;
    const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0) return errno;
    bells_[bell_count_++] = (struct Bell){set, bell};
  }
  watched_[watched_count_++] = (struct Watched){set, fd, *event};
  ring(set);
  return 0;
}

static int change(int set, int op, int fd, const struct epoll_event* event) {
  struct Watched* found = find(set, fd);
  if (op == EPOLL_CTL_ADD) return add(set, fd, event);
  if (found == NULL) return ENOENT;
  if (op == EPOLL_CTL_MOD)
    found->event = *event;
  else
    *found = watched_[--watched_count_];
  ring(set);
  return 0;
}

int epoll_ctl(int set, int op, int fd, struct epoll_event* event) {
  const int saved = errno;
  const int result = VERBENA_NEXT(epoll_ctl)(set, op, fd, event);
  // EPERM: a file that cannot be watched. Only such are rsockets.
  if (result == 0 || errno != EPERM || !is_rsocket(fd)) return result;
  pthread_mutex_lock(&lock_);
  const int error = change(set, op, fd, event);
  pthread_mutex_unlock(&lock_);
  errno = error != 0 ? error : saved;
  return error != 0 ? -1 : 0;
}

// A number that is given back stands for nothing any more, as a socket and as a set.
int close(int fd) {
  int bell = -1;
  pthread_mutex_lock(&lock_);
  for (size_t i = watched_count_; i-- > 0;)
    if (watched_[i].fd == fd || watched_[i].set == fd) watched_[i] = watched_[--watched_count_];
  struct Bell* own = bell_of(fd);
  if (own != NULL) {
    bell = own->fd;
    *own = bells_[--bell_count_];
  }
  pthread_mutex_unlock(&lock_);
  __typeof__(&close) next = VERBENA_NEXT(close);
  if (bell >= 0) next(bell);
  return next(fd);
}

// What to poll for one set: its kernel part, its bell, its rsockets. NULL: no rsocket, or no
// memory.
static struct pollfd* list_of(int set, size_t* count) {
  struct pollfd* list = NULL;
  pthread_mutex_lock(&lock_);
  const struct Bell* bell = bell_of(set);
  if (bell != NULL) list = malloc((watched_count_ + 2) * sizeof *list);
  if (list != NULL) {
    list[0] = (struct pollfd){set, POLLIN, 0};
    list[1] = (struct pollfd){bell->fd, POLLIN, 0};
    *count = 2;
    for (size_t i = 0; i < watched_count_; ++i)
      if (watched_[i].set == set && watched_[i].event.events != 0)
        list[(*count)++] = (struct pollfd){watched_[i].fd, (short)watched_[i].event.events, 0};
  }
  pthread_mutex_unlock(&lock_);
  return list;
}

// Events of the rsockets that are ready, `room` at most.
static int give(int set, const struct pollfd* list, size_t count, struct epoll_event* events,
                int room) {
  int given = 0;
  pthread_mutex_lock(&lock_);
  for (size_t i = 2; i < count && given < room; ++i) {
    struct Watched* found = list[i].revents != 0 ? find(set, list[i].fd) : NULL;
    if (found == NULL) continue;
    const uint32_t ready =
        (uint32_t)(unsigned short)list[i].revents & (found->event.events | EPOLLERR | EPOLLHUP);
    if (ready == 0) continue;
    events[given++] = (struct epoll_event){.events = ready, .data = found->event.data};
    if ((found->event.events & EPOLLONESHOT) != 0) found->event.events = 0;
  }
  pthread_mutex_unlock(&lock_);
  return given;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// One sleep. Events given, or -1 with errno; *again: only the set was changed.
static int wait_once(int set, struct epoll_event* events, int room, int timeout, bool* again) {
  size_t count = 0;
  struct pollfd* list = list_of(set, &count);
  *again = false;
  if (list == NULL) return VERBENA_NEXT(epoll_wait)(set, events, room, timeout);
  int given = poll(list, count, timeout);
  if (given > 0) {
    eventfd_t rings;
    if (list[1].revents != 0) eventfd_read(list[1].fd, &rings);
    given = give(set, list, count, events, room);
    if (list[0].revents != 0 && given < room) {
      const int more = VERBENA_NEXT(epoll_wait)(set, events + given, room - given, 0);
      if (more > 0) given += more;
    }
    *again = given == 0;
  }
  free(list);
  return given;
}

int epoll_wait(int set, struct epoll_event* events, int room, int timeout) {
  if (room <= 0) {
    errno = EINVAL;
    return -1;
  }
  const int64_t end = now_ms() + (timeout > 0 ? timeout : 0);
  while (true) {
    bool again;
    const int64_t left = end - now_ms();
    const int given = wait_once(set, events, room,
                                timeout <= 0 ? timeout
                                : left > 0   ? (int)left
                                             : 0,
                                &again);
    if (!again || timeout == 0) return given;
    if (timeout > 0 && now_ms() >= end) return 0;
  }
}

int epoll_pwait(int set, struct epoll_event* events, int room, int timeout, const sigset_t* mask) {
  sigset_t before;
  if (mask != NULL) pthread_sigmask(SIG_SETMASK, mask, &before);
  const int given = epoll_wait(set, events, room, timeout);
  const int saved = errno;
  if (mask != NULL) pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = saved;
  return given;
}

int accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
  const int saved = errno;
  const int plain = VERBENA_NEXT(accept4)(fd, address, length, flags);
  if (plain >= 0 || errno != ENOTSOCK || !is_rsocket(fd)) return plain;
  errno = saved;
  const int accepted = accept(fd, address, length);
  if (accepted < 0) return accepted;
  if ((flags & SOCK_CLOEXEC) != 0) fcntl(accepted, F_SETFD, FD_CLOEXEC);
  if ((flags & SOCK_NONBLOCK) != 0) fcntl(accepted, F_SETFL, fcntl(accepted, F_GETFL) | O_NONBLOCK);
  return accepted;
}

// O_NONBLOCK of an rsocket is not the stand-in's.
int fcntl64(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  if ((command == F_GETFL || command == F_SETFL) && is_rsocket(fd))
    return fcntl(fd, command, argument);
  return VERBENA_NEXT(fcntl64)(fd, command, argument);
}
