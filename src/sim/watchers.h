// Who looks on during a run: captures at a port, a trace of everything. Where the text and bytes go
// is the caller's affair.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fabric/network.h"
#include "sim/experiment.h"

namespace verbena::sim {

// The fabric has one observer; this one is several.
class Watchers final : public fabric::Observer {
 public:
  void add(fabric::Observer& watcher) { watchers_.push_back(&watcher); }  // must outlive it
  bool empty() const { return watchers_.empty(); }

  void on_sent(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
               const fabric::Body& body) override;
  void on_received(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
                   const fabric::Body& body) override;
  void on_drop(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
               fabric::DropCause cause) override;

 private:
  std::vector<fabric::Observer*> watchers_;
};

// pcapng of what passes one port, both ways, with the bytes that would be on the wire: a frame sent
// at the time of its first bit, one received when the node has it. Payload is zeros where the run
// carries lengths only. The world begins in 1970.
class Capture final : public fabric::Observer {
 public:
  using Write = std::function<void(std::span<const uint8_t>)>;
  Capture(const Experiment& experiment, fabric::PortId port, Write write);

  void on_sent(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
               const fabric::Body& body) override;
  void on_received(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
                   const fabric::Body& body) override;
  uint64_t frames() const { return frames_; }

 private:
  void record(fabric::Time now, bool outbound, const fabric::Packet& packet,
              const fabric::Body& body);

  const Experiment& experiment_;
  fabric::PortId port_;
  Write write_;
  std::vector<uint8_t> frame_, block_;  // scratch
  uint64_t frames_ = 0;
};

// One line for each frame that is sent, received or dropped anywhere: nanoseconds, port, what.
class TraceText final : public fabric::Observer {
 public:
  using Write = std::function<void(std::string_view line)>;  // with its newline
  TraceText(const Experiment& experiment, Write write);

  void on_sent(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
               const fabric::Body& body) override;
  void on_received(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
                   const fabric::Body& body) override;
  void on_drop(fabric::Time now, fabric::PortId port, const fabric::Packet& packet,
               fabric::DropCause cause) override;

 private:
  void line(fabric::Time now, fabric::PortId port, std::string_view what);

  const Experiment& experiment_;
  Write write_;
  std::vector<std::string> names_;  // of ports
};

// The port that people call `name`: "leaf0:3", or "h3" for a host's only one. An Error says what
// there is.
Result<fabric::PortId> find_port(const Experiment& experiment, std::string_view name);

}  // namespace verbena::sim
