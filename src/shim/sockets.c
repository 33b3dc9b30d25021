// What rdma-core's librspreload leaves out of the calls of sockets: accept4(2), epoll(7), and fcntl
// as a program with 64-bit file offsets calls it. The descriptor that it gives a program for an
// rsocket is one of /dev/null, which the kernel lets nobody accept from or watch, so redis,
// Python's servers and whatever waits by epoll fail under it alone. Preloaded behind it, this
// stands in where the kernel has refused: accept4 by its accept, epoll by its poll, in which
// rsockets and other descriptors may be waited for together, and fcntl64 by its fcntl.
//
// Three differences from the kernel's epoll: EPOLLET behaves as level-triggered for rsockets,
// epoll_pwait and epoll_pwait2 change their mask beside the wait, not in one step with it, and the
// time of epoll_pwait2 is rounded up to milliseconds.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
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

// What ends the sleep of those who wait in a set when the set changes. It rings once: who comes
// later sleeps on the next one.
struct Bell {
  int fd;     // an eventfd; -1: no descriptor was left for one
  int users;  // asleep on it; the last one takes it away
  bool rung;
};

// An epoll set that somebody waits in. `bell` is NULL while nobody does.
struct Set {
  int fd;
  struct Bell* bell;
};

static pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
static struct Watched* watched_;
static size_t watched_count_, watched_room_;
static struct Set* sets_;
static size_t set_count_, set_room_;
static int entries_;    // watched_count_ + set_count_, read without the lock
static unsigned turn_;  // which rsocket is told first

static void before_fork(void) {
  pthread_mutex_lock(&lock_);
}
static void after_fork(void) {
  pthread_mutex_unlock(&lock_);
}

__attribute__((constructor)) static void survive_forks(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}

static void count_entries(void) {
  __atomic_store_n(&entries_, (int)(watched_count_ + set_count_), __ATOMIC_RELEASE);
}

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

static struct Set* set_of(int fd) {
  for (size_t i = 0; i < set_count_; ++i)
    if (sets_[i].fd == fd) return &sets_[i];
  return NULL;
}

static void ring(int fd) {
  struct Set* set = set_of(fd);
  if (set == NULL || set->bell == NULL) return;  // nobody sleeps
  set->bell->rung = true;
  if (set->bell->fd >= 0) eventfd_write(set->bell->fd, 1);
  set->bell = NULL;  // the sleepers have it, and the last of them ends it
}

