// A broker and its standby died together (docs/decisions/0002-warm-standby.md). Their sockets are
// gone with them and the kernel has moved the others into the holes, but each process still has its
// own, and knows its slot. A new broker asks them all for what they have before it begins.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "broker/custody.h"
#include "broker/protocol.h"

namespace verbena::broker {

// What one process hands over.
struct Claim {
  link::Fd connection;
  Request request;  // kReclaim
  uint32_t generation = 0;
  LeaseRow row;  // without its pidfd
  SlotSockets sockets;
};

class Restoration {
 public:
  // `listener` is the new broker's, whose clients are heard here first.
  Restoration(int listener, uint16_t port) : listener_(listener), port_(port) {}

  // Hears clients for at most `wait_ms`. Requests that are no claims stay unread.
  void listen(int wait_ms);
  bool begun() const { return !claims_.empty(); }
  // Whether every socket on the port has been handed over: from now on no death of their owners
  // changes the order of the groups.
  bool complete() const;
  // Why it is not: EADDRINUSE with the names of those who still have some of the sockets.
  Error missing() const;
  // Answers all who wait with the error and hangs up.
  void refuse_all(const Error& error);

  std::vector<Claim>& claims() { return claims_; }
  std::vector<link::Fd>& others() { return others_; }  // clients with another request, or none yet

 private:
  void accept_all();
  bool hear(link::Fd& connection);  // false: nothing was said yet
  void take_claim(link::Fd connection);
  std::set<uint64_t> handed_over() const;  // inodes

  int listener_;
  uint16_t port_;
  std::vector<link::Fd> unheard_, others_;
  std::vector<Claim> claims_;
};

}  // namespace verbena::broker
