// The connection manager's place in the process: opened once, driven with the engine.
#include <algorithm>
#include <cerrno>

#include "host/process.h"
#include "host/process_state.h"

namespace verbena::host {
namespace {

// A thread that polls looks at the broker's line (a system call) only so often.
constexpr Duration kLineInterval = microseconds(50);

}  // namespace

Result<void> Process::open_connections() {
  const auto have_them = [this] {
    Guard guard(*this);
    return connections_ != nullptr;
  };
  if (have_them()) return {};
  if (Result<void> attached = attach(); !attached) return attached;
  // One line for a process: the broker sends to the last that was opened.
  std::lock_guard attaching(g_attach_mutex);
  if (have_them()) return {};
  std::unique_ptr<broker::ManagerLine> line;
  {
    Guard guard(*this);
    if (!links_) return fail(EAGAIN, "this process has no slot of the broker yet");
    line = links_->make_line();
  }
  if (Result<void> opened = line->open(); !opened) {
    explain("no connection manager: " + opened.error().message);
    return opened;
  }
  Guard guard(*this);
  cm::Options options;
  options.slot = links_->slot();
  options.seed = random_number();
  options.ca_guid = random_number() | 1;  // see Options::ca_guid
  options.first_generation = state_->next_generation;
  connections_ = std::make_unique<Connections>(std::move(line), links_->connection_rows(), options);
  wake_sleeper();  // whoever sleeps must sleep on the line too
  return {};
}

void Process::hear_broker() {
  const Instant now = this->now();
  state_->line_seen = now;
  connections_->receive(now, true);
  say();
}

uint32_t Process::drive_connections(Instant now) {
  State& state = *state_;
  const bool look = !state.watch.polling() || now - state.line_seen >= kLineInterval;
  if (look) state.line_seen = now;
  const uint32_t taken = connections_->receive(now, look);
  say();
  return taken;
}

void Process::say() {
  if (!connections_ || !links_) return;
  if (connections_->deliver(links_->sink(now()), cm_sink_)) links_->flush();
  for (const std::string& text : connections_->explanations()) state_->log.write(text);
}

Instant Process::connections_deadline() const {
  return connections_ ? connections_->next_deadline(now()) : kNever;
}

uint32_t Process::interface_of(const engine::Gid& gid) {
  return state_->addresses.interface_of(gid);
}

}  // namespace verbena::host
