// Result<T>: what a call gives back when its caller may have asked for the wrong thing. The error
// is an errno and a sentence for the explain log; the Door turns it into `errno`.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace verbena {

struct Error {
  int code = 0;         // an errno value, never 0
  std::string message;  // what, where, what to change; no trailing full stop or newline
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(int code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace verbena
