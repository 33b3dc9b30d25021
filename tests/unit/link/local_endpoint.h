// A process's end of the local link on a real lease, and messages whose bytes say whether they
// arrived whole.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "broker/client.h"
#include "link/local_link.h"

namespace verbena::link {

inline uint8_t byte_at(uint64_t seed, size_t index) {
  return static_cast<uint8_t>((seed * 131 + index * 7 + (index >> 8)) & 0xff);
}

struct Endpoint {
  std::unique_ptr<broker::Lease> lease;
  std::unique_ptr<LocalLink> link;
  explicit Endpoint(bool local = true) {
    broker::AttachOptions options;
    options.broker_path = VERBENA_BROKER_PATH;
    options.local = local;
    auto attached = broker::attach(options);
    if (!attached) {
      std::fprintf(stderr, "%s\n", attached.error().message.c_str());
      std::abort();
    }
    lease = std::move(*attached);
    link = std::make_unique<LocalLink>(*lease, lease->segment().local, lease->slot(),
                                       lease->generation(), lease->wakeup());
  }
  uint8_t slot() const { return lease->slot(); }
  uint32_t qpn() const { return make_qpn(slot(), 0x11); }
};

struct Message {
  std::vector<uint8_t> bytes;
  std::vector<memory::Segment> segments;
  engine::AddressVector route;
  engine::TxPacket packet;

  Message(uint8_t slot, uint64_t seed, size_t length, bool by_reference) : bytes(length) {
    for (size_t i = 0; i < length; ++i) bytes[i] = byte_at(seed, i);
    packet.header.opcode = wire::Opcode::kRcSendOnly;
    packet.header.dest_qpn = make_qpn(slot, 0x11);
    packet.header.psn = Psn(static_cast<uint32_t>(seed));
    packet.source_qpn = 0x11;
    packet.by_reference = by_reference;
    packet.path = engine::Path::kLocal;
    packet.payload.length = static_cast<uint32_t>(length);
    route.source.bytes[15] = 1;
    route.destination.bytes[15] = 2;
    route.traffic_class = 0x62;
    segments = {{bytes.data(), length}};
  }
  const engine::TxPacket& get() {
    packet.route = &route;
    packet.payload.segments = segments;
    return packet;
  }
};

// "ok" when the packet's payload is that of byte_at(psn), else what is wrong.
inline std::string judge(const engine::RxPacket& packet, size_t length) {
  if (packet.payload.length != length) return "length " + std::to_string(packet.payload.length);
  std::vector<uint8_t> got(length);
  if (!packet.payload.copy_out(0, got.data(), length)) return "lost";
  for (size_t i = 0; i < length; ++i) {
    if (got[i] != byte_at(packet.header.psn.value(), i)) return "byte " + std::to_string(i);
  }
  return "ok";
}

}  // namespace verbena::link
