// pcap files written here are read back, and files that lie about lengths end quietly.
#include "wire/pcap.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::wire {
namespace {

std::vector<uint8_t> two_records() {
  std::vector<uint8_t> file(kPcapFileHeaderBytes + 2 * kPcapRecordHeaderBytes + 3 + 5);
  const std::span all(file);
  emit_pcap_file_header(all.first<kPcapFileHeaderBytes>(), kLinkTypeEthernet);
  emit_pcap_record_header(all.subspan<24, 16>(), 1'500'000'007, 3, 1000);
  file[40] = 0xaa;
  emit_pcap_record_header(all.subspan<43, 16>(), 2'000'000'000, 5, 5);
  file[59] = 0xbb;
  return file;
}

TEST(Pcap, RoundTrip) {
  const std::vector<uint8_t> file = two_records();
  PcapReader reader(file);
  ASSERT_TRUE(reader.valid());
  EXPECT_EQ(reader.link_type(), kLinkTypeEthernet);
  const auto first = reader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->time_ns, 1'500'000'007);
  EXPECT_EQ(first->data.size(), 3u);
  EXPECT_EQ(first->data[0], 0xaa);
  EXPECT_EQ(first->original_length, 1000u);
  const auto second = reader.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->data[0], 0xbb);
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.at_end());
}

TEST(Pcap, BigEndianMicroseconds) {
  const std::vector<uint8_t> file = {0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0,   0,
                                     0,    0,    0,    4,    0, 0, 0, 0, 0, 1, 0, 0, 0,   1,
                                     0,    0,    0,    2,    0, 0, 0, 1, 0, 0, 0, 1, 0x77};
  PcapReader reader(file);
  ASSERT_TRUE(reader.valid());
  const auto record = reader.next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->time_ns, 1'000'002'000);
  EXPECT_EQ(record->data[0], 0x77);
}

TEST(Pcap, CutOrLyingFiles) {
  std::vector<uint8_t> file = two_records();
  for (size_t length = 0; length < file.size(); ++length) {
    const auto cut = std::span<const uint8_t>(file).first(length);
    PcapReader reader(cut);
    int records = 0;
    while (reader.next()) ++records;
    EXPECT_LE(records, 1);
    EXPECT_EQ(reader.valid(), length >= kPcapFileHeaderBytes);
  }
  file[24 + 11] = 0xff;  // captured length 0xff000003
  PcapReader reader(file);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.at_end());
}

}  // namespace
}  // namespace verbena::wire
