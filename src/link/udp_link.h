// RoCE v2 over plain UDP sockets, without privilege: exact ICRC in both directions (design
// decision 3) and kernel batching in both directions (decision 4).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "engine/transfer.h"
#include "link/function_ref.h"
#include "link/udp_receiver.h"
#include "link/udp_sender.h"
#include "wire/headers.h"

namespace verbena::link {

struct UdpOptions {
  int udp4 = -1;  // receive sockets of the slot, borrowed; -1: none
  int udp6 = -1;
  uint8_t slot = 0;                    // packets for other slots are strays
  uint16_t port = wire::kRoceUdpPort;  // destination port; others only in tests
  bool segmentation = true;            // UDP GSO
  // Interface index a route leaves by, for link-local and multicast IPv6 destinations; 0 if
  // unknown. Called only for those.
  std::function<uint32_t(const engine::AddressVector&)> interface_of;
};

class UdpLink : public engine::PacketSink {
 public:
  // Opens the send sockets. EADDRINUSE if no port of 0xC000..0xFFFF is free; errno of socket().
  static Result<std::unique_ptr<UdpLink>> open(const UdpOptions& options);

  // Stages the packet; flush() or a full stage sends. False: the socket is full.
  bool send(const engine::TxPacket& packet) override { return sender_.send(packet); }
  // Sends what is staged. False: the socket is full and packets wait; call again soon.
  bool flush() { return sender_.flush(); }
  // Payload that staged packets point at may change now: what the socket does not take is dropped.
  void let_go() { sender_.let_go(); }
  bool blocked() const { return sender_.blocked(); }

  // Shows every packet that waits in the sockets (bounded per call) to `visit`; its payload is
  // valid during that call. `forward` gets packets of other slots and tells whether it took them.
  // `thorough` false: a polling caller, for whom a long idle socket is looked at less often.
  // Returns the number of datagrams read.
  size_t receive(UdpReceiver::Visitor visit, UdpReceiver::Forward forward, bool thorough) {
    return receiver_.receive(visit, forward, thorough);
  }

  // The next packet leaves with a wrong ICRC (fault lens).
  void spoil_next() { sender_.spoil_next(); }

  const UdpSendCounters& send_counters() const { return sender_.counters(); }
  const UdpReceiveCounters& receive_counters() const { return receiver_.counters(); }
  uint16_t source_port(bool ipv4) const { return sender_.source_port(ipv4); }

 private:
  UdpLink(UdpSender sender, UdpReceiver receiver)
      : sender_(std::move(sender)), receiver_(std::move(receiver)) {}

  UdpSender sender_;
  UdpReceiver receiver_;
};

}  // namespace verbena::link
