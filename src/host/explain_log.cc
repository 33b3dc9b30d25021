// One write(2) a line on a descriptor in append mode: no buffer to flush at exit or after a fork.
#include "host/explain_log.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "host/settings.h"

namespace verbena::host {
namespace {

void write_line(int fd, std::string_view text) {
  std::string line =
      fmt::format("verbena: [{}] {}", ::getpid(), text.substr(0, ExplainLog::kMaxLine));
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  line += '\n';
  if (::write(fd, line.data(), line.size()) < 0) return;  // a full disk must not stop the program
}

}  // namespace

ExplainLog::ExplainLog(const char* setting, const char* variable, std::string_view word) {
  const Result<LogTarget> target = log_target(variable, setting, word);
  if (!target) opened_ = tl::unexpected<Error>(target.error());
  if (!target || target->kind == LogTarget::Kind::kOff) return;
  if (target->kind == LogTarget::Kind::kStderr) {
    fd_ = STDERR_FILENO;
    return;
  }
  const std::string& path = target->path;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
               0644);  // a FIFO without a reader is refused, not waited for
  if (fd_ < 0)
    opened_ = fail(errno, fmt::format("{}: cannot open {}: {}", variable, path, strerror(errno)));
}

void ExplainLog::write(std::string_view text) const {
  if (fd_ >= 0) write_line(fd_, text);
}

}  // namespace verbena::host
