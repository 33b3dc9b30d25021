// The LD_AUDIT module: the dynamic linker asks it before it searches for a library, so it works
// where LD_LIBRARY_PATH and LD_PRELOAD do not: programs with DT_RPATH and absolute names.
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/libraries.h"

// Only versions up to the one we were built with are understood.
__attribute__((visibility("default"))) unsigned la_version(unsigned version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

__attribute__((visibility("default"))) char* la_objsearch(const char* name, uintptr_t* cookie,
                                                          unsigned flag) {
  (void)cookie;
  if (flag != LA_SER_ORIG) return (char*)name;
  const char* ours = verbena_library(name);
  return (char*)(ours != NULL ? ours : name);
}
