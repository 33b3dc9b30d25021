// verbena stats: what every RDMA process and queue pair of this host has counted.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tools/command.h"
#include "tools/stats_snapshot.h"

namespace verbena::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct StatsOptions {
  bool watch = false;
  bool json = false;
  bool prometheus = false;
  double interval = 1.0;  // seconds
};

std::string formatted(const StatsOptions& options, const Snapshot& now, const Snapshot* before,
                      double seconds) {
  if (options.json) return stats_json(now) + "\n";
  if (options.prometheus) return stats_prometheus(now);
  return stats_text(now, before, seconds);
}

// Until interrupted, or until nobody reads any more.
int watch(const StatsOptions& options) {
  const bool screen = isatty(STDOUT_FILENO) != 0 && !options.json && !options.prometheus;
  std::optional<Snapshot> before;
  Clock::time_point then;
  for (;;) {
    auto now = read_snapshot();
    if (!now) return complain("stats", now.error().message, 1);
    const Clock::time_point read_at = Clock::now();
    const double seconds = std::chrono::duration<double>(read_at - then).count();
    const std::string text = formatted(options, *now, before ? &*before : nullptr, seconds);
    fmt::print("{}{}{}", screen ? "\x1b[H\x1b[2J" : "", text,
               screen || options.json || options.prometheus ? "" : "\n");
    if (fflush(stdout) != 0) return 1;
    before = std::move(*now);
    then = read_at;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  }
}

int stats(const StatsOptions& options) {
  if (options.watch) return watch(options);
  auto now = read_snapshot();
  if (!now) return complain("stats", now.error().message, 1);
  fmt::print("{}", formatted(options, *now, nullptr, 0));
  return 0;
}

}  // namespace

void add_stats(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<StatsOptions>();
  CLI::App* command = app.add_subcommand(
      "stats", "Show the counters of every RDMA process and queue pair of this host");
  command->add_flag("-w,--watch", options->watch, "Repeat, with rates per second");
  command->add_option("-i,--interval", options->interval, "Seconds between two readings of --watch")
      ->check([](const std::string& text) {  // CLI::Range lets "nan" through
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= 0.1 && value <= 3600;
        return good ? std::string() : fmt::format("{} is not in the range of 0.1 to 3600", text);
      })
      ->type_name("SECONDS");
  CLI::Option* json = command->add_flag("--json", options->json, "Print JSON");
  command
      ->add_flag("--prometheus", options->prometheus,
                 "Print the exposition format of Prometheus (for a textfile collector)")
      ->excludes(json);
  command->footer(
      "Names follow the hw_counters of Linux RDMA drivers. Counters never go back; a "
      "process takes its own with it when it ends.");
  command->callback([options, &invocation] {
    if (takes_no_program("stats", invocation)) invocation.status = stats(*options);
  });
}

}  // namespace verbena::tools
