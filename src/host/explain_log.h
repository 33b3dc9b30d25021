// Logs for the person at the keyboard, one line per entry, off unless asked for: VERBENA_LOG, the
// cause of every failure in words, and VERBENA_TRACE, every packet.
#pragma once

#include <string_view>

#include "base/result.h"

namespace verbena::host {

class ExplainLog {
 public:
  // `setting` is the value of the variable `variable`: WORD (to stderr) or WORD:PATH (appended to).
  // Null and empty: off. What is wrong with any other value is kept for opened(); then the log is
  // off too.
  explicit ExplainLog(const char* setting, const char* variable = "VERBENA_LOG",
                      std::string_view word = "explain");

  // EINVAL an unknown word, or open()'s errno for the file: a sentence for whoever refuses to go on
  // without the log that was asked for. Never on stderr: that is the program's.
  const Result<void>& opened() const { return opened_; }
  bool enabled() const { return fd_ >= 0; }
  // Writes "verbena: [PID] TEXT" and a newline with one write(2), so that lines of several
  // processes do not mix. Text longer than kMaxLine is cut; line breaks become spaces.
  void write(std::string_view text) const;

  static constexpr size_t kMaxLine = 4000;  // bytes

 private:
  Result<void> opened_;
  int fd_ = -1;  // never closed: threads may still write while exit handlers run
};

}  // namespace verbena::host
