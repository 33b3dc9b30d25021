// The explain log: the cause of every failure in words, one line each, for the person at the
// keyboard. Off unless VERBENA_LOG asks for it.
#pragma once

#include <string_view>

namespace verbena::host {

class ExplainLog {
 public:
  // `setting` is VERBENA_LOG: "explain" (stderr) or "explain:PATH" (appended to). Null, empty and
  // anything else: off; an unknown word or a file that cannot be opened is said once on stderr.
  explicit ExplainLog(const char* setting);

  bool enabled() const { return fd_ >= 0; }
  // Writes "verbena: [PID] TEXT" and a newline with one write(2), so that lines of several
  // processes do not mix. Text longer than kMaxLine is cut; line breaks become spaces.
  void write(std::string_view text) const;

  static constexpr size_t kMaxLine = 4000;  // bytes

 private:
  int fd_ = -1;  // never closed: threads may still write while exit handlers run
};

}  // namespace verbena::host
