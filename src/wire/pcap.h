// The classic pcap file format as bytes <-> meaning, for the pcap lens, the tests and the tools.
// No file is opened here: rooms below `host` know no files.
// Format: draft-ietf-opsawg-pcap; files of either byte order and resolution are read, little-endian
// files with nanoseconds are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::wire {

inline constexpr uint32_t kLinkTypeEthernet = 1;
inline constexpr uint32_t kLinkTypeRaw = 101;         // begins with the IPv4 or IPv6 header
inline constexpr uint32_t kLinkTypeInfiniBand = 247;  // begins with the LRH

inline constexpr size_t kPcapFileHeaderBytes = 24;
inline constexpr size_t kPcapRecordHeaderBytes = 16;
inline constexpr uint32_t kPcapSnapLength = 262144;  // longest frame of a record, bytes

struct PcapRecord {
  int64_t time_ns;                // since 1970
  std::span<const uint8_t> data;  // the captured bytes
  uint32_t original_length;       // bytes the frame had, >= data.size() unless the file lies
};

class PcapReader {
 public:
  // `file`: the whole file, which must outlive the reader and the records.
  explicit PcapReader(std::span<const uint8_t> file);

  bool valid() const { return valid_; }
  uint32_t link_type() const { return link_type_; }
  // Nothing at the end of the file, or where the next record is cut off or over the snap length.
  std::optional<PcapRecord> next();
  // True when next() stopped exactly at the end of the file.
  bool at_end() const { return valid_ && at_ == file_.size(); }

 private:
  uint32_t word(size_t at) const;

  std::span<const uint8_t> file_;
  size_t at_ = kPcapFileHeaderBytes;
  uint32_t link_type_ = 0;
  bool valid_ = false;
  bool swapped_ = false;
  bool nanoseconds_ = false;
};

void emit_pcap_file_header(std::span<uint8_t, kPcapFileHeaderBytes> to, uint32_t link_type);
// `captured` bytes of data follow the header; `time_ns` >= 0.
void emit_pcap_record_header(std::span<uint8_t, kPcapRecordHeaderBytes> to, int64_t time_ns,
                             uint32_t captured, uint32_t original_length);

}  // namespace verbena::wire
