// Reads and writes the transport headers of one packet as the opcode table lists them.
#include "wire/packet.h"

#include <cstring>

#include "wire/headers.h"

namespace verbena::wire {
namespace {

void read_bth(const Bth& bth, Packet& packet) {
  packet.opcode = static_cast<Opcode>(bth.opcode);
  packet.solicited = (bth.flags & Bth::kSolicited) != 0;
  packet.mig_req = (bth.flags & Bth::kMigReq) != 0;
  packet.pad_count = (bth.flags & Bth::kPadMask) >> Bth::kPadShift;
  packet.transport_version = bth.flags & Bth::kVersionMask;
  packet.pkey = bth.pkey;
  packet.fecn = (bth.congestion & Bth::kFecn) != 0;
  packet.becn = (bth.congestion & Bth::kBecn) != 0;
  packet.dest_qpn = bth.dest_qpn;
  packet.ack_request = (bth.ack & Bth::kAckRequest) != 0;
  packet.missing_behind = bth.ack & Bth::kReservedMask;
  packet.psn = Psn(bth.psn);
}

// `at` has header_bytes(header) bytes.
void read_extension(Header header, const uint8_t* at, Packet& packet) {
  switch (header) {
    case Header::kNone:
      return;
    case Header::kReth: {
      const auto reth = load<RethWire>(at);
      packet.reth = {reth.address, reth.rkey, reth.length};
      return;
    }
    case Header::kAtomicEth: {
      const auto atomic = load<AtomicEthWire>(at);
      packet.atomic = {atomic.address, atomic.rkey, atomic.swap_add, atomic.compare};
      return;
    }
    case Header::kAeth: {
      const auto aeth = load<AethWire>(at);
      packet.aeth = {aeth.syndrome, aeth.msn};
      return;
    }
    case Header::kAtomicAckEth:
      packet.atomic_original = load<AtomicAckEthWire>(at).original;
      return;
    case Header::kImmDt:
      std::memcpy(&packet.immediate_be, at, 4);
      return;
    case Header::kIeth:
      packet.invalidate_rkey = load<IethWire>(at).rkey;
      return;
    case Header::kDeth: {
      const auto deth = load<DethWire>(at);
      packet.deth = {deth.qkey, deth.source_qpn};
      return;
    }
    case Header::kXrcEth:
      packet.xrc_srqn = load<XrcEthWire>(at).srqn;
      return;
    case Header::kFeth: {
      const uint32_t bits = load<FethWire>(at).bits;
      packet.feth = {static_cast<uint8_t>(bits & 0xf), static_cast<uint8_t>(bits >> 4 & 0x3)};
      return;
    }
  }
}

uint8_t* write_extension(Header header, const Packet& packet, uint8_t* to) {
  switch (header) {
    case Header::kNone:
      return to;
    case Header::kReth:
      return store(to, RethWire{packet.reth.address, packet.reth.rkey, packet.reth.length});
    case Header::kAtomicEth:
      return store(to, AtomicEthWire{packet.atomic.address, packet.atomic.rkey,
                                     packet.atomic.swap_add, packet.atomic.compare});
    case Header::kAeth:
      return store(to, AethWire{packet.aeth.syndrome, packet.aeth.msn});
    case Header::kAtomicAckEth:
      return store(to, AtomicAckEthWire{packet.atomic_original});
    case Header::kImmDt:
      return store(to, packet.immediate_be);
    case Header::kIeth:
      return store(to, IethWire{packet.invalidate_rkey});
    case Header::kDeth:
      return store(to, DethWire{packet.deth.qkey, 0, packet.deth.source_qpn});
    case Header::kXrcEth:
      return store(to, XrcEthWire{0, packet.xrc_srqn});
    case Header::kFeth: {
      const uint32_t bits = (packet.feth.placement & 0xfu) | (packet.feth.selectivity & 0x3u) << 4;
      return store(to, FethWire{bits});
    }
  }
  return to;
}

}  // namespace

Parsed parse(std::span<const uint8_t> bytes) {
  Parsed parsed;
  if (bytes.size() < kBthBytes + kIcrcBytes) return parsed;
  const OpcodeInfo& info = opcode_info(bytes[0]);
  const auto fail = [&parsed](ParseError error) {
    parsed.error = error;
    return parsed;
  };
  if (!info.known) return fail(ParseError::kUnknownOpcode);
  read_bth(load<Bth>(bytes.data()), parsed.packet);
  if (parsed.packet.transport_version != 0) return fail(ParseError::kBadVersion);
  if (parsed.packet.dest_qpn == 0) return fail(ParseError::kBadQpn);
  if (bytes.size() < info.header_length + kIcrcBytes) return fail(ParseError::kTooShort);

  const uint8_t* at = bytes.data() + kBthBytes;
  for (size_t i = 0; i < info.header_count; ++i) {
    read_extension(info.headers[i], at, parsed.packet);
    at += header_bytes(info.headers[i]);
  }
  const size_t behind = bytes.size() - info.header_length - kIcrcBytes;
  if (parsed.packet.pad_count > behind) return fail(ParseError::kBadPadding);
  parsed.payload = bytes.subspan(info.header_length, behind - parsed.packet.pad_count);
  parsed.error = ParseError::kNone;
  return parsed;
}

size_t emit_headers(const Packet& packet, uint8_t* to) {
  Bth bth;
  bth.opcode = static_cast<uint8_t>(packet.opcode);
  bth.flags = static_cast<uint8_t>(
      (packet.solicited ? Bth::kSolicited : 0) | (packet.mig_req ? Bth::kMigReq : 0) |
      (packet.pad_count & 3) << Bth::kPadShift | (packet.transport_version & Bth::kVersionMask));
  bth.pkey = packet.pkey;
  bth.congestion =
      static_cast<uint8_t>((packet.fecn ? Bth::kFecn : 0) | (packet.becn ? Bth::kBecn : 0));
  bth.dest_qpn = packet.dest_qpn;
  bth.ack = static_cast<uint8_t>((packet.ack_request ? Bth::kAckRequest : 0) |
                                 (packet.missing_behind & Bth::kReservedMask));
  bth.psn = packet.psn.value();
  uint8_t* at = store(to, bth);
  const OpcodeInfo& info = opcode_info(packet.opcode);
  for (size_t i = 0; i < info.header_count; ++i) at = write_extension(info.headers[i], packet, at);
  return static_cast<size_t>(at - to);
}

}  // namespace verbena::wire
