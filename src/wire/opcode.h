// The one place that knows an opcode: which extension headers follow the BTH in which order, where
// it stands in its message, and whether payload follows. Everything else (lengths, parsing,
// emitting, the engine's checks, the traces) is derived from this table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::wire {

// Bits 7:5 of the opcode byte (IBA 9.2.1).
enum class Transport : uint8_t { kRc = 0, kUc = 1, kRd = 2, kUd = 3, kCnp = 4, kXrc = 5 };

enum class Operation : uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kFlush,
  kAtomicWrite,
  kCnp,
};

enum class Header : uint8_t {
  kNone,
  kReth,
  kAtomicEth,
  kAeth,
  kAtomicAckEth,
  kImmDt,
  kIeth,
  kDeth,
  kXrcEth,
  kFeth,
};

// The whole opcode byte. Reliable datagram opcodes (0x40) are not spoken and so not named.
enum class Opcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle,
  kRcSendLast,
  kRcSendLastImm,
  kRcSendOnly,
  kRcSendOnlyImm,
  kRcWriteFirst,
  kRcWriteMiddle,
  kRcWriteLast,
  kRcWriteLastImm,
  kRcWriteOnly,
  kRcWriteOnlyImm,
  kRcReadRequest,
  kRcReadResponseFirst,
  kRcReadResponseMiddle,
  kRcReadResponseLast,
  kRcReadResponseOnly,
  kRcAcknowledge,
  kRcAtomicAcknowledge,
  kRcCompareSwap,
  kRcFetchAdd,
  kRcSendLastInv = 0x16,
  kRcSendOnlyInv,
  kRcFlush = 0x1c,
  kRcAtomicWrite,

  kUcSendFirst = 0x20,
  kUcSendMiddle,
  kUcSendLast,
  kUcSendLastImm,
  kUcSendOnly,
  kUcSendOnlyImm,
  kUcWriteFirst,
  kUcWriteMiddle,
  kUcWriteLast,
  kUcWriteLastImm,
  kUcWriteOnly,
  kUcWriteOnlyImm,

  kUdSendOnly = 0x64,
  kUdSendOnlyImm,

  kCnp = 0x81,  // RoCE v2 congestion notification packet (IBA A17.9.3)

  kXrcSendFirst = 0xa0,
  kXrcSendMiddle,
  kXrcSendLast,
  kXrcSendLastImm,
  kXrcSendOnly,
  kXrcSendOnlyImm,
  kXrcWriteFirst,
  kXrcWriteMiddle,
  kXrcWriteLast,
  kXrcWriteLastImm,
  kXrcWriteOnly,
  kXrcWriteOnlyImm,
  kXrcReadRequest,
  kXrcReadResponseFirst,
  kXrcReadResponseMiddle,
  kXrcReadResponseLast,
  kXrcReadResponseOnly,
  kXrcAcknowledge,
  kXrcAtomicAcknowledge,
  kXrcCompareSwap,
  kXrcFetchAdd,
  kXrcSendLastInv = 0xb6,
  kXrcSendOnlyInv,
  kXrcFlush = 0xbc,
  kXrcAtomicWrite,
};

inline constexpr size_t kBthBytes = 12;
inline constexpr size_t kIcrcBytes = 4;
inline constexpr size_t kCnpReservedBytes = 16;  // zero bytes behind a CNP's BTH
inline constexpr size_t kMaxExtensions = 3;      // XRCETH, RETH and ImmDt at once

constexpr size_t header_bytes(Header header) {
  switch (header) {
    case Header::kNone:
      return 0;
    case Header::kReth:
      return 16;
    case Header::kAtomicEth:
      return 28;
    case Header::kAtomicAckEth:
    case Header::kDeth:
      return 8;
    case Header::kAeth:
    case Header::kImmDt:
    case Header::kIeth:
    case Header::kXrcEth:
    case Header::kFeth:
      return 4;
  }
  return 0;
}

