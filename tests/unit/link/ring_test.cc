// The shared ring: order, wrapping, fullness, and positions or records that cannot be true.
#include "link/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "link/packet_image.h"

namespace verbena::link {
namespace {

bool put(RingWriter& writer, std::vector<uint8_t> bytes, uint32_t kind = 1) {
  uint32_t total = static_cast<uint32_t>(sizeof(RecordHeader) + bytes.size());
  uint8_t* at = writer.reserve(total);
  if (!at) return false;
  RecordHeader header{(total + 7) & ~7u, kind};
  std::memcpy(at, &header, sizeof(header));
  if (!bytes.empty()) std::memcpy(at + sizeof(header), bytes.data(), bytes.size());
  writer.commit();
  return true;
}

TEST(Ring, KeepsOrderThroughManyWraps) {
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  Prng prng(3);
  std::deque<std::vector<uint8_t>> expected;
  uint64_t read = 0;
  for (int step = 0; step < 20000; ++step) {
    std::vector<uint8_t> bytes(prng.below(9000) & ~7ull, static_cast<uint8_t>(step));
    if (put(writer, bytes)) expected.push_back(bytes);
    if (prng.chance_ppm(500'000)) continue;
    for (uint64_t n = prng.below(4); n > 0 && !expected.empty(); --n) {
      uint32_t kind = 0;
      std::span<uint8_t> got = reader.next(kind);
      ASSERT_TRUE(
          std::equal(got.begin(), got.end(), expected.front().begin(), expected.front().end()));
      expected.pop_front();
      reader.pop();
      ++read;
    }
    reader.publish();
  }
  EXPECT_GT(read, 5000u);
  EXPECT_EQ(reader.resets(), 0u);
}

TEST(Ring, FullUntilTheReaderPublishes) {
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  int count = 0;
  while (put(writer, std::vector<uint8_t>(8184))) ++count;
  EXPECT_EQ(count, 32);
  uint32_t kind = 0;
  ASSERT_EQ(reader.next(kind).size(), 8184u);
  reader.pop();
  EXPECT_FALSE(put(writer, std::vector<uint8_t>(8184)));
  reader.publish();
  EXPECT_TRUE(put(writer, std::vector<uint8_t>(8184)));
  EXPECT_FALSE(put(writer, std::vector<uint8_t>(8)));
}

TEST(Ring, ASuccessorContinuesWhereTheDeadStopped) {
  auto ring = std::make_unique<Ring>();
  RingReader reader(*ring);
  {
    RingWriter first(*ring);
    ASSERT_TRUE(put(first, {1, 1, 1, 1, 1, 1, 1, 1}));
    uint8_t* half = first.reserve(64);  // dies while it writes
    std::memset(half, 0xff, 64);
  }
  RingWriter second(*ring);
  ASSERT_TRUE(put(second, {2, 2, 2, 2, 2, 2, 2, 2}));
  uint32_t kind = 0;
  for (uint8_t expected : {1, 2}) {
    std::span<uint8_t> got = reader.next(kind);
    ASSERT_EQ(got.size(), 8u);
    EXPECT_EQ(got[0], expected);
    reader.pop();
  }
  EXPECT_TRUE(reader.next(kind).empty());
  EXPECT_EQ(reader.resets(), 0u);
}

TEST(Ring, AWriterThatOnlySkipsGetsNoMoreTimeThanOthers) {
  auto ring = std::make_unique<Ring>();
  RingReader reader(*ring);
  RecordHeader skip{sizeof(RecordHeader), static_cast<uint32_t>(RecordKind::kSkip)};
  for (size_t i = 0; i < 100; ++i) std::memcpy(ring->bytes + i * sizeof(skip), &skip, sizeof(skip));
  ring->tail.store(100 * sizeof(skip));
  uint32_t kind = 0;
  EXPECT_TRUE(reader.next(kind).empty());
  reader.publish();
  EXPECT_EQ(ring->head.load(), 2 * sizeof(skip));
  EXPECT_FALSE(reader.empty());
}

TEST(Ring, ImpossiblePositionsAreNeverFollowed) {
  for (uint64_t tail :
       {uint64_t{1}, uint64_t{kRingBytes} + 8, ~uint64_t{0}, ~uint64_t{7}, uint64_t{1} << 63}) {
    auto ring = std::make_unique<Ring>();
    RingReader reader(*ring);
    ring->tail.store(tail);
    uint32_t kind = 0;
    EXPECT_TRUE(reader.next(kind).empty());
    EXPECT_EQ(reader.resets(), 1u);
    RingWriter writer(*ring);  // a new owner gets through
    ASSERT_TRUE(put(writer, {5, 5, 5, 5, 5, 5, 5, 5}));
    std::span<uint8_t> got = reader.next(kind);
    ASSERT_EQ(got.size(), 8u) << tail;
    EXPECT_EQ(got[0], 5);
  }
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  ring->head.store(uint64_t{1} << 40);  // the reader claims to be ahead
  while (put(writer, std::vector<uint8_t>(1016))) {
  }
  EXPECT_EQ(ring->tail.load(), kRingBytes);
}

TEST(Ring, RandomContentsNeverLeadOutside) {
  Prng prng(11);
  auto ring = std::make_unique<Ring>();
  RingReader reader(*ring);
  uint64_t records = 0;
  for (int round = 0; round < 3000; ++round) {
    for (int i = 0; i < 64; ++i) {
      RecordHeader header{static_cast<uint32_t>(prng.below(1000)) * (prng.below(2) ? 8 : 1),
                          static_cast<uint32_t>(prng.below(4))};
      if (prng.below(8) == 0) header.bytes = static_cast<uint32_t>(prng.next());
      std::memcpy(ring->bytes + prng.below(kRingBytes / 8) * 8, &header, sizeof(header));
    }
    uint64_t step = prng.below(kRingBytes + 64);
    ring->tail.store(ring->head.load() + (prng.below(4) ? step & ~7ull : step));
    for (int n = 0; n < 200; ++n) {
      uint32_t kind = 0;
      std::span<uint8_t> got = reader.next(kind);
      if (got.empty()) break;
      ASSERT_GE(got.data(), ring->bytes);
      ASSERT_LE(got.data() + got.size(), ring->bytes + kRingBytes);
      reader.pop();
      ++records;
    }
    reader.publish();
  }
  EXPECT_GT(records, 1000u);
  EXPECT_GT(reader.resets(), 100u);
}

TEST(PacketImage, KeepsExactlyTheFieldsOfItsOpcode) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    PacketImage hostile;
    std::memset(&hostile, 0xff, sizeof(hostile));
    hostile.opcode = static_cast<uint8_t>(opcode);
    wire::Packet packet;
    bool known = wire::opcode_info(static_cast<uint8_t>(opcode)).known;
    ASSERT_EQ(packet_of(hostile, packet), known);
    if (!known) continue;
    EXPECT_EQ(packet.dest_qpn, 0xffffffu);
    EXPECT_EQ(packet.pad_count, 3);
    // The wire is the second opinion: what emit writes, parse reads, and the image keeps.
    uint8_t bytes[wire::kMaxHeaderBytes + 16 + 3 + 4] = {};
    size_t n = wire::emit_headers(packet, bytes);
    wire::Parsed parsed = wire::parse({bytes, n + 16 + 3 + 4});
    ASSERT_EQ(parsed.error, wire::ParseError::kNone) << opcode;
    PacketImage kept = image_of(packet), reread = image_of(parsed.packet);
    EXPECT_EQ(std::memcmp(&kept, &reread, sizeof(kept)), 0) << opcode;
    wire::Packet again;
    ASSERT_TRUE(packet_of(kept, again));
    PacketImage twice = image_of(again);
    EXPECT_EQ(std::memcmp(&kept, &twice, sizeof(kept)), 0) << opcode;
  }
}

}  // namespace
}  // namespace verbena::link
