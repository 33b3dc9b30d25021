// One run in slices of about a tenth of a second, so that it can tell how far it is and be ended.
#include <fmt/format.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "tools/sim.h"
#include "tools/text_table.h"

namespace verbena::tools {

using fabric::Time;

namespace {

volatile std::sig_atomic_t g_interrupts = 0;

void on_interrupt(int) {
  g_interrupts = 1;
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

double thread_cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The share of the run that is behind it.
double share_done(const sim::Experiment& experiment) {
  const scenario::Scenario& scenario = experiment.scenario();
  if (scenario.duration > 0)
    return static_cast<double>(experiment.network().now()) / static_cast<double>(scenario.duration);
  return scenario.flows.empty() ? 1
                                : static_cast<double>(experiment.flows_done()) /
                                      static_cast<double>(scenario.flows.size());
}

void show_progress(const sim::Experiment& experiment, double wall_s) {
  const double done = share_done(experiment);
  const double left = done > 0.001 ? wall_s * (1 - done) / done : -1;
  const double rate = static_cast<double>(experiment.network().packet_hops()) / wall_s;
  fmt::print(stderr, "\r{} simulated, {:.0f} %, {} packet-hops/s{}\x1b[K",
             short_time(experiment.network().now()), done * 100, short_count(rate),
             left < 0 ? "" : fmt::format(", {:.0f} s left", left));
  fflush(stderr);
}

// A run without an end of its own whose flows wait for what never comes (a deadlock, and no
// timeout): longer than any retry of an adapter takes.
bool stuck(const sim::Experiment& experiment) {
  constexpr Time kQuiet = 10 * fabric::kSecond;
  if (experiment.scenario().duration > 0 || experiment.waits_to_begin()) return false;
  return experiment.network().now() > experiment.last_progress() + kQuiet;
}

}  // namespace

bool interrupted() {
  return g_interrupts != 0;
}

void obey_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one kills
  sigaction(SIGINT, &action, nullptr);
}

void run_to_end(SimRun& run, bool progress) {
  constexpr double kShort = 0.05, kLong = 0.2;
  sim::Experiment& experiment = *run.experiment;
  const Clock::time_point begin = Clock::now();
  const double cpu = thread_cpu_seconds();
  Time slice = fabric::kMicrosecond;
  bool shown = false;
  for (;;) {
    const Clock::time_point before = Clock::now();
    if (experiment.run(experiment.network().now() + slice)) break;
    if (interrupted() || stuck(experiment)) {
      run.end = interrupted() ? SimRun::kInterrupted : SimRun::kStuck;
      experiment.close();
      break;
    }
    const double took = seconds_since(before);
    if (took < kShort && slice < fabric::kSecond) slice *= 2;
    if (took > kLong && slice > fabric::kNanosecond) slice /= 2;
    if (!progress || seconds_since(begin) < kLong) continue;
    show_progress(experiment, seconds_since(begin));
    shown = true;
  }
  if (shown) fmt::print(stderr, "\r\x1b[K");
  run.wall_s = seconds_since(begin);
  run.cpu_s = thread_cpu_seconds() - cpu;
  run.summary = sim::summarise(experiment);
  run.unmet = sim::unmet(experiment.scenario(), run.summary);
}

}  // namespace verbena::tools
