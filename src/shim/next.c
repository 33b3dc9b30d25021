// The definition that a wrapped call of libc hands on to.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "shim/paths.h"

void* verbena_next(void** cache, const char* name) {
  void* found = __atomic_load_n(cache, __ATOMIC_RELAXED);
  if (found == NULL) {
    found = dlsym(RTLD_NEXT, name);
    __atomic_store_n(cache, found, __ATOMIC_RELAXED);
  }
  return found;
}
