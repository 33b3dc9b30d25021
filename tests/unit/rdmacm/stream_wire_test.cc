// The rsocket protocol's bytes as librdmacm writes them, and what is refused of a peer's.
#include "rdmacm/stream_wire.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena::rdmacm {
namespace {

Greeting greeting() {
  Greeting out;
  out.credits = 384;
  out.mappings = 1;
  out.board = Range{0x1122334455667788, 0xa1a2a3a4, 2};
  out.buffer = Range{0x99aabbccddeeff00, 0xb1b2b3b4, 65536};
  return out;
}

std::vector<uint8_t> bytes_of(const Greeting& greeting) {
  std::vector<uint8_t> out(sizeof greeting);
  std::memcpy(out.data(), &greeting, sizeof greeting);
  return out;
}

TEST(StreamWire, AGreetingIsInNetworkOrder) {
  const std::vector<uint8_t> expected = {
      1,    2,    0x01, 0x80, 0,    0,    0,    1,  // version .. mappings
      0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xa1, 0xa2, 0xa3, 0xa4,  // the board
      0,    0,    0,    2,                                                     // of two ranges
      0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00, 0xb1, 0xb2, 0xb3, 0xb4,  // the buffer
      0,    1,    0,    0};
  EXPECT_EQ(bytes_of(greeting()), expected);
}

TEST(StreamWire, AGreetingIsReadFromPaddedPrivateData) {
  std::vector<uint8_t> data = bytes_of(greeting());
  data.resize(56);
  const auto read = parse_greeting(data);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->credits, 384);
  EXPECT_EQ(read->board.get().address, 0x1122334455667788u);
  EXPECT_EQ(read->buffer.get().key, 0xb1b2b3b4u);
  EXPECT_EQ(read->buffer.get().length, 65536u);
}

TEST(StreamWire, WhatCannotBeAnsweredIsRefused) {
  const auto refused = [](auto change) {
    Greeting changed = greeting();
    change(changed);
    return !parse_greeting(bytes_of(changed));
  };
  EXPECT_FALSE(refused([](Greeting&) {}));
  EXPECT_TRUE(refused([](Greeting& g) { g.version = 2; }));
  EXPECT_TRUE(refused([](Greeting& g) { g.credits = 0; }));
  EXPECT_TRUE(refused([](Greeting& g) { g.board.length = 0; })) << "nowhere to offer ranges";
  EXPECT_TRUE(refused([](Greeting& g) { g.buffer.length = 0; }));
  std::vector<uint8_t> cut = bytes_of(greeting());
  cut.pop_back();
  EXPECT_FALSE(parse_greeting(cut));
  EXPECT_FALSE(parse_greeting({}));
}

TEST(StreamWire, NumbersInEightBits) {
  for (uint32_t number : {0u, 1u, 127u, 128u}) EXPECT_EQ(unscaled(scaled(number)), number);
  EXPECT_EQ(unscaled(scaled(255)), 128u) << "steps of 256 from there on";
  EXPECT_EQ(unscaled(scaled(256)), 256u);
  EXPECT_EQ(unscaled(scaled(1000)), 768u);
  EXPECT_EQ(unscaled(scaled(32767)), 32512u);
  EXPECT_EQ(unscaled(scaled(0xffffffff)), 32512u);
}

TEST(StreamWire, Words) {
  EXPECT_EQ(word(Kind::kData, 70000), 70000u);
  EXPECT_EQ(word(Kind::kCredits, 384), 0x80000180u);
  EXPECT_EQ(word(Kind::kMapped, 3), 0xc0000003u);
  EXPECT_EQ(word(Kind::kControl, kShutdown), 0xe0000002u);
  EXPECT_EQ(kind_of(0xe0000002), Kind::kControl);
  EXPECT_EQ(number_of(0xc0000003), 3u);
}

TEST(StreamWire, AMappingCoversItsRangeOnly) {
  const Mapping mapping{100, {0x5000, 7, 50}};
  EXPECT_FALSE(mapping.from(99));
  EXPECT_EQ(mapping.from(100)->address, 0x5000u);
  EXPECT_EQ(mapping.from(100)->length, 50u);
  EXPECT_EQ(mapping.from(149)->address, 0x5031u);
  EXPECT_EQ(mapping.from(149)->length, 1u);
  EXPECT_FALSE(mapping.from(150));
  const Mapping last{UINT64_MAX - 9, {0x5000, 7, 50}};  // its end lies beyond 2^64
  EXPECT_EQ(last.from(UINT64_MAX)->length, 41u);
  EXPECT_FALSE(last.from(0));
  EXPECT_FALSE(Mapping{}.from(0)) << "an empty one covers nothing";
}

TEST(StreamWire, SwappedEntries) {
  const Mapping mapping = swapped(Mapping{1, {2, 3, 4}});
  EXPECT_EQ(mapping.offset, 0x0100000000000000u);
  EXPECT_EQ(mapping.range.address, 0x0200000000000000u);
  EXPECT_EQ(mapping.range.key, 0x03000000u);
  EXPECT_EQ(mapping.range.length, 0x04000000u);
  EXPECT_EQ(mapping_place(2, 3), 2u * 16 + 3u * 24);
}

}  // namespace
}  // namespace verbena::rdmacm
