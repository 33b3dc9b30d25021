// The second line of a process to its broker, for its connection manager: ports are asked for on
// it, and datagrams for QP1 come in. It outlives brokers: to the next one it tells its ports again.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "broker/protocol.h"
#include "link/fd.h"
#include "link/function_ref.h"

namespace verbena::broker {

// Nothing here waits but open(). Not thread-safe: whoever drives the connection manager holds its
// lock.
class ManagerLine {
 public:
  // The lease's name and number (Lease::token(), slot()).
  ManagerLine(std::string name, uint64_t token, uint8_t slot)
      : name_(std::move(name)), token_(token), slot_(slot) {}

  // Connects, waiting at most kAnswerMs, also for a broker that takes another's place. Errors:
  // those of connect_now(); ETIMEDOUT; ESTALE a broker that does not know us.
  Result<void> open();
  int fd() const { return connection_.get(); }  // -1: between two brokers

  // Asks for the port for this process (Service::port 0: any), or says that it listens. The answer
  // comes with receive(); also that of the next broker, when this one dies over it. Never 0.
  using Ticket = uint32_t;
  Ticket ask(const Service& service);
  // Once: the port, or EADDRINUSE, ENOSPC, EINVAL. Nothing: not yet.
  std::optional<Result<uint16_t>> answer(Ticket ticket);
  // Nobody waits for the answer any more: a port that it brings is given back.
  void abandon(Ticket ticket);
  void release(const Service& service);

  // Takes what has arrived and sends what there was no room for; shows the datagrams, at most
  // `limit`, and returns how many. What comes behind an answer stays until the answer is taken: the
  // first requests for a port must find it bound. After a broker's death it connects to the next.
  size_t receive(link::FunctionRef<void(const MadMessage&)> visit, size_t limit = 64);
  // Call receive() again within look_ms(), whatever arrives: a broker died and the next has not
  // been reached, or does not read fast enough.
  bool busy() const { return !given_up_ && (!connection_.valid() || !unsent_.empty()); }
  int look_ms() const { return connection_.valid() ? 1 : kReconnectMs; }
  // Sentences for the explain log.
  std::vector<std::string>& explanations() { return explanations_; }

  void close() { connection_.reset(); }  // in a forked child; the line belongs to the parent

  static constexpr int kReconnectMs = 5;
  static constexpr int kAnswerMs = 2000;  // that callers wait for an answer

 private:
  struct Asked {
    Service service;
    uint32_t sequence = 0;  // of the request that was sent last; 0: none yet
    bool abandoned = false;
    std::optional<Result<uint16_t>> answer;
  };
  struct Unsent {
    Request request;
    Ticket ticket = 0;  // 0: nobody waits for the answer
  };
  bool hear();
  void on_reply(const Reply& reply);
  void on_hello(const Result<void>& said);
  void settle(Ticket ticket, const Result<void>& said, uint16_t port);
  void put(RequestType type, const Service& service, Ticket ticket = 0);
  void flush();
  void lose();
  void give_up(const Error& error);
  void tell_again();
  void explain(const std::string& text);
  Service* find(const Service& service);

  std::string name_;
  uint64_t token_;
  uint8_t slot_;
  link::Fd connection_;
  int64_t next_try_ms_ = 0;  // while there is no connection
  bool given_up_ = false;    // no broker knows this process any more
  uint32_t hello_ = 0;       // sequence of the kManage that has no answer yet
  Ticket next_ticket_ = 0;
  std::vector<Service> services_;  // as the broker should know them
  std::map<Ticket, Asked> asked_;
  std::deque<Unsent> unsent_;
  std::deque<MadMessage> waiting_;  // heard and not shown yet
  std::vector<std::string> explanations_;
};

}  // namespace verbena::broker
