// verbena fabric: what operators type, into scenarios; what is wrong with it; how much headroom.
#include "tools/fabric.h"

#include <errno.h>
#include <fmt/format.h>
#include <stdio.h>
#include <string.h>

#include <memory>

namespace verbena::tools {
namespace {

constexpr size_t kMostBytes = 64u << 20;

struct Close {
  void operator()(FILE* file) const {
    if (file != stdin) fclose(file);
  }
};

}  // namespace

Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<FILE, Close> file(path == "-" ? stdin : fopen(path.c_str(), "re"));
  if (file == nullptr) return fail(errno, fmt::format("{}: {}", path, strerror(errno)));
  std::string text;
  char piece[1 << 16];
  while (true) {
    const size_t got = fread(piece, 1, sizeof piece, file.get());
    text.append(piece, got);
    if (text.size() > kMostBytes)
      return fail(EFBIG, fmt::format("{}: longer than {} MiB", path, kMostBytes >> 20));
    if (got == sizeof piece) continue;
    if (ferror(file.get()) != 0) {
      const int problem = errno;  // a folder opens, and fails here
      return fail(problem, fmt::format("{}: {}", path, strerror(problem)));
    }
    return text;
  }
}

Result<scenario::Format> choose_format(const std::string& path, const std::string& text,
                                       const std::string& chosen) {
  if (chosen == "nvue") return scenario::Format::kNvue;
  if (chosen == "sonic") return scenario::Format::kSonic;
  if (chosen == "linux") return scenario::Format::kLinux;
  if (const auto format = scenario::format_of(text)) return *format;
  return fail(
      EINVAL,
      fmt::format("{}: neither NVUE commands (nv set ...), nor a SONiC CONFIG_DB (JSON), nor "
                  "dcb or mlnx_qos lines; --format says which",
                  path));
}

void add_fabric(CLI::App& app, Invocation& invocation) {
  CLI::App* fabric = app.add_subcommand(
      "fabric", "Read switch and adapter configurations, find mistakes in them, compute headroom");
  fabric->require_subcommand(1);
  add_fabric_import(*fabric, invocation);
  add_fabric_lint(*fabric, invocation);
  add_fabric_headroom(*fabric, invocation);
}

}  // namespace verbena::tools
