// Queue pair 1 of this host: management datagrams come to slot 0's sockets, which the broker holds,
// and leave for the process they mean. What nobody here answers for, the broker answers.
#pragma once

#include <deque>
#include <memory>

#include "base/psn.h"
#include "base/result.h"
#include "broker/ports.h"
#include "broker/protocol.h"
#include "broker/slot_sockets.h"
#include "cm/management_packet.h"
#include "cm/manager.h"
#include "link/function_ref.h"
#include "link/udp_link.h"

namespace verbena::broker {

class Management {
 public:
  static Result<std::unique_ptr<Management>> open(const SlotSockets& zero, uint16_t port);

  // Shows every management datagram that waits, with where it belongs, and hears what became of it:
  // the peer of one that nobody is there for is told.
  enum class Fate : uint8_t { kTaken, kNobody, kNobodyYet };
  using Deliver = link::FunctionRef<Fate(const cm::Destination&, const MadMessage&)>;
  void receive(Deliver deliver);
  // Those for whom nobody is there yet wait a moment. Tries them again, and answers those that
  // waited too long. Returns after how many ms to come again; -1: none waits.
  int look_again(int64_t now_ms, Deliver deliver);

  // A datagram of the broker's own, on behalf of a process that has gone.
  void send(const cm::Route& route, std::span<const uint8_t, cm::kMadBytes> mad) {
    cm::send_mad(*udp_, route, mad, psn_);
  }
  void flush() { udp_->flush(); }

 private:
  Management() = default;
  struct Held {
    int64_t until_ms = 0;  // 0: not looked at yet
    cm::Destination to;
    MadMessage message;
  };
  void on_packet(const engine::RxPacket& packet, Deliver deliver);
  void answer(const MadMessage& message);

  std::unique_ptr<link::UdpLink> udp_;
  Psn psn_;
  std::deque<Held> held_;
};

}  // namespace verbena::broker
