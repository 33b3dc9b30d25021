// The connection manager's place in the process: opened once, driven with the engine.
#include <algorithm>

#include "host/process.h"
#include "host/process_state.h"

namespace verbena::host {
namespace {

// A thread that polls looks at the broker's line (a system call) only so often.
constexpr Duration kLineInterval = microseconds(50);

uint64_t random_seed(uint64_t token, Instant now) {
  return token ^ static_cast<uint64_t>(now.ns()) * 0x9e3779b97f4a7c15ull;
}

}  // namespace

Result<void> Process::open_connections() {
  if (Result<void> attached = attach(); !attached) return attached;
  std::unique_ptr<broker::ManagerLine> line;
  {
    Guard guard(*this);
    if (connections_ || !links_) return {};
    line = links_->make_line();
  }
  if (Result<void> opened = line->open(); !opened) {
    explain("no connection manager: " + opened.error().message);
    return opened;
  }
  Guard guard(*this);
  if (connections_ || !links_) return {};  // another thread was faster
  cm::Options options;
  options.slot = links_->slot();
  options.seed = random_seed(line->token(), now());
  options.ca_guid = 0x0200'00ff'fe00'0000ull | links_->slot();
  connections_ = std::make_unique<Connections>(std::move(line), links_->connection_rows(), options);
  wake_sleeper();  // whoever sleeps must sleep on the line too
  return {};
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
  if (connections_->put_out(links_->sink(now()), cm_sink_)) links_->flush();
  std::vector<std::string>& texts = connections_->explanations();
  for (const std::string& text : texts) state_->log.write(text);
  texts.clear();
}

Instant Process::connections_deadline() const {
  return connections_ ? connections_->next_deadline(now()) : kNever;
}

uint32_t Process::interface_of(const engine::Gid& gid) {
  return state_->addresses.interface_of(gid);
}

}  // namespace verbena::host
