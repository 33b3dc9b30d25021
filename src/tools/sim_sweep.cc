// The grid and its workers: each run has its own world and thread, so the order in which they end
// changes nothing.
#include "tools/sim_sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>

#include "tools/command.h"
#include "tools/sim_files.h"
#include "tools/sim_json.h"
#include "tools/text_table.h"
#include "tools/whole_file.h"

namespace verbena::tools {

namespace {

constexpr size_t kMostPoints = 10'000;

}  // namespace

Result<SweepKey> parse_sweep(const std::string& text) {
  auto split = split_assignment("--sweep", text);
  if (!split) return tl::unexpected(split.error());
  SweepKey out{split->key, {}};
  std::string value;
  int depth = 0;
  char quote = 0;
  for (char c : split->value + ",") {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      if (value.empty())
        return fail(EINVAL, fmt::format("--sweep {}: an empty value; write KEY=V1,V2", text));
      out.values.push_back(std::move(value));
      value.clear();
      continue;
    }
    value += c;
  }
  if (!value.empty())
    return fail(EINVAL, fmt::format("--sweep {}: a bracket or quote is not closed", text));
  return out;
}

Result<std::vector<std::vector<scenario::Override>>> sweep_grid(
    const std::vector<std::string>& sweeps) {
  std::vector<std::vector<scenario::Override>> grid{{}};
  for (const std::string& text : sweeps) {
    auto key = parse_sweep(text);
    if (!key) return tl::unexpected(key.error());
    std::vector<std::vector<scenario::Override>> next;
    if (grid.size() * key->values.size() > kMostPoints)
      return fail(EINVAL, fmt::format("--sweep {}: more than {} runs", text, kMostPoints));
    for (const auto& point : grid)
      for (const std::string& value : key->values) {
        next.push_back(point);
        next.back().push_back({key->key, value});
      }
    grid = std::move(next);
  }
  return grid;
}

namespace {

class Sweep {
 public:
  Sweep(const SimOptions& options, const std::vector<scenario::Override>& common,
        const std::vector<std::vector<scenario::Override>>& grid)
      : options_(options), common_(common), points_(grid.size()) {
    for (size_t i = 0; i < grid.size(); ++i) points_[i].changes = grid[i];
  }

  // Reads every scenario of the grid, so that a mistake is told before anything runs.
  Result<void> check() const {
    for (const SweepPoint& point : points_) {
      auto scenario = read(point);
      if (!scenario) return tl::unexpected(scenario.error());
      if (auto good = sim::check_supported(*scenario); !good) return good;
      if (&point != &points_[0]) continue;
      if (auto good = sim::check_expectations(sim::Experiment(*scenario)); !good) return good;
    }
    return {};
  }

  Result<void> run() {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t jobs =
        std::min<size_t>(options_.jobs == 0 ? cores : options_.jobs, points_.size());
    begin_ = std::chrono::steady_clock::now();
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < jobs; ++i) workers.emplace_back([this] { work(); });
    workers.clear();  // joins
    if (shown_) fmt::print(stderr, "\r\x1b[K");
    return error_;
  }

  const std::vector<SweepPoint>& points() const { return points_; }

 private:
  Result<scenario::Scenario> read(const SweepPoint& point) const {
    std::vector<scenario::Override> all = common_;
    all.insert(all.end(), point.changes.begin(), point.changes.end());
    if (!options_.seed.empty()) all.push_back({"scenario.seed", options_.seed});
    return scenario::read_scenario(options_.file, all);
  }

  void work() {
    for (size_t i = next_++; i < points_.size() && !interrupted(); i = next_++) {
      Result<void> good = run_point(i);
      std::lock_guard lock(mutex_);
      if (!good && error_) error_ = good;
      ++done_;
      show_progress();
    }
  }

  Result<void> run_point(size_t index) {
    SweepPoint& point = points_[index];
    auto scenario = read(point);
    if (!scenario) return tl::unexpected(scenario.error());
    SimRun run;
    run.overrides = common_;
    run.overrides.insert(run.overrides.end(), point.changes.begin(), point.changes.end());
    run.experiment = std::make_unique<sim::Experiment>(*scenario);
    run_to_end(run, false);
    if (run.end == SimRun::kInterrupted) return {};
    Result<void> good;
    if (!options_.out.empty())
      good = write_run_files(run, fmt::format("{}/{:03}", options_.out, index + 1));
    point.json = summary_json(run);
    point.plots = comparison_json(run);
    point.trace = fmt::format("{:016x}", run.experiment->network().trace_hash());
    point.cpu_s = run.cpu_s;
    point.unmet = std::move(run.unmet);
    point.summary = std::move(run.summary);
    point.ran = true;
    return good;
  }

  void show_progress() {
    if (options_.quiet || isatty(STDERR_FILENO) == 0) return;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const auto left = static_cast<double>(points_.size() - done_);
    fmt::print(stderr, "\r{} of {} runs, {:.0f} s left\x1b[K", done_, points_.size(),
               seconds * left / static_cast<double>(done_));
    fflush(stderr);
    shown_ = true;
  }

  const SimOptions& options_;
  const std::vector<scenario::Override>& common_;
  std::vector<SweepPoint> points_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;  // of the rest
  Result<void> error_;
  size_t done_ = 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
};

Result<void> write_comparison(const SimOptions& options, const std::vector<SweepPoint>& points) {
  if (!options.out.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const SweepPoint& point : points)
      if (point.ran) all.push_back(point.json);
    if (auto good = write_whole_file(options.out + "/sweep.csv", sweep_csv(points)); !good)
      return good;
    if (auto good = write_whole_file(options.out + "/sweep.json", json_text(all) + "\n"); !good)
      return good;
  }
  if (options.report.empty()) return {};
  return write_whole_file(options.report, sweep_page(options, points));
}

void print_points(const SimOptions& options, const std::vector<SweepPoint>& points) {
  if (!options.json) {
    if (!options.quiet) fmt::print("{}", sweep_text(points));
    return;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const SweepPoint& point : points)
    if (point.ran) all.push_back(point.json);
  fmt::print("{}\n", json_text(all));
}

}  // namespace

int sweep(const SimOptions& options, const std::vector<scenario::Override>& overrides) {
  auto grid = sweep_grid(options.sweeps);
  if (!grid) return complain("sim", grid.error().message, kMisuse);
  Sweep runs(options, overrides, *grid);
  if (auto good = runs.check(); !good) return complain("sim", good.error().message, kMisuse);
  if (!options.out.empty())
    if (auto good = make_folder(options.out); !good)
      return complain("sim", good.error().message, kFailure);
  obey_interrupts();
  auto ran = runs.run();
  print_points(options, runs.points());
  auto written = write_comparison(options, runs.points());
  if (!ran) return complain("sim", ran.error().message, kFailure);
  if (!written) return complain("sim", written.error().message, kFailure);
  if (interrupted()) return kInterruptStatus;
  const bool met = std::all_of(runs.points().begin(), runs.points().end(),
                               [](const SweepPoint& point) { return point.unmet.empty(); });
  return met ? 0 : kFailure;
}

}  // namespace verbena::tools
