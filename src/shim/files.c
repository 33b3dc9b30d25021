// Calls that open, test or enter a path. Each does one thing: pass the redirected path on.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shim/paths.h"

// glibc's checked forms, called by programs built with _FORTIFY_SOURCE.
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int fd, const char* path, int flags);
int __openat64_2(int fd, const char* path, int flags);

#define MODE_OF(flags)                                               \
  ({                                                                 \
    mode_t mode_ = 0;                                                \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) { \
      va_list list_;                                                 \
      va_start(list_, flags);                                        \
      mode_ = va_arg(list_, mode_t);                                 \
      va_end(list_);                                                 \
    }                                                                \
    mode_;                                                           \
  })

int open(const char* path, int flags, ...) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(open)(verbena_path(path, buffer), flags, MODE_OF(flags));
}

int open64(const char* path, int flags, ...) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(open64)(verbena_path(path, buffer), flags, MODE_OF(flags));
}

int openat(int fd, const char* path, int flags, ...) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(openat)(fd, verbena_path(path, buffer), flags, MODE_OF(flags));
}

int openat64(int fd, const char* path, int flags, ...) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(openat64)(fd, verbena_path(path, buffer), flags, MODE_OF(flags));
}

int __open_2(const char* path, int flags) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(__open_2)(verbena_path(path, buffer), flags);
}

int __open64_2(const char* path, int flags) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(__open64_2)(verbena_path(path, buffer), flags);
}

int __openat_2(int fd, const char* path, int flags) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(__openat_2)(fd, verbena_path(path, buffer), flags);
}

int __openat64_2(int fd, const char* path, int flags) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(__openat64_2)(fd, verbena_path(path, buffer), flags);
}

FILE* fopen(const char* path, const char* mode) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(fopen)(verbena_path(path, buffer), mode);
}

FILE* fopen64(const char* path, const char* mode) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(fopen64)(verbena_path(path, buffer), mode);
}

DIR* opendir(const char* path) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(opendir)(verbena_path(path, buffer));
}

int scandir(const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
            int (*compare)(const struct dirent**, const struct dirent**)) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(scandir)(verbena_path(path, buffer), list, filter, compare);
}

int scandir64(const char* path, struct dirent64*** list, int (*filter)(const struct dirent64*),
              int (*compare)(const struct dirent64**, const struct dirent64**)) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(scandir64)(verbena_path(path, buffer), list, filter, compare);
}

int access(const char* path, int mode) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(access)(verbena_path(path, buffer), mode);
}

int faccessat(int fd, const char* path, int mode, int flags) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(faccessat)(fd, verbena_path(path, buffer), mode, flags);
}

int eaccess(const char* path, int mode) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(eaccess)(verbena_path(path, buffer), mode);
}

int euidaccess(const char* path, int mode) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(euidaccess)(verbena_path(path, buffer), mode);
}

// `ls -l` asks for access control lists by path.
ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(getxattr)(verbena_path(path, buffer), name, value, size);
}

ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(lgetxattr)(verbena_path(path, buffer), name, value, size);
}

ssize_t listxattr(const char* path, char* list, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(listxattr)(verbena_path(path, buffer), list, size);
}

ssize_t llistxattr(const char* path, char* list, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(llistxattr)(verbena_path(path, buffer), list, size);
}

int chdir(const char* path) {
  char buffer[VERBENA_PATH_MAX];
  return VERBENA_NEXT(chdir)(verbena_path(path, buffer));
}
