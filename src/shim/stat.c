// The stat family. A redirected path goes to the kernel directly: old programs call __xstat, which
// new C libraries no longer declare, and the kernel's struct stat is the same for all of them on
// 64-bit Linux. Other paths go on to libc.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/paths.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout for both names");

int __xstat(int version, const char* path, struct stat* out);
int __xstat64(int version, const char* path, struct stat64* out);
int __lxstat(int version, const char* path, struct stat* out);
int __lxstat64(int version, const char* path, struct stat64* out);
int __fxstatat(int version, int fd, const char* path, struct stat* out, int flags);
int __fxstatat64(int version, int fd, const char* path, struct stat64* out, int flags);

static int kernel_stat(int fd, const char* path, void* out, int flags) {
  return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}

// Defines NAME(ARGUMENTS) so that our paths, and all paths when libc has no NAME, go to the kernel.
#define WRAP_STAT(name, fd, flags, parameters, arguments)                                         \
  int name parameters {                                                                           \
    char buffer[VERBENA_PATH_MAX];                                                                \
    const char* found = verbena_path(path, buffer);                                               \
    if (found == buffer || VERBENA_NEXT(name) == NULL) return kernel_stat(fd, found, out, flags); \
    return VERBENA_NEXT(name) arguments;                                                          \
  }

WRAP_STAT(stat, AT_FDCWD, 0, (const char* path, struct stat* out), (path, out))
WRAP_STAT(stat64, AT_FDCWD, 0, (const char* path, struct stat64* out), (path, out))
WRAP_STAT(lstat, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (const char* path, struct stat* out), (path, out))
WRAP_STAT(lstat64, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (const char* path, struct stat64* out),
          (path, out))
WRAP_STAT(fstatat, fd, flags, (int fd, const char* path, struct stat* out, int flags),
          (fd, path, out, flags))
WRAP_STAT(fstatat64, fd, flags, (int fd, const char* path, struct stat64* out, int flags),
          (fd, path, out, flags))
WRAP_STAT(__xstat, AT_FDCWD, 0, (int version, const char* path, struct stat* out),
          (version, path, out))
WRAP_STAT(__xstat64, AT_FDCWD, 0, (int version, const char* path, struct stat64* out),
          (version, path, out))
WRAP_STAT(__lxstat, AT_FDCWD, AT_SYMLINK_NOFOLLOW,
          (int version, const char* path, struct stat* out), (version, path, out))
WRAP_STAT(__lxstat64, AT_FDCWD, AT_SYMLINK_NOFOLLOW,
          (int version, const char* path, struct stat64* out), (version, path, out))
WRAP_STAT(__fxstatat, fd, flags,
          (int version, int fd, const char* path, struct stat* out, int flags),
          (version, fd, path, out, flags))
WRAP_STAT(__fxstatat64, fd, flags,
          (int version, int fd, const char* path, struct stat64* out, int flags),
          (version, fd, path, out, flags))

int statx(int fd, const char* path, int flags, unsigned mask, struct statx* out) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(statx)(fd, verbena_path(path, buffer), flags, mask, out);
}
