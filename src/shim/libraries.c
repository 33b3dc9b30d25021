// The four names and their replacements, found from the address of this very object.
#define _GNU_SOURCE
#include "shim/libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char* const kNames[] = {"libibverbs.so", "librdmacm.so"};

static struct {
  char path[PATH_MAX];
  bool present;
} ours_[2];

__attribute__((constructor)) static void find_ours(void) {
  Dl_info info;
  if (dladdr((void*)verbena_library, &info) == 0 || info.dli_fname == NULL) return;
  const char* slash = strrchr(info.dli_fname, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - info.dli_fname) + 1;
  for (int i = 0; i < 2; ++i) {
    const size_t size = strlen(kNames[i]);
    if (folder == 0 || folder + size + 3 > sizeof(ours_[i].path)) continue;
    memcpy(ours_[i].path, info.dli_fname, folder);
    memcpy(ours_[i].path + folder, kNames[i], size);
    memcpy(ours_[i].path + folder + size, ".1", 3);
    const int saved = errno;
    ours_[i].present = syscall(SYS_faccessat, AT_FDCWD, ours_[i].path, R_OK) == 0;
    errno = saved;
  }
}

const char* verbena_library(const char* name) {
  if (name == NULL) return NULL;
  const char* slash = strrchr(name, '/');
  const char* last = slash == NULL ? name : slash + 1;
  for (int i = 0; i < 2; ++i) {
    const size_t size = strlen(kNames[i]);
    if (!ours_[i].present || strncmp(last, kNames[i], size) != 0) continue;
    const char* rest = last + size;  // "", ".1" or ".1.14.44.0"
    if (rest[0] == '\0' || (strncmp(rest, ".1", 2) == 0 && (rest[2] == '\0' || rest[2] == '.')))
      return ours_[i].path;
  }
  return NULL;
}
