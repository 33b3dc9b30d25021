// Wire headers as structs of endian integers: they lie on any buffer at any alignment, and the
// compiler holds their sizes to the standards' figures. Flags are masks, never bit-fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/endian.h"

namespace verbena::wire {

inline constexpr uint16_t kRoceUdpPort = 4791;  // IANA roce
inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeRoceV1 = 0x8915;
inline constexpr uint8_t kIpProtocolUdp = 17;
inline constexpr uint8_t kGrhNextHeaderIba = 0x1b;

struct EthernetHeader {
  uint8_t destination[6];
  uint8_t source[6];
  be16 ether_type;
};

struct VlanHeader {  // IEEE 802.1Q, follows the addresses
  be16 tag;          // priority 15:13, drop eligible 12, VLAN id 11:0
  be16 ether_type;
};

struct Ipv4Header {        // RFC 791, without options
  uint8_t version_length;  // 0x45
  uint8_t tos;             // DSCP 7:2, ECN 1:0
  be16 total_length;       // header and data, bytes
  be16 identification;
  be16 fragment;  // kDontFragment, kMoreFragments, offset 12:0
  uint8_t ttl;
  uint8_t protocol;
  be16 checksum;
  uint8_t source[4];
  uint8_t destination[4];

  static constexpr uint16_t kDontFragment = 0x4000;
  static constexpr uint16_t kMoreFragments = 0x2000;
};

struct Ipv6Header {         // RFC 8200; also the GRH (IBA 8.3)
  be32 version_class_flow;  // version 31:28, traffic class 27:20, flow label 19:0
  be16 payload_length;      // bytes behind this header
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t source[16];
  uint8_t destination[16];
};

struct UdpHeader {  // RFC 768
  be16 source_port;
  be16 destination_port;
  be16 length;  // header and data, bytes
  be16 checksum;
};

struct Bth {  // IBA 9.2
  uint8_t opcode;
  uint8_t flags;
  be16 pkey;
  uint8_t congestion;
  be24 dest_qpn;
  uint8_t ack;
  be24 psn;

  static constexpr uint8_t kSolicited = 0x80;  // in flags
  static constexpr uint8_t kMigReq = 0x40;
  static constexpr uint8_t kPadMask = 0x30;
  static constexpr uint8_t kPadShift = 4;
  static constexpr uint8_t kVersionMask = 0x0f;
  static constexpr uint8_t kFecn = 0x80;  // in congestion
  static constexpr uint8_t kBecn = 0x40;
  static constexpr uint8_t kAckRequest = 0x80;  // in ack
  static constexpr uint8_t kReservedMask = 0x7f;
};

struct RethWire {  // IBA 9.3.3
  be64 address;
  be32 rkey;
  be32 length;
};
struct AtomicEthWire {  // IBA 9.3.4
  be64 address;
  be32 rkey;
  be64 swap_add;
  be64 compare;
};
struct AethWire {  // IBA 9.3.5
  uint8_t syndrome;
  be24 msn;
};
struct AtomicAckEthWire {  // IBA 9.5.3
  be64 original;
};
struct ImmDtWire {
  uint8_t bytes[4];  // handed to the consumer as they are
};
struct IethWire {
  be32 rkey;
};
struct DethWire {  // IBA 9.3.2
  be32 qkey;
  uint8_t reserved;
  be24 source_qpn;
};
struct XrcEthWire {
  uint8_t reserved;
  be24 srqn;
};
struct FethWire {  // IBA A19: placement type 3:0, selectivity level 5:4
  be32 bits;
};

static_assert(sizeof(EthernetHeader) == 14 && alignof(EthernetHeader) == 1);
static_assert(sizeof(VlanHeader) == 4 && alignof(VlanHeader) == 1);
static_assert(sizeof(Ipv4Header) == 20 && alignof(Ipv4Header) == 1);
static_assert(sizeof(Ipv6Header) == 40 && alignof(Ipv6Header) == 1);
static_assert(sizeof(UdpHeader) == 8 && alignof(UdpHeader) == 1);
inline constexpr size_t kUdpHeaderBytes = sizeof(UdpHeader);
inline constexpr size_t kIpv4UdpHeaderBytes = sizeof(Ipv4Header) + sizeof(UdpHeader);
static_assert(sizeof(Bth) == 12 && alignof(Bth) == 1);
static_assert(sizeof(RethWire) == 16 && alignof(RethWire) == 1);
static_assert(sizeof(AtomicEthWire) == 28 && alignof(AtomicEthWire) == 1);
static_assert(sizeof(AethWire) == 4 && alignof(AethWire) == 1);
static_assert(sizeof(AtomicAckEthWire) == 8 && alignof(AtomicAckEthWire) == 1);
static_assert(sizeof(ImmDtWire) == 4 && alignof(ImmDtWire) == 1);
static_assert(sizeof(IethWire) == 4 && alignof(IethWire) == 1);
static_assert(sizeof(DethWire) == 8 && alignof(DethWire) == 1);
static_assert(sizeof(XrcEthWire) == 4 && alignof(XrcEthWire) == 1);
static_assert(sizeof(FethWire) == 4 && alignof(FethWire) == 1);

// Copies a header out of / into a buffer; the caller has checked that it fits.
template <typename H>
H load(const uint8_t* from) {
  H header;
  std::memcpy(&header, from, sizeof(H));
  return header;
}
template <typename H>
uint8_t* store(uint8_t* to, const H& header) {
  std::memcpy(to, &header, sizeof(H));
  return to + sizeof(H);
}

// RFC 1071 sum over an IPv4 header whose checksum field is 0 (or, to verify, must give 0).
inline uint16_t ipv4_checksum(const Ipv4Header& header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < sizeof(header); i += 2) {
    sum += load<be16>(reinterpret_cast<const uint8_t*>(&header) + i);
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum += sum >> 16;
  return static_cast<uint16_t>(~sum);
}

// The 20-bit flow label that a path gets when the application gives none (symmetric in the two
// queue pair numbers), and the UDP source port 0xC000..0xFFFF that carries a flow label.
// IBA A17.9.2 leaves the hash open; this is the kernel's (ib_verbs.h). Only the simulator
// chooses ports by it: the UDP link has one port of that range for all it sends.
constexpr uint32_t flow_label_of(uint32_t local_qpn, uint32_t remote_qpn) {
  uint64_t v = uint64_t{local_qpn} * remote_qpn;
  v ^= v >> 20;
  v ^= v >> 40;
  return static_cast<uint32_t>(v & 0xfffff);
}
// `flow_label` 0 means that none was given.
constexpr uint16_t udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn) {
  uint32_t fl = flow_label & 0xfffff;
  if (fl == 0) fl = flow_label_of(local_qpn, remote_qpn);
  return static_cast<uint16_t>(((fl & 0x3fff) ^ (fl >> 14)) | 0xc000);
}

}  // namespace verbena::wire
