// CHECK: our own bugs stop the program at the line that noticed them, in every build.
// Never reached by bytes from a wire, from shared memory or by a caller's arguments: those are
// values (Result, Verdict, completion status), not checks.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace verbena {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "verbena: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace verbena

#define CHECK(condition)                                       \
  do {                                                         \
    if (__builtin_expect(!(condition), 0))                     \
      ::verbena::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)
