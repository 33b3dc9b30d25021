// Every packet of the golden captures is parsed, its ICRC recomputed, and the whole datagram
// rebuilt from its meaning: the result has to be the same bytes an independent stack sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/pcap.h"

namespace verbena::wire {
namespace {

constexpr size_t kEthernetBytes = sizeof(EthernetHeader);

struct Tally {
  int packets = 0;
  int wrong_icrc = 0;
  int refused = 0;
  int ids_found = 0;
};

std::vector<uint8_t> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// IP header to ICRC, from parsed values only.
std::vector<uint8_t> rebuild(const Frame& frame, const Parsed& parsed) {
  const size_t ip_bytes = frame.ipv6 ? kIpv6UdpBytes : kIpv4UdpBytes;
  uint8_t headers[kMaxHeaderBytes];
  const size_t header_length = emit_headers(parsed.packet, headers);
  const size_t behind = parsed.payload.size() + parsed.packet.pad_count;
  const auto length = static_cast<uint16_t>(header_length + behind + kIcrcBytes);
  std::vector<uint8_t> bytes(ip_bytes + length);
  DatagramHeaders chosen;
  chosen.source_port = frame.udp.source_port;
  if (frame.ipv6) {
    const uint32_t word = frame.ip6.version_class_flow;
    chosen.traffic_class = static_cast<uint8_t>(word >> 20);
    chosen.flow_label = word & 0xfffff;
    chosen.hop_limit = frame.ip6.hop_limit;
    emit_ipv6_udp(std::span(bytes).first<kIpv6UdpBytes>(), frame.ip6.source, frame.ip6.destination,
                  chosen, length);
  } else {
    chosen.traffic_class = frame.ip4.tos;
    chosen.hop_limit = frame.ip4.ttl;
    chosen.identification = frame.ip4.identification;
    chosen.dont_fragment = frame.ip4.fragment == Ipv4Header::kDontFragment;
    emit_ipv4_udp(std::span(bytes).first<kIpv4UdpBytes>(), frame.ip4.source, frame.ip4.destination,
                  chosen, length);
  }
  // Host programs let the kernel fill the UDP checksum; its value is not ours to judge.
  store(bytes.data() + ip_bytes - 2, frame.udp.checksum);
  uint8_t* at = bytes.data() + ip_bytes;
  std::copy_n(headers, header_length, at);
  std::copy(parsed.payload.begin(), parsed.payload.end(), at + header_length);
  uint32_t crc = frame.ipv6 ? icrc_begin_ipv6({.source = frame.ip6.source,
                                               .destination = frame.ip6.destination,
                                               .payload_length = frame.ip6.payload_length,
                                               .source_port = frame.udp.source_port})
                            : icrc_begin_ipv4({.source = frame.ip4.source,
                                               .destination = frame.ip4.destination,
                                               .total_length = frame.ip4.total_length,
                                               .identification = frame.ip4.identification,
                                               .source_port = frame.udp.source_port});
  crc = icrc_bth(crc, std::span<const uint8_t, 12>(at, 12));
  crc = icrc_update(crc, std::span(at + 12, header_length - 12));
  crc = icrc_update(crc, parsed.payload);
  crc = icrc_update(
      crc, std::span(at + header_length + parsed.payload.size(), size_t{parsed.packet.pad_count}));
  icrc_store(at + header_length + behind, crc);
  return bytes;
}

// What a UDP socket would do: compute with identification 0, then ask the solver.
void check_id(const Frame& frame, IdSolver& solver, Tally& tally) {
  Ipv4Header blank = frame.ip4;
  blank.identification = 0;
  const uint32_t computed = icrc_of_payload(icrc_begin(blank, frame.udp), frame.udp_payload);
  const auto id =
      solver.solve(computed ^ icrc_carried(frame), icrc_bytes_after_id(frame.ip4.total_length));
  ASSERT_TRUE(id);
  EXPECT_EQ(*id, frame.ip4.identification);
  ++tally.ids_found;
}

void check_frame(const PcapRecord& record, IdSolver& solver, Tally& tally) {
  const auto frame = parse_ethernet(record.data);
  ASSERT_TRUE(frame);
  ++tally.packets;
  const Parsed parsed = parse(frame->udp_payload);
  if (parsed.error == ParseError::kBadVersion) {  // made by hand to see rxe drop it
    ++tally.refused;
    return;
  }
  ASSERT_EQ(parsed.error, ParseError::kNone);
  std::vector<uint8_t> rebuilt = rebuild(*frame, parsed);
  std::vector<uint8_t> sent(record.data.begin() + kEthernetBytes, record.data.end());
  ASSERT_GE(sent.size(), rebuilt.size());
  sent.resize(rebuilt.size());  // Ethernet pads short frames
  if (icrc_of(*frame) != icrc_carried(*frame)) {
    ++tally.wrong_icrc;
    std::fill_n(sent.rbegin(), kIcrcBytes, uint8_t{0});
    std::fill_n(rebuilt.rbegin(), kIcrcBytes, uint8_t{0});
  } else if (!frame->ipv6) {
    check_id(*frame, solver, tally);
  }
  EXPECT_EQ(rebuilt, sent);
}

Tally check_folder(const std::string& folder, int wrong_per_file, int refused_per_file) {
  Tally all;
  IdSolver solver;
  for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_DIR "/" + folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::vector<uint8_t> file = read_file(entry.path());
    PcapReader reader(file);
    EXPECT_TRUE(reader.valid());
    EXPECT_EQ(reader.link_type(), kLinkTypeEthernet);
    Tally tally;
    while (const auto record = reader.next()) check_frame(*record, solver, tally);
    EXPECT_TRUE(reader.at_end());
    EXPECT_GT(tally.packets, 0);
    EXPECT_EQ(tally.wrong_icrc, wrong_per_file);
    EXPECT_EQ(tally.refused, refused_per_file);
    all.packets += tally.packets;
    all.ids_found += tally.ids_found;
  }
  return all;
}

TEST(Golden, VerbsCases) {
  const Tally tally = check_folder("rxe61", 0, 0);
  EXPECT_EQ(tally.packets, 450);
  EXPECT_EQ(tally.ids_found, 412);
}

TEST(Golden, Programs) {
  const Tally tally = check_folder("rxe61-prog", 0, 0);
  EXPECT_EQ(tally.packets, 620);
  EXPECT_EQ(tally.ids_found, 591);
}

TEST(Golden, Losses) {
  const Tally tally = check_folder("rxe61-loss", 0, 0);
  EXPECT_EQ(tally.packets, 893);
  EXPECT_EQ(tally.ids_found, 893);
}

TEST(Golden, HandMade) {
  const Tally tally = check_folder("host61", 1, 1);
  EXPECT_EQ(tally.packets, 62);
  EXPECT_EQ(tally.ids_found, 29);
}

}  // namespace
}  // namespace verbena::wire
