// Writes a capture with one packet of every opcode Verbena knows, over IPv4 and over IPv6, and to
// standard output what a dissector should say of each: tshark_test.py compares.
//   emit_opcodes FILE.pcap
// Line: name opcode pad dest_qpn psn rkey va length qkey source_qpn immediate original msn icrc
#include <cstdio>
#include <fstream>
#include <span>
#include <vector>

#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/pcap.h"

namespace verbena::wire {
namespace {

constexpr size_t kPayloadBytes = 37;

Packet packet_of(Opcode opcode, uint32_t number) {
  const OpcodeInfo& info = opcode_info(opcode);
  Packet packet;
  packet.opcode = opcode;
  packet.dest_qpn = 0x110000 + number;
  packet.psn = Psn(0xfffff0 + number);
  packet.becn = info.operation == Operation::kCnp;
  packet.reth = {uint64_t{0x7f0011220000} + number, 0x1234 + number, kPayloadBytes};
  packet.atomic = {0x7f0033440008, 0x4321 + number, 5, 6};
  packet.aeth = {0x1f, 0x220000 + number};
  packet.atomic_original = 0x0123456789abcdef;
  packet.immediate_be = 0x44332211;
  packet.invalidate_rkey = 0x55aa;
  packet.deth = {0x11111111, 0x330000 + number};
  packet.xrc_srqn = 0x440000;
  packet.feth = {1, 0};
  return packet;
}

std::vector<uint8_t> payload_of(const OpcodeInfo& info) {
  if (info.operation == Operation::kCnp) return std::vector<uint8_t>(kCnpReservedBytes, 0);
  if (info.operation == Operation::kAtomicWrite) return std::vector<uint8_t>(8, 0xf5);
  // Starts with a byte pair that no EtherType or upper protocol claims.
  return std::vector<uint8_t>(info.has_payload ? kPayloadBytes : 0, 0xf5);
}

std::vector<uint8_t> ip_headers(bool ipv6, uint16_t length) {
  const DatagramHeaders headers = {.source_port = 0xc123, .traffic_class = 0x02};
  if (ipv6) {
    const uint8_t source[16] = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    const uint8_t destination[16] = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    std::vector<uint8_t> bytes(kIpv6UdpBytes);
    emit_ipv6_udp(std::span(bytes).first<kIpv6UdpBytes>(), source, destination, headers, length);
    return bytes;
  }
  const uint8_t source[4] = {10, 77, 0, 2};
  const uint8_t destination[4] = {10, 77, 0, 1};
  std::vector<uint8_t> bytes(kIpv4UdpBytes);
  emit_ipv4_udp(std::span(bytes).first<kIpv4UdpBytes>(), source, destination, headers, length);
  return bytes;
}

std::vector<uint8_t> frame_of(Packet& packet, bool ipv6) {
  const std::vector<uint8_t> payload = payload_of(opcode_info(packet.opcode));
  packet.pad_count = static_cast<uint8_t>(-payload.size() & 3);
  uint8_t headers[kMaxHeaderBytes];
  const size_t header_length = emit_headers(packet, headers);
  const size_t length = header_length + payload.size() + packet.pad_count + kIcrcBytes;
  std::vector<uint8_t> bytes(sizeof(EthernetHeader));
  store(bytes.data(),
        EthernetHeader{
            {2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4});
  const std::vector<uint8_t> ip = ip_headers(ipv6, static_cast<uint16_t>(length));
  bytes.insert(bytes.end(), ip.begin(), ip.end());
  bytes.insert(bytes.end(), headers, headers + header_length);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.insert(bytes.end(), packet.pad_count + kIcrcBytes, uint8_t{0});
  const auto frame = parse_ethernet(bytes);
  if (frame) icrc_store(bytes.data() + bytes.size() - kIcrcBytes, icrc_of(*frame));
  return bytes;
}

void print_expected(const Packet& packet, uint32_t icrc) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const auto number = [](bool present, uint64_t value) {
    if (present) {
      std::printf(" %llu", static_cast<unsigned long long>(value));
    } else {
      std::printf(" -");
    }
  };
  const bool reth = info.has(Header::kReth);
  const bool atomic = info.has(Header::kAtomicEth);
  std::printf("%s", info.name_chars.data());
  number(true, static_cast<uint8_t>(packet.opcode));
  number(true, packet.pad_count);
  number(true, packet.dest_qpn);
  number(true, packet.psn.value());
  number(reth || atomic, reth ? packet.reth.rkey : packet.atomic.rkey);
  number(reth || atomic, reth ? packet.reth.address : packet.atomic.address);
  number(reth, packet.reth.length);
  number(info.has(Header::kDeth), packet.deth.qkey);
  number(info.has(Header::kDeth), packet.deth.source_qpn);
  number(info.immediate, byteswap32(packet.immediate_be));
  number(info.has(Header::kAtomicAckEth), packet.atomic_original);
  number(info.has(Header::kAeth), packet.aeth.msn);
  number(true, byteswap32(icrc));
  std::printf("\n");
}

int write_capture(const char* path) {
  std::ofstream out(path, std::ios::binary);
  const auto put = [&out](std::span<const uint8_t> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  };
  uint8_t file_header[kPcapFileHeaderBytes];
  emit_pcap_file_header(file_header, kLinkTypeEthernet);
  put(file_header);
  uint32_t number = 0;
  for (bool ipv6 : {false, true}) {
    for (int i = 0; i < 256; ++i) {
      if (!opcode_info(static_cast<uint8_t>(i)).known) continue;
      Packet packet = packet_of(static_cast<Opcode>(i), number);
      const std::vector<uint8_t> frame = frame_of(packet, ipv6);
      uint8_t record_header[kPcapRecordHeaderBytes];
      emit_pcap_record_header(record_header, int64_t{1000} * number,
                              static_cast<uint32_t>(frame.size()),
                              static_cast<uint32_t>(frame.size()));
      put(record_header);
      put(frame);
      print_expected(packet, icrc_load(frame.data() + frame.size() - kIcrcBytes));
      ++number;
    }
  }
  return out.good() ? 0 : 1;
}

}  // namespace
}  // namespace verbena::wire

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return verbena::wire::write_capture(argv[1]);
}
