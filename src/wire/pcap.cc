// Reads and writes pcap headers; lengths in a file are not trusted.
#include "wire/pcap.h"

#include <cstring>

#include "base/endian.h"

namespace verbena::wire {
namespace {

constexpr uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr uint32_t kMagicNanoseconds = 0xa1b23c4d;

void put(uint8_t* to, uint32_t value) {
  std::memcpy(to, &value, 4);
}

}  // namespace

PcapReader::PcapReader(std::span<const uint8_t> file) : file_(file) {
  if (file_.size() < kPcapFileHeaderBytes) return;
  for (bool swapped : {false, true}) {
    swapped_ = swapped;
    const uint32_t magic = word(0);
    if (magic != kMagicMicroseconds && magic != kMagicNanoseconds) continue;
    nanoseconds_ = magic == kMagicNanoseconds;
    link_type_ = word(20) & 0xffff;  // the upper half holds FCS hints
    valid_ = true;
    return;
  }
}

uint32_t PcapReader::word(size_t at) const {
  uint32_t value;
  std::memcpy(&value, file_.data() + at, 4);
  return swapped_ ? byteswap32(value) : value;
}

std::optional<PcapRecord> PcapReader::next() {
  if (!valid_ || file_.size() - at_ < kPcapRecordHeaderBytes) return std::nullopt;
  const uint32_t captured = word(at_ + 8);
  if (captured > kPcapSnapLength || captured > file_.size() - at_ - kPcapRecordHeaderBytes) {
    return std::nullopt;
  }
  PcapRecord record;
  const int64_t fraction = word(at_ + 4);
  record.time_ns = int64_t{word(at_)} * 1'000'000'000 + fraction * (nanoseconds_ ? 1 : 1000);
  record.original_length = word(at_ + 12);
  record.data = file_.subspan(at_ + kPcapRecordHeaderBytes, captured);
  at_ += kPcapRecordHeaderBytes + captured;
  return record;
}

void emit_pcap_file_header(std::span<uint8_t, kPcapFileHeaderBytes> to, uint32_t link_type) {
  put(&to[0], kMagicNanoseconds);
  put(&to[4], 2 | 4 << 16);  // version 2.4: two 16-bit numbers
  put(&to[8], 0);
  put(&to[12], 0);
  put(&to[16], kPcapSnapLength);
  put(&to[20], link_type);
}

void emit_pcap_record_header(std::span<uint8_t, kPcapRecordHeaderBytes> to, int64_t time_ns,
                             uint32_t captured, uint32_t original_length) {
  put(&to[0], static_cast<uint32_t>(time_ns / 1'000'000'000));
  put(&to[4], static_cast<uint32_t>(time_ns % 1'000'000'000));
  put(&to[8], captured);
  put(&to[12], original_length);
}

}  // namespace verbena::wire