static int add(int set, int fd, const struct epoll_event* event) {
  if (find(set, fd) != NULL) return EEXIST;
  if (!has_room((void**)&watched_, watched_count_, &watched_room_, sizeof *watched_)) return ENOMEM;
  watched_[watched_count_++] = (struct Watched){set, fd, *event};
  count_entries();
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
  count_entries();
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

// A number that is given back stands for nothing any more, as a socket and as a set. A program
// without any takes no lock here: close(2) may be called where none may be taken.
int close(int fd) {
  if (__atomic_load_n(&entries_, __ATOMIC_ACQUIRE) != 0) {
    pthread_mutex_lock(&lock_);
    for (size_t i = watched_count_; i-- > 0;)
      if (watched_[i].fd == fd || watched_[i].set == fd) watched_[i] = watched_[--watched_count_];
    struct Set* own = set_of(fd);
    if (own != NULL) {
      ring(fd);
      *own = sets_[--set_count_];
    }
    count_entries();
    pthread_mutex_unlock(&lock_);
  }
  return VERBENA_NEXT(close)(fd);
}

// The bell of a set that somebody is about to sleep in. NULL: no memory.
static struct Bell* take_bell(int fd) {
  struct Set* set = set_of(fd);
  if (set == NULL) {
    if (!has_room((void**)&sets_, set_count_, &set_room_, sizeof *sets_)) return NULL;
    set = &sets_[set_count_++];
    *set = (struct Set){fd, NULL};
    count_entries();
  }
  if (set->bell == NULL) {
    set->bell = malloc(sizeof *set->bell);
    if (set->bell == NULL) return NULL;
    *set->bell = (struct Bell){eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0, false};
  }
  ++set->bell->users;
  return set->bell;
}

static void leave_bell(int fd, struct Bell* bell) {
  pthread_mutex_lock(&lock_);
  const bool last = --bell->users == 0;
  struct Set* set = set_of(fd);
  if (last && set != NULL && set->bell == bell) set->bell = NULL;
  pthread_mutex_unlock(&lock_);
  if (!last) return;
  if (bell->fd >= 0) VERBENA_NEXT(close)(bell->fd);
  free(bell);
}

// What to poll for one set: its kernel part, its bell, its rsockets. NULL: no memory.
static struct pollfd* list_of(int set, size_t* count, struct Bell** bell) {
  pthread_mutex_lock(&lock_);
  struct pollfd* list = malloc((watched_count_ + 2) * sizeof *list);
  *bell = list == NULL ? NULL : take_bell(set);
  if (*bell == NULL) {
    free(list);
    list = NULL;
  } else {
    list[0] = (struct pollfd){set, POLLIN, 0};
    list[1] = (struct pollfd){(*bell)->fd, POLLIN, 0};
    *count = 2;
    for (size_t i = 0; i < watched_count_; ++i)
      if (watched_[i].set == set && watched_[i].event.events != 0)
        list[(*count)++] = (struct pollfd){watched_[i].fd, (short)watched_[i].event.events, 0};
  }
  pthread_mutex_unlock(&lock_);
  return list;
}

// Events of the rsockets that are ready, `room` at most, beginning with another one each time: all
// have their turn also where the room is small.
static int give(int set, const struct pollfd* list, size_t count, struct epoll_event* events,
                int room) {
  int given = 0;
  const size_t rsockets = count - 2;
  pthread_mutex_lock(&lock_);
  const unsigned first = turn_++;
  for (size_t n = 0; n < rsockets && given < room; ++n) {
    const struct pollfd* each = &list[2 + (first + n) % rsockets];
    struct Watched* found = each->revents != 0 ? find(set, each->fd) : NULL;
    if (found == NULL || found->event.events == 0) continue;  // taken out, or told as its one shot
    const uint32_t ready =
        (uint32_t)(unsigned short)each->revents & (found->event.events | EPOLLERR | EPOLLHUP);
    if (ready == 0) continue;
    events[given++] = (struct epoll_event){.events = ready, .data = found->event.data};
    if ((found->event.events & EPOLLONESHOT) != 0) found->event.events = 0;
  }
  pthread_mutex_unlock(&lock_);
  return given;
}

// What is ready by `list`. The kernel's part and the rsockets leave each other room, by turns where
// there is room for one only.
static int give_both(int set, const struct pollfd* list, size_t count, struct epoll_event* events,
                     int room) {
  int kernel = 0;
  const bool waits = list[0].revents != 0;
  if (waits && (room > 1 || (turn_ & 1) != 0))
    kernel = VERBENA_NEXT(epoll_wait)(set, events, room > 1 ? room / 2 : 1, 0);
  if (kernel < 0) kernel = 0;
  int given = kernel + give(set, list, count, events + kernel, room - kernel);
  if (waits && given < room) {
    const int more = VERBENA_NEXT(epoll_wait)(set, events + given, room - given, 0);
    if (more > 0 && kernel == 0) given += more;
  }
  return given;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum { kWithoutBellMs = 100 };  // how often one looks again who has no bell

// One sleep. Events given, or -1 with errno; *again: only the set was changed.
static int wait_once(int set, struct epoll_event* events, int room, int timeout, bool* again) {
  size_t count = 0;
  struct Bell* bell = NULL;
  struct pollfd* list = list_of(set, &count, &bell);
  *again = false;
  if (list == NULL) {
    errno = ENOMEM;
    return -1;
  }
  const bool deaf = bell->fd < 0 && (timeout < 0 || timeout > kWithoutBellMs);
  int given = poll(list, count, deaf ? kWithoutBellMs : timeout);
  const int error = errno;
  leave_bell(set, bell);
  if (given > 0 && (list[0].revents & POLLNVAL) != 0) {
    free(list);
    return VERBENA_NEXT(epoll_wait)(set, events, room, 0);  // no such set: its errno
  }
  if (given > 0) {
    given = give_both(set, list, count, events, room);
    *again = given == 0;
  } else if (given == 0) {
    *again = deaf;
  }
  free(list);
  if (given < 0) errno = error;
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

// Of glibc 2.35 and newer. A time longer than poll(2) can tell is none.
int epoll_pwait2(int set, struct epoll_event* events, int room, const struct timespec* timeout,
                 const sigset_t* mask) {
  int64_t ms = -1;
  if (timeout != NULL) {
    const bool valid =
        timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000;
    if (!valid) {
      errno = EINVAL;
      return -1;
    }
    if (timeout->tv_sec < INT_MAX / 1000)
      ms = (int64_t)timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000;
  }
  return epoll_pwait(set, events, room, (int)ms, mask);
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

// librspreload asks for datagrams too; a datagram rsocket speaks to its kind only, and a program's
// name look-ups must reach their servers. Told no, it takes a socket of the kernel.
int rsocket(int domain, int type, int protocol) {
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_DGRAM) {
    errno = ENOTSUP;
    return -1;
  }
  return VERBENA_NEXT(rsocket)(domain, type, protocol);
}
