// What this process sends and receives, as a capture any dissector opens (VERBENA_PCAP): also of
// the same-host path, which no packet tool can see. Frames are made anew, with the right ICRC; the
// MAC addresses and the UDP source port are invented.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/transfer.h"
#include "link/fd.h"

namespace verbena::link {

// The file that VERBENA_PCAP=`name` means in this process: "%p" is its id.
std::string capture_path(std::string name);

// One capture file. Several processes may append to the same one: each record is one write.
class PcapWriter {
 public:
  // `given` as for capture_path(). An existing capture is continued.
  static Result<PcapWriter> open(const std::string& given);

  void write(const wire::Packet& header, const memory::Payload& payload, const engine::Gid& source,
             const engine::Gid& destination, uint8_t traffic_class, uint8_t hop_limit);
  uint64_t frames() const { return frames_; }
  uint64_t failed() const { return failed_; }  // not written: disk full, payload vanished

 private:
  Fd file_;
  uint64_t frames_ = 0;
  uint64_t failed_ = 0;
};

// Payload of longer same-host messages is cut to this many bytes in the capture (IP's length field
// has 16 bits, and nobody reads a gigabyte message byte by byte).
inline constexpr uint32_t kCapturedPayload = 4096;

class PcapLens : public engine::PacketSink {
 public:
  PcapLens(engine::PacketSink& below, PcapWriter& writer) : below_(below), writer_(writer) {}

  bool send(const engine::TxPacket& packet) override;
  // For the packets that arrive.
  void received(const engine::RxPacket& packet);

 private:
  engine::PacketSink& below_;
  PcapWriter& writer_;
};

}  // namespace verbena::link
