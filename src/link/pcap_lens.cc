// One record for each packet, in one write.
#include "link/pcap_lens.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "link/roce_frame.h"
#include "wire/pcap.h"

namespace verbena::link {
namespace {

constexpr uint16_t kShownSourcePort = 0xc000;

int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::string capture_path(std::string name) {
  for (size_t at; (at = name.find("%p")) != std::string::npos;)
    name.replace(at, 2, std::to_string(::getpid()));
  return name;
}

Result<PcapWriter> PcapWriter::open(const std::string& given) {
  const std::string name = capture_path(given);
  PcapWriter out;
  out.file_.reset(  // not blocking: a FIFO without a reader is refused, not waited for
      ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!out.file_.valid()) {
    return fail(errno, "cannot open the capture file " + name + ": " + std::strerror(errno));
  }
  // Whoever comes first writes the file header.
  ::flock(out.file_.get(), LOCK_EX);
  ssize_t n = wire::kPcapFileHeaderBytes;
  if (::lseek(out.file_.get(), 0, SEEK_END) == 0) {
    uint8_t header[wire::kPcapFileHeaderBytes];
    wire::emit_pcap_file_header(header, wire::kLinkTypeEthernet);
    n = ::write(out.file_.get(), header, sizeof(header));
  }
  ::flock(out.file_.get(), LOCK_UN);
  if (n != static_cast<ssize_t>(wire::kPcapFileHeaderBytes)) {
    return fail(ENOSPC, "cannot write the capture file " + name);
  }
  return out;
}

void PcapWriter::write(const wire::Packet& header, const memory::Payload& payload,
                       const engine::Gid& source, const engine::Gid& destination,
                       uint8_t traffic_class, uint8_t hop_limit) {
  const uint32_t shown = payload.length <= kCapturedPayload ? payload.length : kCapturedPayload;
  wire::DatagramHeaders headers;
  headers.source_port = kShownSourcePort;
  headers.traffic_class = traffic_class;
  headers.hop_limit = hop_limit;
  std::vector<uint8_t> record(wire::kPcapRecordHeaderBytes);
  if (!append_frame(record, header, payload, shown, source, destination, headers)) {
    ++failed_;
    return;
  }
  const uint32_t bytes = static_cast<uint32_t>(record.size() - wire::kPcapRecordHeaderBytes);
  wire::emit_pcap_record_header(
      std::span<uint8_t, wire::kPcapRecordHeaderBytes>(record.data(), wire::kPcapRecordHeaderBytes),
      now_ns(), bytes, bytes);
  bool written =
      ::write(file_.get(), record.data(), record.size()) == static_cast<ssize_t>(record.size());
  ++(written ? frames_ : failed_);
}

bool PcapLens::send(const engine::TxPacket& packet) {
  if (!below_.send(packet)) return false;
  if (packet.route) {
    writer_.write(packet.header, packet.payload, packet.route->source, packet.route->destination,
                  packet.route->traffic_class, packet.route->ttl());
  }
  return true;
}

void PcapLens::received(const engine::RxPacket& packet) {
  writer_.write(packet.header, packet.payload, packet.source, packet.destination,
                packet.traffic_class, packet.hop_limit);
}

}  // namespace verbena::link
