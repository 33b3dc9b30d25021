// Both directions, field by field; the second one believes nothing.
#include "link/packet_image.h"

namespace verbena::link {
namespace {

enum Flags : uint8_t { kSolicited = 1, kMigReq = 2, kFecn = 4, kBecn = 8, kAckRequest = 16 };

constexpr uint32_t k24Bits = 0xffffff;

}  // namespace

PacketImage image_of(const wire::Packet& packet) {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.opcode);
  const bool atomic = info.has(wire::Header::kAtomicEth);
  PacketImage image{};
  image.opcode = static_cast<uint8_t>(packet.opcode);
  image.flags =
      static_cast<uint8_t>((packet.solicited ? kSolicited : 0) | (packet.mig_req ? kMigReq : 0) |
                           (packet.fecn ? kFecn : 0) | (packet.becn ? kBecn : 0) |
                           (packet.ack_request ? kAckRequest : 0));
  image.pad_count = packet.pad_count;
  image.pkey = packet.pkey;
  image.dest_qpn = packet.dest_qpn;
  image.psn = packet.psn.value();
  image.address = atomic ? packet.atomic.address : packet.reth.address;
  image.rkey = atomic ? packet.atomic.rkey : packet.reth.rkey;
  image.length = packet.reth.length;
  image.swap_add = packet.atomic.swap_add;
  image.compare = packet.atomic.compare;
  image.syndrome = packet.aeth.syndrome;
  image.msn = packet.aeth.msn;
  image.atomic_original = packet.atomic_original;
  image.immediate_be = packet.immediate_be;
  image.invalidate_rkey = packet.invalidate_rkey;
  image.qkey = packet.deth.qkey;
  image.source_qpn = packet.deth.source_qpn;
  image.xrc_srqn = packet.xrc_srqn;
  image.placement = packet.feth.placement;
  image.selectivity = packet.feth.selectivity;
  return image;
}

bool packet_of(const PacketImage& image, wire::Packet& to) {
  using wire::Header;
  const wire::OpcodeInfo& info = wire::opcode_info(image.opcode);
  if (!info.known) return false;
  to = wire::Packet{};
  to.opcode = static_cast<wire::Opcode>(image.opcode);
  to.solicited = (image.flags & kSolicited) != 0;
  to.mig_req = (image.flags & kMigReq) != 0;
  to.fecn = (image.flags & kFecn) != 0;
  to.becn = (image.flags & kBecn) != 0;
  to.ack_request = (image.flags & kAckRequest) != 0;
  to.pad_count = image.pad_count & 3;
  to.pkey = image.pkey;
  to.dest_qpn = image.dest_qpn & k24Bits;
  to.psn = Psn(image.psn);
  for (uint8_t i = 0; i < info.header_count; ++i) {
    switch (info.headers[i]) {
      case Header::kNone:
        break;
      case Header::kReth:
        to.reth = {image.address, image.rkey, image.length};
        break;
      case Header::kAtomicEth:
        to.atomic = {image.address, image.rkey, image.swap_add, image.compare};
        break;
      case Header::kAeth:
        to.aeth = {image.syndrome, image.msn & k24Bits};
        break;
      case Header::kAtomicAckEth:
        to.atomic_original = image.atomic_original;
        break;
      case Header::kImmDt:
        to.immediate_be = image.immediate_be;
        break;
      case Header::kIeth:
        to.invalidate_rkey = image.invalidate_rkey;
        break;
      case Header::kDeth:
        to.deth = {image.qkey, image.source_qpn & k24Bits};
        break;
      case Header::kXrcEth:
        to.xrc_srqn = image.xrc_srqn & k24Bits;
        break;
      case Header::kFeth:
        to.feth = {static_cast<uint8_t>(image.placement & 0xf),
                   static_cast<uint8_t>(image.selectivity & 0x3)};
        break;
    }
  }
  return true;
}

}  // namespace verbena::link