struct OpcodeInfo {
  bool known = false;
  Transport transport{};
  Operation operation{};
  // Place in the message: exactly one is set; a message of one packet (requests without payload,
  // acknowledgements and CNP too) is `only`.
  bool first = false;
  bool middle = false;
  bool last = false;
  bool only = false;
  bool immediate = false;
  bool invalidate = false;
  bool response = false;     // goes from responder to requester
  bool has_payload = false;  // bytes may follow the headers
  uint8_t header_count = 0;
  uint8_t header_length = 0;                     // BTH and extension headers, bytes
  std::array<Header, kMaxExtensions> headers{};  // in wire order, header_count of them
  std::array<char, 32> name_chars{};             // ends with 0

  constexpr std::string_view name() const { return name_chars.data(); }
  constexpr bool begins_message() const { return first || only; }
  constexpr bool ends_message() const { return last || only; }
  constexpr bool has(Header header) const {
    for (size_t i = 0; i < header_count; ++i) {
      if (headers[i] == header) return true;
    }
    return false;
  }
};

namespace detail {

enum Place : uint8_t { kFirst, kMiddle, kLast, kOnly };
enum Traits : uint8_t { kPlain = 0, kPayload = 1, kResponse = 2 };

struct OperationRow {  // one of the 32 operations of a connected transport
  uint8_t code;
  const char* name;
  Operation operation;
  Place place;
  uint8_t traits;
  Header headers[2];
};

// IBA table 38; headers and lengths as in spec crib section 2.
inline constexpr OperationRow kOperations[] = {
    {0x00, "SEND_FIRST", Operation::kSend, kFirst, kPayload, {}},
    {0x01, "SEND_MIDDLE", Operation::kSend, kMiddle, kPayload, {}},
    {0x02, "SEND_LAST", Operation::kSend, kLast, kPayload, {}},
    {0x03, "SEND_LAST_IMM", Operation::kSend, kLast, kPayload, {Header::kImmDt}},
    {0x04, "SEND_ONLY", Operation::kSend, kOnly, kPayload, {}},
    {0x05, "SEND_ONLY_IMM", Operation::kSend, kOnly, kPayload, {Header::kImmDt}},
    {0x06, "WRITE_FIRST", Operation::kWrite, kFirst, kPayload, {Header::kReth}},
    {0x07, "WRITE_MIDDLE", Operation::kWrite, kMiddle, kPayload, {}},
    {0x08, "WRITE_LAST", Operation::kWrite, kLast, kPayload, {}},
    {0x09, "WRITE_LAST_IMM", Operation::kWrite, kLast, kPayload, {Header::kImmDt}},
    {0x0a, "WRITE_ONLY", Operation::kWrite, kOnly, kPayload, {Header::kReth}},
    {0x0b, "WRITE_ONLY_IMM", Operation::kWrite, kOnly, kPayload, {Header::kReth, Header::kImmDt}},
    {0x0c, "READ_REQUEST", Operation::kReadRequest, kOnly, kPlain, {Header::kReth}},
    {0x0d,
     "READ_RESPONSE_FIRST",
     Operation::kReadResponse,
     kFirst,
     kPayload | kResponse,
     {Header::kAeth}},
    {0x0e, "READ_RESPONSE_MIDDLE", Operation::kReadResponse, kMiddle, kPayload | kResponse, {}},
    {0x0f,
     "READ_RESPONSE_LAST",
     Operation::kReadResponse,
     kLast,
     kPayload | kResponse,
     {Header::kAeth}},
    {0x10,
     "READ_RESPONSE_ONLY",
     Operation::kReadResponse,
     kOnly,
     kPayload | kResponse,
     {Header::kAeth}},
    {0x11, "ACKNOWLEDGE", Operation::kAcknowledge, kOnly, kResponse, {Header::kAeth}},
    {0x12,
     "ATOMIC_ACKNOWLEDGE",
     Operation::kAtomicAcknowledge,
     kOnly,
     kResponse,
     {Header::kAeth, Header::kAtomicAckEth}},
    {0x13, "COMPARE_SWAP", Operation::kCompareSwap, kOnly, kPlain, {Header::kAtomicEth}},
    {0x14, "FETCH_ADD", Operation::kFetchAdd, kOnly, kPlain, {Header::kAtomicEth}},
    {0x16, "SEND_LAST_INV", Operation::kSend, kLast, kPayload, {Header::kIeth}},
    {0x17, "SEND_ONLY_INV", Operation::kSend, kOnly, kPayload, {Header::kIeth}},
    {0x1c, "FLUSH", Operation::kFlush, kOnly, kPlain, {Header::kFeth, Header::kReth}},
    {0x1d, "ATOMIC_WRITE", Operation::kAtomicWrite, kOnly, kPayload, {Header::kReth}},
};

constexpr void add_header(OpcodeInfo& info, Header header) {
  if (header == Header::kNone) return;
  info.headers[info.header_count++] = header;
  info.header_length = static_cast<uint8_t>(info.header_length + header_bytes(header));
  info.immediate |= header == Header::kImmDt;
  info.invalidate |= header == Header::kIeth;
}

constexpr void set_name(OpcodeInfo& info, const char* transport, const char* operation) {
  size_t at = 0;
  for (; *transport; ++transport) info.name_chars[at++] = *transport;
  for (; *operation; ++operation) info.name_chars[at++] = *operation;
}

constexpr OpcodeInfo describe(Transport transport, const char* prefix, const OperationRow& row) {
  OpcodeInfo info;
  info.known = true;
  info.transport = transport;
  info.operation = row.operation;
  info.first = row.place == kFirst;
  info.middle = row.place == kMiddle;
  info.last = row.place == kLast;
  info.only = row.place == kOnly;
  info.response = (row.traits & kResponse) != 0;
  info.has_payload = (row.traits & kPayload) != 0;
  info.header_length = kBthBytes;
  if (transport == Transport::kXrc && !info.response) add_header(info, Header::kXrcEth);
  if (transport == Transport::kUd) add_header(info, Header::kDeth);
  for (Header header : row.headers) add_header(info, header);
  set_name(info, prefix, row.name);
  return info;
}

constexpr std::array<OpcodeInfo, 256> build_opcodes() {
  std::array<OpcodeInfo, 256> table{};
  for (const OperationRow& row : kOperations) {
    table[0x00 + row.code] = describe(Transport::kRc, "RC_", row);
    table[0xa0 + row.code] = describe(Transport::kXrc, "XRC_", row);
    if (row.code <= 0x0b) table[0x20 + row.code] = describe(Transport::kUc, "UC_", row);
    if (row.code == 0x04 || row.code == 0x05) {
      table[0x60 + row.code] = describe(Transport::kUd, "UD_", row);
    }
  }
  constexpr OperationRow kCnpRow = {0x01, "CNP", Operation::kCnp, kOnly, kPayload, {}};
  table[0x81] = describe(Transport::kCnp, "", kCnpRow);
  return table;
}

}  // namespace detail

inline constexpr std::array<OpcodeInfo, 256> kOpcodes = detail::build_opcodes();

constexpr const OpcodeInfo& opcode_info(uint8_t opcode) {
  return kOpcodes[opcode];
}
constexpr const OpcodeInfo& opcode_info(Opcode opcode) {
  return kOpcodes[static_cast<uint8_t>(opcode)];
}

// `operation` is bits 4:0 of an opcode byte. The result may be unknown; opcode_info() tells.
constexpr Opcode make_opcode(Transport transport, uint8_t operation) {
  return static_cast<Opcode>(static_cast<uint8_t>(transport) << 5 | (operation & 0x1f));
}
// The same operation in another transport, e.g. RC_SEND_ONLY as UC_SEND_ONLY.
constexpr Opcode make_opcode(Transport transport, Opcode like) {
  return make_opcode(transport, static_cast<uint8_t>(like));
}

}  // namespace verbena::wire
