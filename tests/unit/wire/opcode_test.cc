// The opcode table against figures written down independently of it.
#include "wire/opcode.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Opcode, NamesAndPlaces) {
  EXPECT_EQ(opcode_info(Opcode::kRcSendFirst).name(), "RC_SEND_FIRST");
  EXPECT_EQ(opcode_info(Opcode::kUcWriteOnlyImm).name(), "UC_WRITE_ONLY_IMM");
  EXPECT_EQ(opcode_info(Opcode::kUdSendOnlyImm).name(), "UD_SEND_ONLY_IMM");
  EXPECT_EQ(opcode_info(Opcode::kXrcReadResponseMiddle).name(), "XRC_READ_RESPONSE_MIDDLE");
  EXPECT_EQ(opcode_info(Opcode::kCnp).name(), "CNP");
  EXPECT_TRUE(opcode_info(Opcode::kRcSendFirst).begins_message());
  EXPECT_FALSE(opcode_info(Opcode::kRcSendFirst).ends_message());
  EXPECT_TRUE(opcode_info(Opcode::kRcWriteLastImm).ends_message());
  EXPECT_TRUE(opcode_info(Opcode::kRcReadRequest).only);
}

TEST(Opcode, HeadersInWireOrder) {
  const OpcodeInfo& flush = opcode_info(Opcode::kRcFlush);
  ASSERT_EQ(flush.header_count, 2);
  EXPECT_EQ(flush.headers[0], Header::kFeth);
  EXPECT_EQ(flush.headers[1], Header::kReth);
  const OpcodeInfo& xrc = opcode_info(Opcode::kXrcWriteOnlyImm);
  ASSERT_EQ(xrc.header_count, 3);
  EXPECT_EQ(xrc.headers[0], Header::kXrcEth);
  EXPECT_EQ(xrc.headers[1], Header::kReth);
  EXPECT_EQ(xrc.headers[2], Header::kImmDt);
  EXPECT_FALSE(opcode_info(Opcode::kXrcReadResponseFirst).has(Header::kXrcEth));
  EXPECT_EQ(opcode_info(Opcode::kUdSendOnlyImm).headers[0], Header::kDeth);
  EXPECT_EQ(opcode_info(Opcode::kUdSendOnlyImm).headers[1], Header::kImmDt);
}

TEST(Opcode, Traits) {
  for (int i = 0; i < 256; ++i) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(i));
    if (!info.known) continue;
    EXPECT_EQ(info.immediate, info.has(Header::kImmDt)) << i;
    EXPECT_EQ(info.invalidate, info.has(Header::kIeth)) << i;
    EXPECT_EQ(static_cast<int>(info.transport), i >> 5) << i;
    size_t length = kBthBytes;
    for (size_t h = 0; h < info.header_count; ++h) length += header_bytes(info.headers[h]);
    EXPECT_EQ(info.header_length, length) << i;
  }
  EXPECT_FALSE(opcode_info(Opcode::kRcAcknowledge).has_payload);
  EXPECT_TRUE(opcode_info(Opcode::kRcAcknowledge).response);
  EXPECT_FALSE(opcode_info(Opcode::kRcReadRequest).response);
  EXPECT_TRUE(opcode_info(Opcode::kRcAtomicWrite).has_payload);
}

TEST(Opcode, MakeOpcode) {
  EXPECT_EQ(make_opcode(Transport::kXrc, Opcode::kRcAtomicWrite), Opcode::kXrcAtomicWrite);
  EXPECT_EQ(make_opcode(Transport::kUd, 0x04), Opcode::kUdSendOnly);
  EXPECT_FALSE(opcode_info(make_opcode(Transport::kUc, Opcode::kRcReadRequest)).known);
}

}  // namespace
}  // namespace verbena::wire
