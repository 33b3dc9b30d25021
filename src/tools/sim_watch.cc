// See sim_watch.h.
#include "tools/sim_watch.h"

#include <fmt/format.h>

#include <cerrno>

namespace verbena::tools {

namespace {

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<std::unique_ptr<WholeFile>> make_file(const std::string& path) {
  auto file = WholeFile::create(path);
  if (!file) return tl::unexpected(Error{EIO, file.error().message});
  return std::make_unique<WholeFile>(std::move(*file));
}

}  // namespace

Result<void> SimWatch::begin_capture(const std::string& option, sim::Experiment& experiment) {
  const size_t equals = option.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == option.size())
    return fail(EINVAL,
                fmt::format("--pcap {}: write PORT=FILE, as in leaf0:3=leaf.pcapng", option));
  auto port = sim::find_port(experiment, option.substr(0, equals));
  if (!port) return fail(EINVAL, fmt::format("--pcap {}: {}", option, port.error().message));
  auto file = make_file(option.substr(equals + 1));
  if (!file) return tl::unexpected(file.error());
  WholeFile* to = file->get();
  files_.push_back(std::move(*file));
  all_.push_back(std::make_unique<sim::Capture>(
      experiment, *port, [to](std::span<const uint8_t> bytes) { to->write(text_of(bytes)); }));
  return {};
}

Result<void> SimWatch::begin(const SimOptions& options, sim::Experiment& experiment) {
  for (const std::string& option : options.pcaps)
    if (auto good = begin_capture(option, experiment); !good) return good;
  if (!options.trace.empty()) {
    auto file = make_file(options.trace);
    if (!file) return tl::unexpected(file.error());
    WholeFile* to = file->get();
    files_.push_back(std::move(*file));
    all_.push_back(std::make_unique<sim::TraceText>(
        experiment, [to](std::string_view line) { to->write(line); }));
  }
  for (const auto& watcher : all_) watchers_.add(*watcher);
  if (!watchers_.empty()) experiment.network().observe(&watchers_);
  return {};
}

Result<void> SimWatch::end() {
  Result<void> out;
  for (const auto& file : files_)
    if (auto good = file->commit(); !good && out) out = good;
  return out;
}

}  // namespace verbena::tools
