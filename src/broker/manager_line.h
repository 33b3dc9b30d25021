// The second line of a process to its broker, for its connection manager: ports are asked for on
// it, and datagrams for QP1 come in. It outlives brokers: to the next one it tells its ports again.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "broker/protocol.h"
#include "link/fd.h"
#include "link/function_ref.h"

namespace verbena::broker {

// Not thread-safe: whoever drives the connection manager holds its lock.
class ManagerLine {
 public:
  // The lease's name and number (Lease::token(), slot()).
  ManagerLine(std::string name, uint64_t token, uint8_t slot)
      : name_(std::move(name)), token_(token), slot_(slot) {}

  // Connects. Errors: those of connect_now(); ETIMEDOUT; ESTALE a broker that does not know us.
  Result<void> open();
  uint64_t token() const { return token_; }
  int fd() const { return connection_.get(); }  // -1: between two brokers

  // Takes the port for this process (Service::port 0: any), or says that it listens. Waits for the
  // broker. Errors: EADDRINUSE, ENOSPC, ETIMEDOUT.
  Result<uint16_t> bind(const Service& service);
  void release(const Service& service);

  // Shows what has arrived, at most `limit` datagrams. Never waits; after a broker's death it
  // connects to the next one. Returns how many.
  size_t receive(link::FunctionRef<void(const MadMessage&)> visit, size_t limit = 64);
  // A broker died and the next has not been reached: call receive() again soon.
  bool lost() const { return !connection_.valid(); }

  void close() { connection_.reset(); }  // in a forked child; the line belongs to the parent

 private:
  enum class Heard : uint8_t { kNothing, kMad, kReply, kLost };
  Heard hear(Reply& reply);
  Result<Reply> ask(Request request);
  void tell_again();

  std::string name_;
  uint64_t token_;
  uint8_t slot_;
  link::Fd connection_;
  std::vector<Service> services_;   // as the broker should know them
  std::deque<MadMessage> waiting_;  // heard while an answer was waited for
};

}  // namespace verbena::broker
