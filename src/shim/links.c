// Calls that give a path back. The program asked about /sys, so it is answered in /sys: the tree's
// prefix is cut off again. NCCL compares such paths, hwloc and UCX print them.
#define _GNU_SOURCE
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/paths.h"

char* __realpath_chk(const char* path, char* out, size_t size);
ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room);
ssize_t __readlinkat_chk(int fd, const char* path, char* out, size_t size, size_t room);
char* __getcwd_chk(char* out, size_t size, size_t room);

char* realpath(const char* path, char* out) {
  char buffer[VERBENA_PATH_MAX];
  return verbena_strip(VERBENA_NEXT(realpath)(verbena_path(path, buffer), out));
}

char* __realpath_chk(const char* path, char* out, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return verbena_strip(VERBENA_NEXT(__realpath_chk)(verbena_path(path, buffer), out, size));
}

char* canonicalize_file_name(const char* path) {
  char buffer[VERBENA_PATH_MAX];
  return verbena_strip(VERBENA_NEXT(canonicalize_file_name)(verbena_path(path, buffer)));
}

static ssize_t strip_link(char* out, ssize_t size) {
  return size <= 0 ? size : (ssize_t)verbena_strip_bytes(out, (size_t)size);
}

ssize_t readlink(const char* path, char* out, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return strip_link(out, VERBENA_NEXT(readlink)(verbena_path(path, buffer), out, size));
}

ssize_t readlinkat(int fd, const char* path, char* out, size_t size) {
  char buffer[VERBENA_PATH_MAX];
  return strip_link(out, VERBENA_NEXT(readlinkat)(fd, verbena_path(path, buffer), out, size));
}

ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room) {
  char buffer[VERBENA_PATH_MAX];
  return strip_link(out, VERBENA_NEXT(__readlink_chk)(verbena_path(path, buffer), out, size, room));
}

ssize_t __readlinkat_chk(int fd, const char* path, char* out, size_t size, size_t room) {
  char buffer[VERBENA_PATH_MAX];
  return strip_link(
      out, VERBENA_NEXT(__readlinkat_chk)(fd, verbena_path(path, buffer), out, size, room));
}

char* getcwd(char* out, size_t size) {
  return verbena_strip(VERBENA_NEXT(getcwd)(out, size));
}

char* __getcwd_chk(char* out, size_t size, size_t room) {
  return verbena_strip(VERBENA_NEXT(__getcwd_chk)(out, size, room));
}

char* get_current_dir_name(void) {
  return verbena_strip(VERBENA_NEXT(get_current_dir_name)());
}

// libc's glob opens directories by its own hidden opendir, so the pattern is redirected and the
// matches are shown without the prefix.
int glob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found) {
  char buffer[VERBENA_PATH_MAX];
  const size_t before = (flags & GLOB_APPEND) != 0 ? found->gl_pathc : 0;
  const int result = VERBENA_NEXT(glob)(verbena_path(pattern, buffer), flags, on_error, found);
  if (result != 0) return result;
  const size_t reserved = (flags & GLOB_DOOFFS) != 0 ? found->gl_offs : 0;
  for (size_t i = before; i < found->gl_pathc; ++i) verbena_strip(found->gl_pathv[reserved + i]);
  return result;
}

int glob64(const char* pattern, int flags, int (*on_error)(const char*, int), glob64_t* found) {
  char buffer[VERBENA_PATH_MAX];
  const size_t before = (flags & GLOB_APPEND) != 0 ? found->gl_pathc : 0;
  const int result = VERBENA_NEXT(glob64)(verbena_path(pattern, buffer), flags, on_error, found);
  if (result != 0) return result;
  const size_t reserved = (flags & GLOB_DOOFFS) != 0 ? found->gl_offs : 0;
  for (size_t i = before; i < found->gl_pathc; ++i) verbena_strip(found->gl_pathv[reserved + i]);
  return result;
}
