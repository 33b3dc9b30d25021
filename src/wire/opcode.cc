// Holds the opcode table to the specification's figures when it is compiled: a wrong row cannot
// leave the compiler.
#include "wire/opcode.h"

namespace verbena::wire {
namespace {

constexpr size_t length_of(Opcode opcode) {
  return opcode_info(opcode).header_length;
}

constexpr size_t count_known() {
  size_t known = 0;
  for (const OpcodeInfo& info : kOpcodes) known += info.known;
  return known;
}

constexpr bool one_place_each() {
  for (const OpcodeInfo& info : kOpcodes) {
    if (info.first + info.middle + info.last + info.only != info.known) return false;
  }
  return true;
}

// BTH and extension headers in bytes, spec crib section 2.
static_assert(length_of(Opcode::kRcSendFirst) == 12);
static_assert(length_of(Opcode::kRcSendMiddle) == 12);
static_assert(length_of(Opcode::kRcSendLast) == 12);
static_assert(length_of(Opcode::kRcSendLastImm) == 16);
static_assert(length_of(Opcode::kRcSendOnly) == 12);
static_assert(length_of(Opcode::kRcSendOnlyImm) == 16);
static_assert(length_of(Opcode::kRcWriteFirst) == 28);
static_assert(length_of(Opcode::kRcWriteMiddle) == 12);
static_assert(length_of(Opcode::kRcWriteLast) == 12);
static_assert(length_of(Opcode::kRcWriteLastImm) == 16);
static_assert(length_of(Opcode::kRcWriteOnly) == 28);
static_assert(length_of(Opcode::kRcWriteOnlyImm) == 32);
static_assert(length_of(Opcode::kRcReadRequest) == 28);
static_assert(length_of(Opcode::kRcReadResponseFirst) == 16);
static_assert(length_of(Opcode::kRcReadResponseMiddle) == 12);
static_assert(length_of(Opcode::kRcReadResponseLast) == 16);
static_assert(length_of(Opcode::kRcReadResponseOnly) == 16);
static_assert(length_of(Opcode::kRcAcknowledge) == 16);
static_assert(length_of(Opcode::kRcAtomicAcknowledge) == 24);
static_assert(length_of(Opcode::kRcCompareSwap) == 40);
static_assert(length_of(Opcode::kRcFetchAdd) == 40);
static_assert(length_of(Opcode::kRcSendLastInv) == 16);
static_assert(length_of(Opcode::kRcSendOnlyInv) == 16);
static_assert(length_of(Opcode::kRcFlush) == 32);
static_assert(length_of(Opcode::kRcAtomicWrite) == 28);
static_assert(length_of(Opcode::kUcWriteOnlyImm) == 32);
static_assert(length_of(Opcode::kUdSendOnly) == 20);
static_assert(length_of(Opcode::kUdSendOnlyImm) == 24);
static_assert(length_of(Opcode::kCnp) == 12);
static_assert(length_of(Opcode::kXrcSendOnly) == 16);
static_assert(length_of(Opcode::kXrcWriteOnlyImm) == 36);
static_assert(length_of(Opcode::kXrcFetchAdd) == 44);
static_assert(length_of(Opcode::kXrcAcknowledge) == 16);

static_assert(static_cast<uint8_t>(Opcode::kRcFetchAdd) == 0x14);
static_assert(static_cast<uint8_t>(Opcode::kRcAtomicWrite) == 0x1d);
static_assert(static_cast<uint8_t>(Opcode::kUcWriteOnlyImm) == 0x2b);
static_assert(static_cast<uint8_t>(Opcode::kXrcFetchAdd) == 0xb4);
static_assert(static_cast<uint8_t>(Opcode::kXrcAtomicWrite) == 0xbd);
static_assert(make_opcode(Transport::kUc, Opcode::kRcSendOnly) == Opcode::kUcSendOnly);

static_assert(count_known() == 25 + 12 + 2 + 1 + 25);
static_assert(one_place_each());
static_assert(!opcode_info(uint8_t{0x15}).known && !opcode_info(uint8_t{0x2c}).known);
static_assert(!opcode_info(uint8_t{0x44}).known && !opcode_info(uint8_t{0xe0}).known);

}  // namespace
}  // namespace verbena::wire
