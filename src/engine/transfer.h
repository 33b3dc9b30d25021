// The two faces of the engine toward links: what transmit() hands out and what receive() takes.
#pragma once

#include <cstdint>

#include "engine/address.h"
#include "memory/payload.h"
#include "wire/packet.h"

namespace verbena::engine {

struct Telemetry;

// One packet leaving. Everything it points to stays valid during PacketSink::send(); when
// `by_reference` is true the payload bytes also stay unchanged until the peer acknowledges (RC
// requests) or fetches them (READ responses): a same-host link may pass addresses, the wire may
// point at them until its next flush.
struct TxPacket {
  wire::Packet header;
  const AddressVector* route = nullptr;
  Path path = Path::kWire;
  memory::Payload payload;
  bool by_reference = false;
  // Of a reliable queue pair: code 1..5. The local road carries more per packet, but keeps to what
  // two ends that disagree would meet on the wire. 0: as long as the packet is.
  uint8_t path_mtu = 0;
  uint32_t source_qpn = 0;  // the sending queue pair (entropy for the UDP source port)
  uint32_t region_key = 0;  // READ responses: key of the region the bytes lie in, else 0
  // Acknowledgements: what the acknowledged packet collected on its way. Null where nobody asks.
  const Telemetry* telemetry = nullptr;
};

class PacketSink {
 public:
  virtual ~PacketSink() = default;
  // Takes the packet, or refuses it because the road is full (the engine offers it again at the
  // next transmit()). Never fails otherwise: losses are the road's business.
  virtual bool send(const TxPacket& packet) = 0;
};

// One packet arriving, already parsed, ICRC already checked.
struct RxPacket {
  wire::Packet header;
  memory::Payload payload;
  Gid source;
  Gid destination;
  Path path = Path::kWire;    // kWire or kLocal
  uint8_t path_mtu = 0;       // kLocal: the sender's, as in TxPacket
  uint8_t traffic_class = 0;  // IPv4 TOS / IPv6 traffic class, with the ECN bits
  uint8_t hop_limit = 64;
  bool multicast = false;
  // What this packet collected or, an acknowledgement, brings back.
  const Telemetry* telemetry = nullptr;
};

}  // namespace verbena::engine
