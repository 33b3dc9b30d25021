// One write(2) a line on a descriptor in append mode: no buffer to flush at exit or after a fork.
#include "host/explain_log.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <string>

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

ExplainLog::ExplainLog(const char* setting) {
  std::string_view wanted = setting ? setting : "";
  if (wanted.empty()) return;
  if (wanted == "explain") {
    fd_ = STDERR_FILENO;
    return;
  }
  constexpr std::string_view kToFile = "explain:";
  if (!wanted.starts_with(kToFile) || wanted.size() == kToFile.size()) {
    write_line(STDERR_FILENO,
               fmt::format("VERBENA_LOG=\"{}\" is not known; use \"explain\" or \"explain:FILE\"",
                           wanted));
    return;
  }
  std::string path(wanted.substr(kToFile.size()));
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
  if (fd_ < 0)
    write_line(STDERR_FILENO,
               fmt::format("VERBENA_LOG: cannot open {}: {}", path, strerror(errno)));
}

void ExplainLog::write(std::string_view text) const {
  if (fd_ >= 0) write_line(fd_, text);
}

}  // namespace verbena::host
