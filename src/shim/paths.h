// What every wrapped call of the shim shares: where a path of the InfiniBand part of /sys or /dev
// really lies ($VERBENA_TREE), and how a path that comes back is shown without that prefix.
//
// The shim is plain C on libc alone: it is loaded into every child process, so it must bring
// nothing along and change nothing else.
#pragma once

#include <stddef.h>

#define VERBENA_PATH_MAX 4096

// The path to use instead of `path`: `buffer` (VERBENA_PATH_MAX bytes) when it is ours, else `path`
// itself. NULL, relative and overlong paths come back as they are. Leaves errno alone.
const char* verbena_path(const char* path, char* buffer);

// Cuts the tree's prefix off the `size` bytes at `text`, when they lie in the tree. Gives the new
// size; terminates only when the caller's text was terminated.
size_t verbena_strip_bytes(char* text, size_t size);

// The same for a string; NULL gives NULL.
char* verbena_strip(char* text);

// The next definition of a libc function, looked up once.
void* verbena_next(void** cache, const char* name);

#define VERBENA_NEXT(name)                           \
  ({                                                 \
    static void* cache_;                             \
    (__typeof__(&name))verbena_next(&cache_, #name); \
  })
