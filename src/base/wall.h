// The wall that no exception crosses: entry points of the two libraries that allocate run behind
// it, since their callers are C programs.
#pragma once

#include <cxxabi.h>

namespace verbena {

// What `body` gives; what `failed` gives when memory ran out, the only exception that can occur.
// The unwinding of a cancelled thread goes on.
template <typename T, typename Body, typename Failed>
T behind_wall(Body&& body, Failed&& failed) {
  try {
    return body();
  } catch (const ::abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return failed();
  }
}

}  // namespace verbena
