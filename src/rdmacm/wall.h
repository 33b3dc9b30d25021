// The wall that no exception crosses: entry points that allocate run inside it.
#pragma once

#include <cxxabi.h>
#include <errno.h>

namespace verbena::rdmacm {

// Runs `body`; when memory ran out (the only exception that can occur) the call fails with ENOMEM
// and `failed`. The unwinding of a cancelled thread goes on.
template <typename Body, typename T>
T shielded(T failed, Body&& body) {
  try {
    return body();
  } catch (const ::abi::__forced_unwind&) {
    throw;
  } catch (...) {
    errno = ENOMEM;
    return failed;
  }
}

template <typename Body>
int shielded(Body&& body) {
  return shielded(-1, body);
}

}  // namespace verbena::rdmacm
