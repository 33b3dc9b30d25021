// dlopen of libibverbs or librdmacm, by any name, gives ours. libc resolves plain names with the
// search path of the *calling* object, which it knows by the return address; so every other name is
// passed on by a jump that leaves the caller's return address in place.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "shim/libraries.h"
#include "shim/paths.h"

#if defined(__clang__)
#define PASS_ON __attribute__((musttail)) return
#define BY_JUMP
#else
#define PASS_ON return
#define BY_JUMP __attribute__((optimize("O2", "optimize-sibling-calls"), noinline))
#endif

BY_JUMP void* dlopen(const char* name, int flags) {
  const char* ours = verbena_library(name);
  void* (*next)(const char*, int) = VERBENA_NEXT(dlopen);
  PASS_ON next(ours != NULL ? ours : name, flags);
}

BY_JUMP void* dlmopen(Lmid_t space, const char* name, int flags) {
  const char* ours = verbena_library(name);
  void* (*next)(Lmid_t, const char*, int) = VERBENA_NEXT(dlmopen);
  PASS_ON next(space, ours != NULL ? ours : name, flags);
}
