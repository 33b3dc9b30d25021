// Ethernet, IP, UDP, packet, ICRC: put together with the codecs that the wire uses.
#include "link/pcap_lens.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/pcap.h"

namespace verbena::link {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr uint16_t kShownSourcePort = 0xc000;

// Locally administered, from the address, so that both directions agree.
void put_mac(uint8_t* to, const engine::Gid& gid) {
  to[0] = 0x02;
  to[1] = 0x56;
  std::memcpy(to + 2, &gid.bytes[12], 4);
}

int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void put_ip(uint8_t* to, const engine::Gid& source, const engine::Gid& destination,
            const wire::DatagramHeaders& headers, uint16_t udp_payload) {
  if (source.is_ipv4()) {
    wire::emit_ipv4_udp(std::span<uint8_t, wire::kIpv4UdpBytes>(to, wire::kIpv4UdpBytes),
                        std::span<const uint8_t, 4>(&source.bytes[12], 4),
                        std::span<const uint8_t, 4>(&destination.bytes[12], 4), headers,
                        udp_payload);
  } else {
    wire::emit_ipv6_udp(std::span<uint8_t, wire::kIpv6UdpBytes>(to, wire::kIpv6UdpBytes),
                        std::span<const uint8_t, 16>(source.bytes),
                        std::span<const uint8_t, 16>(destination.bytes), headers, udp_payload);
  }
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
  const bool ipv4 = source.is_ipv4();
  const uint32_t shown = payload.length <= kCapturedPayload ? payload.length : kCapturedPayload;
  const uint32_t pad = shown == payload.length ? header.pad_count : 0;
  const size_t ip_at = wire::kPcapRecordHeaderBytes + kEthernetBytes;
  const size_t bth_at = ip_at + (ipv4 ? wire::kIpv4UdpBytes : wire::kIpv6UdpBytes);
  std::vector<uint8_t> record(bth_at + wire::kMaxHeaderBytes + shown + pad + wire::kIcrcBytes);
  const size_t header_bytes = wire::emit_headers(header, record.data() + bth_at);
  record.resize(bth_at + header_bytes + shown + pad + wire::kIcrcBytes);
  std::fill(record.begin() + static_cast<ptrdiff_t>(bth_at + header_bytes), record.end(), 0);
  if (!payload.copy_out(0, record.data() + bth_at + header_bytes, shown)) {
    ++failed_;
    return;
  }
  wire::DatagramHeaders headers;
  headers.source_port = kShownSourcePort;
  headers.traffic_class = traffic_class;
  headers.hop_limit = hop_limit;
  put_ip(record.data() + ip_at, source, destination, headers,
         static_cast<uint16_t>(record.size() - bth_at));
  uint8_t* ethernet = record.data() + wire::kPcapRecordHeaderBytes;
  put_mac(ethernet, destination);
  put_mac(ethernet + 6, source);
  ethernet[12] = ipv4 ? 0x08 : 0x86;
  ethernet[13] = ipv4 ? 0x00 : 0xdd;
  auto frame = wire::parse_ip({record.data() + ip_at, record.size() - ip_at});
  if (frame) {
    wire::icrc_store(record.data() + record.size() - wire::kIcrcBytes, wire::icrc_of(*frame));
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
