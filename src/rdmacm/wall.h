// How a call of this library fails when memory ran out: entry points that allocate run inside
// shielded().
#pragma once

#include <errno.h>

#include "base/wall.h"

namespace verbena::rdmacm {

// Runs `body`; when memory ran out the call fails with ENOMEM and `failed`.
template <typename Body, typename T>
T shielded(T failed, Body&& body) {
  return behind_wall<T>(body, [&] {
    errno = ENOMEM;
    return failed;
  });
}

template <typename Body>
int shielded(Body&& body) {
  return shielded(-1, body);
}

}  // namespace verbena::rdmacm
