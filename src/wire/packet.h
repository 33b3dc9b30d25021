// What one RDMA packet means, in host byte order: the value that every room passes on.
// `wire` turns bytes into it (parse) and it into bytes (emit); the engine sees nothing else, so a
// packet that came over UDP, a same-host ring or a simulated fabric looks the same to it.
#pragma once

#include <cstdint>
#include <span>

#include "base/psn.h"
#include "wire/opcode.h"

namespace verbena::wire {

struct Reth {        // RDMA extended transport header
  uint64_t address;  // remote virtual address
  uint32_t rkey;
  uint32_t length;  // bytes of the whole message
};
struct AtomicEth {
  uint64_t address;
  uint32_t rkey;
  uint64_t swap_add;
  uint64_t compare;
};
struct Aeth {
  uint8_t syndrome;  // spec crib 5: type in bits 7:5, value in bits 4:0
  uint32_t msn;      // 24 bits
};
struct Deth {
  uint32_t qkey;
  uint32_t source_qpn;  // 24 bits
};
struct Feth {           // FLUSH extended transport header (IBA A19)
  uint8_t placement;    // bit 0 global visibility, bit 1 persistence
  uint8_t selectivity;  // 0 range, 1 whole region
};

// Extension fields hold a value exactly when opcode_info(opcode) lists their header; else zero.
struct Packet {
  Opcode opcode{};
  bool solicited = false;
  bool mig_req = true;  // sent 1 (queue pairs here never leave MIGRATED); both accepted
  bool fecn = false;
  bool becn = false;
  bool ack_request = false;
  uint8_t pad_count = 0;  // 0..3 pad bytes behind the payload on the wire
  uint8_t transport_version = 0;
  uint16_t pkey = 0xffff;
  // The 7 bits behind AckReq, which the standard reserves: sent 0 and ignored, except in a NAK
  // between ends that have agreed on selective repeat (decision 0008).
  uint8_t missing_behind = 0;
  uint32_t dest_qpn = 0;  // 24 bits
  Psn psn;

  Reth reth{};
  AtomicEth atomic{};
  Aeth aeth{};
  uint64_t atomic_original = 0;  // AtomicAckETH
  uint32_t immediate_be = 0;     // as on the wire: the consumer gets network order
  uint32_t invalidate_rkey = 0;  // IETH
  Deth deth{};
  uint32_t xrc_srqn = 0;  // XRCETH, 24 bits
  Feth feth{};
};

// Why a buffer is no packet. Every value has a counter; none has another effect.
enum class ParseError : uint8_t {
  kNone,
  kTooShort,       // shorter than BTH + ICRC, or than the headers its opcode lists
  kUnknownOpcode,  // opcode not in the table (checked before any length arithmetic)
  kBadVersion,     // BTH transport version is not 0
  kBadPadding,     // pad count larger than the payload holds
  kBadQpn,         // destination QP 0 (subnet management, not on RoCE)
};

struct Parsed {
  ParseError error = ParseError::kTooShort;
  Packet packet;
  std::span<const uint8_t> payload;  // without pad and ICRC; points into the given bytes
};

// Reads `bytes` = BTH .. ICRC (a UDP payload). Never reads outside it; the ICRC value itself is
// checked by icrc.h. IBA 9.2; header order per opcode from opcode.h.
Parsed parse(std::span<const uint8_t> bytes);

inline constexpr size_t kMaxHeaderBytes = 64;  // BTH and the longest list of extension headers

// Writes BTH and extension headers to `to` (at least kMaxHeaderBytes) and returns their length.
// Payload, pad (pad_count zero bytes) and ICRC follow on the wire; the link adds them.
size_t emit_headers(const Packet& packet, uint8_t* to);

}  // namespace verbena::wire
