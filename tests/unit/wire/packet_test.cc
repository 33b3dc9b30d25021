// parse and emit_headers are each other's inverse, and parse refuses what is no packet.
#include "wire/packet.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace verbena::wire {
namespace {

Packet full_packet(Opcode opcode) {
  Packet packet;
  packet.opcode = opcode;
  packet.solicited = true;
  packet.mig_req = false;
  packet.becn = true;
  packet.ack_request = true;
  packet.pad_count = 3;
  packet.pkey = 0x7fff;
  packet.dest_qpn = 0xabcdef;
  packet.psn = Psn(0x123456);
  const OpcodeInfo& info = opcode_info(opcode);
  if (info.has(Header::kReth)) packet.reth = {0x1122334455667788, 0x99aabbcc, 0x80000000};
  if (info.has(Header::kAtomicEth)) packet.atomic = {0x0102030405060708, 7, ~uint64_t{0}, 9};
  if (info.has(Header::kAeth)) packet.aeth = {0x63, 0xfffffe};
  if (info.has(Header::kAtomicAckEth)) packet.atomic_original = 0xfeedfacecafebeef;
  if (info.has(Header::kImmDt)) packet.immediate_be = 0x04030201;
  if (info.has(Header::kIeth)) packet.invalidate_rkey = 0x55667788;
  if (info.has(Header::kDeth)) packet.deth = {0x11111111, 0x222222};
  if (info.has(Header::kXrcEth)) packet.xrc_srqn = 0x333333;
  if (info.has(Header::kFeth)) packet.feth = {3, 1};
  return packet;
}

void expect_same(const Packet& a, const Packet& b) {
  EXPECT_EQ(a.opcode, b.opcode);
  EXPECT_EQ(a.solicited, b.solicited);
  EXPECT_EQ(a.mig_req, b.mig_req);
  EXPECT_EQ(a.fecn, b.fecn);
  EXPECT_EQ(a.becn, b.becn);
  EXPECT_EQ(a.ack_request, b.ack_request);
  EXPECT_EQ(a.pad_count, b.pad_count);
  EXPECT_EQ(a.pkey, b.pkey);
  EXPECT_EQ(a.dest_qpn, b.dest_qpn);
  EXPECT_EQ(a.psn, b.psn);
  EXPECT_EQ(a.reth.address, b.reth.address);
  EXPECT_EQ(a.reth.rkey, b.reth.rkey);
  EXPECT_EQ(a.reth.length, b.reth.length);
  EXPECT_EQ(a.atomic.address, b.atomic.address);
  EXPECT_EQ(a.atomic.rkey, b.atomic.rkey);
  EXPECT_EQ(a.atomic.swap_add, b.atomic.swap_add);
  EXPECT_EQ(a.atomic.compare, b.atomic.compare);
  EXPECT_EQ(a.aeth.syndrome, b.aeth.syndrome);
  EXPECT_EQ(a.aeth.msn, b.aeth.msn);
  EXPECT_EQ(a.atomic_original, b.atomic_original);
  EXPECT_EQ(a.immediate_be, b.immediate_be);
  EXPECT_EQ(a.invalidate_rkey, b.invalidate_rkey);
  EXPECT_EQ(a.deth.qkey, b.deth.qkey);
  EXPECT_EQ(a.deth.source_qpn, b.deth.source_qpn);
  EXPECT_EQ(a.xrc_srqn, b.xrc_srqn);
  EXPECT_EQ(a.feth.placement, b.feth.placement);
  EXPECT_EQ(a.feth.selectivity, b.feth.selectivity);
}

TEST(Packet, RoundTripOfEveryOpcode) {
  int seen = 0;
  for (int i = 0; i < 256; ++i) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(i));
    if (!info.known) continue;
    ++seen;
    const Packet packet = full_packet(static_cast<Opcode>(i));
    std::vector<uint8_t> bytes(kMaxHeaderBytes, 0xee);
    const size_t length = emit_headers(packet, bytes.data());
    EXPECT_EQ(length, info.header_length);
    bytes.resize(length);
    bytes.insert(bytes.end(), {1, 2, 3, 4, 5, 0, 0, 0, 0xc, 0xc, 0xc, 0xc});
    const Parsed parsed = parse(bytes);
    ASSERT_EQ(parsed.error, ParseError::kNone) << info.name();
    expect_same(parsed.packet, packet);
    ASSERT_EQ(parsed.payload.size(), 5u);
    EXPECT_EQ(parsed.payload[4], 5);
  }
  EXPECT_EQ(seen, 65);
}

TEST(Packet, BthBytesLieWhereTheStandardSays) {
  Packet packet;
  packet.opcode = Opcode::kRcSendOnly;
  packet.solicited = true;
  packet.pad_count = 2;
  packet.fecn = true;
  packet.dest_qpn = 0x010203;
  packet.ack_request = true;
  packet.psn = Psn(0x0a0b0c);
  uint8_t bytes[kMaxHeaderBytes];
  ASSERT_EQ(emit_headers(packet, bytes), 12u);
  const uint8_t expected[12] = {0x04, 0xe0, 0xff, 0xff, 0x80, 1, 2, 3, 0x80, 0xa, 0xb, 0xc};
  EXPECT_EQ(std::vector<uint8_t>(bytes, bytes + 12), std::vector<uint8_t>(expected, expected + 12));
}

std::vector<uint8_t> small_packet() {
  std::vector<uint8_t> bytes(kMaxHeaderBytes);
  bytes.resize(emit_headers(full_packet(Opcode::kRcSendOnly), bytes.data()));
  bytes.resize(bytes.size() + 8);  // one byte of payload, 3 of pad, ICRC
  return bytes;
}

TEST(Packet, RefusesWhatIsNoPacket) {
  std::vector<uint8_t> bytes = small_packet();
  EXPECT_EQ(parse(bytes).error, ParseError::kNone);
  EXPECT_EQ(parse({}).error, ParseError::kTooShort);
  EXPECT_EQ(parse(std::span(bytes).first(15)).error, ParseError::kTooShort);
  bytes[0] = 0x15;
  EXPECT_EQ(parse(bytes).error, ParseError::kUnknownOpcode);
  bytes[0] = 0x44;  // reliable datagram
  EXPECT_EQ(parse(bytes).error, ParseError::kUnknownOpcode);
  bytes = small_packet();
  bytes[1] |= 0x01;
  EXPECT_EQ(parse(bytes).error, ParseError::kBadVersion);
  bytes = small_packet();
  bytes[5] = bytes[6] = bytes[7] = 0;
  EXPECT_EQ(parse(bytes).error, ParseError::kBadQpn);
  bytes = small_packet();
  bytes.resize(bytes.size() - 2);
  EXPECT_EQ(parse(bytes).error, ParseError::kBadPadding);
  bytes[0] = 0x14;  // needs 28 bytes more
  EXPECT_EQ(parse(bytes).error, ParseError::kTooShort);
}

TEST(Packet, RandomBytesStayInside) {
  Prng prng(42);
  int good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes(prng.next() % 80);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(prng.next());
    if (bytes.size() > 1) bytes[1] &= 0xf0;
    const Parsed parsed = parse(bytes);
    if (parsed.error != ParseError::kNone) continue;
    ++good;
    const size_t total = opcode_info(parsed.packet.opcode).header_length + parsed.payload.size() +
                         parsed.packet.pad_count + kIcrcBytes;
    EXPECT_EQ(total, bytes.size());
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace verbena::wire
