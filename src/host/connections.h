// The connection manager of this process in the real world: its line to the broker, its datagrams
// on the wire, its rows in the slot segment. Everything "locked" (see Process).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/psn.h"
#include "base/result.h"
#include "broker/connection_rows.h"
#include "broker/manager_line.h"
#include "cm/manager.h"
#include "engine/transfer.h"

namespace verbena::host {

class Connections {
 public:
  using Sink = void (*)(cm::Event&& event);

  // `line` is open. `rows`: of the slot segment, which outlives this.
  Connections(std::unique_ptr<broker::ManagerLine> line, broker::ConnectionRows& rows,
              const cm::Options& options)
      : line_(std::move(line)), rows_(rows), manager_(options) {}

  cm::Manager& manager() { return manager_; }
  broker::ManagerLine& line() { return *line_; }

  // The ports of this process by the generation of their listeners' handles, which no two share:
  // what the broker must hear when one listens or is given back.
  std::unordered_map<uint32_t, broker::Service>& ports() { return ports_; }

  // Takes what came, at most a burst, and works the timers. Reading is a system call, so a thread
  // that polls asks for it (`look`) only now and then. Returns how many datagrams came.
  uint32_t receive(Instant now, bool look);
  // What the machine wants to say: datagrams to `out` (a full road loses them), events to `sink`,
  // rows to the segment. True when datagrams were given out: flush the road.
  bool deliver(engine::PacketSink& out, Sink sink);
  // Sentences for the explain log since the last call.
  std::vector<std::string> explanations();

  Instant next_deadline(Instant now) const;
  int fd() const { return line_->fd(); }

 private:
  void write_rows();

  std::unique_ptr<broker::ManagerLine> line_;
  broker::ConnectionRows& rows_;
  cm::Manager manager_;
  std::unordered_map<uint32_t, broker::Service> ports_;
  Psn psn_;
  std::vector<cm::OutgoingMad> outgoing_;
  std::vector<cm::Event> events_;
};

}  // namespace verbena::host
