// The UDP link against the kernel: what leaves is what an independent reader of the wire accepts,
// and whatever arrives, right or wrong, is sorted as it should be.
#include "link/udp_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "broker/client.h"
#include "engine/verbs.h"
#include "lab.h"
#include "link/slot.h"
#include "wire/frame.h"

namespace verbena::link {
namespace {

using engine::Gid;
using engine::RxPacket;
using engine::TxPacket;
using wire::Opcode;

Gid gid(const char* text) {
  Gid out;
  in_addr four;
  if (::inet_pton(AF_INET, text, &four) == 1) {
    out.bytes[10] = out.bytes[11] = 0xff;
    std::memcpy(&out.bytes[12], &four, 4);
  } else {
    ::inet_pton(AF_INET6, text, out.bytes.data());
  }
  return out;
}

std::vector<uint8_t> pattern(size_t bytes, uint8_t first = 1) {
  std::vector<uint8_t> out(bytes);
  std::iota(out.begin(), out.end(), first);
  return out;
}

struct Outgoing {  // a TxPacket and what it points to
  std::vector<uint8_t> bytes;
  std::vector<memory::Segment> segments;
  engine::AddressVector route;
  TxPacket packet;

  Outgoing(const char* from, const char* to, uint32_t qpn, size_t length, uint32_t psn = 0,
           Opcode opcode = Opcode::kRcSendMiddle)
      : bytes(pattern(length, static_cast<uint8_t>(psn + 1))) {
    route.source = gid(from);
    route.destination = gid(to);
    packet.header.opcode = opcode;
    packet.header.dest_qpn = qpn;
    packet.header.psn = Psn(psn);
    packet.header.pad_count = static_cast<uint8_t>(-length & 3);
    packet.payload.length = static_cast<uint32_t>(length);
    packet.by_reference = true;
    packet.source_qpn = 0x010011;
    segments = {{bytes.data(), length}};
  }
  const TxPacket& get() {
    packet.route = &route;
    packet.payload.segments = segments;
    return packet;
  }
};

struct Incoming {
  wire::Packet header;
  std::vector<uint8_t> payload;
  RxPacket rest;
};

// A slot of its own and a link on it.
struct Endpoint {
  std::unique_ptr<broker::Lease> lease;
  std::unique_ptr<UdpLink> link;
  std::vector<Incoming> received;
  std::vector<uint8_t> strays;

  explicit Endpoint(bool segmentation = true) {
    broker::AttachOptions options;
    options.broker_path = VERBENA_BROKER_PATH;
    auto attached = broker::attach(options);
    EXPECT_TRUE(attached) << (attached ? "" : attached.error().message);
    lease = std::move(*attached);
    UdpOptions wanted;
    wanted.udp4 = lease->udp4();
    wanted.udp6 = lease->udp6();
    wanted.slot = lease->slot();
    wanted.segmentation = segmentation;
    wanted.interface_of = [](const engine::AddressVector&) { return ::if_nametoindex("d0"); };
    auto opened = UdpLink::open(wanted);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    link = std::move(*opened);
  }
  uint32_t qpn(uint16_t index = 0x11) const { return make_qpn(lease->slot(), index); }
  size_t receive() {
    return link->receive(
        [this](const RxPacket& packet) {
          Incoming in{packet.header, std::vector<uint8_t>(packet.payload.length), packet};
          EXPECT_TRUE(packet.payload.copy_out(0, in.payload.data(), in.payload.size()));
          received.push_back(std::move(in));
        },
        [this](uint8_t slot, const RxPacket&) {
          strays.push_back(slot);
          return true;
        },
        true);
  }
  // Receives until `count` packets came, or nothing more does.
  bool await(size_t count, int timeout_ms = 2000) {
    return lab::eventually(
        [&] {
          while (receive() != 0) {
          }
          return received.size() >= count;
        },
        timeout_ms);
  }
};

class UdpLinkTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_PRIVATE_NETWORK(); }
};

void expect_round_trip(const char* from, const char* to) {
  Endpoint a, b;
  size_t sizes[] = {0, 1, 2, 3, 4, 17, 511, 512, 513, 1024, 4096};
  uint32_t psn = 0;
  for (size_t size : sizes) {
    Outgoing out(from, to, b.qpn(), size, psn++);
    out.route.traffic_class = 0x62;
    out.route.hop_limit = 33;
    ASSERT_TRUE(a.link->send(out.get()));
    ASSERT_TRUE(a.link->flush());
  }
  ASSERT_TRUE(b.await(std::size(sizes)));
  for (size_t i = 0; i < std::size(sizes); ++i) {
    const Incoming& in = b.received[i];
    EXPECT_EQ(in.header.psn.value(), i);
    EXPECT_EQ(in.header.opcode, Opcode::kRcSendMiddle);
    EXPECT_EQ(in.header.dest_qpn, b.qpn());
    EXPECT_EQ(in.payload, pattern(sizes[i], static_cast<uint8_t>(i + 1)));
    EXPECT_EQ(in.rest.source, gid(from));
    EXPECT_EQ(in.rest.destination, gid(to));
    EXPECT_EQ(in.rest.traffic_class, 0x62);
    EXPECT_EQ(in.rest.hop_limit, 33);
    EXPECT_FALSE(in.rest.multicast);
  }
  EXPECT_EQ(b.link->receive_counters().icrc_errors, 0u);
  EXPECT_EQ(b.link->receive_counters().solved_ids, 0u);
  EXPECT_EQ(a.link->send_counters().packets, std::size(sizes));
}

TEST_F(UdpLinkTest, RoundTripIpv4) {
  expect_round_trip("127.0.0.2", "127.0.0.3");
}
TEST_F(UdpLinkTest, RoundTripIpv6) {
  expect_round_trip("::1", "::1");
}

TEST_F(UdpLinkTest, ConsecutivePacketsLeaveAsOneSegmentedMessage) {
  Endpoint a, b;
  std::vector<Outgoing> packets;
  packets.reserve(101);
  for (uint32_t psn = 0; psn < 100; ++psn) {
    packets.emplace_back("127.0.0.1", "127.0.0.1", b.qpn(), 1024, psn);
  }
  packets.emplace_back("127.0.0.1", "127.0.0.1", b.qpn(), 100, 100);  // the last may be shorter
  for (Outgoing& out : packets) ASSERT_TRUE(a.link->send(out.get()));
  ASSERT_TRUE(a.link->flush());
  // 61 packets of 1040 and 1 KiB fit 65000 bytes.
  EXPECT_EQ(a.link->send_counters().messages, 2u);
  EXPECT_EQ(a.link->send_counters().gso_batches, 2u);
  EXPECT_EQ(a.link->send_counters().calls, 1u);
  ASSERT_TRUE(b.await(101));
  for (uint32_t psn = 0; psn < 101; ++psn) {
    EXPECT_EQ(b.received[psn].header.psn.value(), psn);
    EXPECT_EQ(b.received[psn].payload, packets[psn].bytes);
  }
  EXPECT_LT(b.link->receive_counters().datagrams, 10u);
  EXPECT_EQ(b.link->receive_counters().icrc_errors, 0u);
}

TEST_F(UdpLinkTest, PayloadFromManySegments) {
  Endpoint a, b;
  Outgoing out("127.0.0.1", "127.0.0.1", b.qpn(), 4001, 7);
  out.segments.clear();
  for (size_t at = 0; at < 4001; at += 401) {
    out.segments.push_back({out.bytes.data() + at, std::min<size_t>(401, 4001 - at)});
  }
  ASSERT_TRUE(a.link->send(out.get()));
  out.segments.clear();
  for (size_t at = 0; at < 4001; ++at) out.segments.push_back({out.bytes.data() + at, 1});
  ASSERT_TRUE(a.link->send(out.get()));
  ASSERT_TRUE(a.link->flush());
  ASSERT_TRUE(b.await(2));
  EXPECT_EQ(b.received[0].payload, out.bytes);
  EXPECT_EQ(b.received[1].payload, out.bytes);
}

TEST_F(UdpLinkTest, BytesThatMayChangeAreCopied) {
  Endpoint a, b;
  Outgoing out("127.0.0.1", "127.0.0.1", b.qpn(), 2000);
  out.packet.by_reference = false;
  ASSERT_TRUE(a.link->send(out.get()));
  std::vector<uint8_t> before = out.bytes;
  std::fill(out.bytes.begin(), out.bytes.end(), 0);
  ASSERT_TRUE(a.link->flush());
  ASSERT_TRUE(b.await(1));
  EXPECT_EQ(b.received[0].payload, before);
}

TEST_F(UdpLinkTest, ASpoiledPacketIsCountedAndDropped) {
  Endpoint a, b;
  Outgoing bad("127.0.0.1", "127.0.0.1", b.qpn(), 64, 1),
      good("127.0.0.1", "127.0.0.1", b.qpn(), 64, 2);
  a.link->spoil_next();
  ASSERT_TRUE(a.link->send(bad.get()));
  ASSERT_TRUE(a.link->send(good.get()));
  ASSERT_TRUE(a.link->flush());
  ASSERT_TRUE(b.await(1));
  EXPECT_EQ(b.received.size(), 1u);
  EXPECT_EQ(b.received[0].header.psn.value(), 2u);
  EXPECT_EQ(b.link->receive_counters().icrc_errors, 1u);
}

TEST_F(UdpLinkTest, RubbishIsSortedByKind) {
  Endpoint b;
  int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  uint8_t bytes[64] = {};
  bytes[5] = b.lease->slot();
  for (size_t length : {8u, 15u, 16u, 64u}) {
    ASSERT_EQ(::sendto(socket, bytes, length, 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
              static_cast<ssize_t>(length));
  }
  ::close(socket);
  ASSERT_TRUE(lab::eventually([&] {
    b.receive();
    return b.link->receive_counters().datagrams == 4;
  }));
  EXPECT_TRUE(b.received.empty());
  EXPECT_EQ(b.link->receive_counters().icrc_errors, 2u);
  EXPECT_EQ(b.link->receive_counters().parse_errors[size_t(wire::ParseError::kTooShort)], 2u);
}

// As adapters and Linux rxe send: an identification that a UDP socket does not show.
TEST_F(UdpLinkTest, AnyIpv4IdentificationIsAccepted) {
  Endpoint b;
  int raw = ::socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (raw < 0) GTEST_SKIP() << "no raw sockets permitted";
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  uint8_t address[4] = {127, 0, 0, 1};
  for (uint16_t id : {0x0001, 0x1234, 0xffff}) {
    std::vector<uint8_t> frame(wire::kIpv4UdpBytes);
    wire::Packet packet;
    packet.opcode = Opcode::kRcSendMiddle;
    packet.dest_qpn = b.qpn();
    packet.psn = Psn(id);
    uint8_t headers[wire::kMaxHeaderBytes];
    size_t n = wire::emit_headers(packet, headers);
    frame.insert(frame.end(), headers, headers + n);
    std::vector<uint8_t> payload = pattern(256);
    frame.insert(frame.end(), payload.begin(), payload.end());
    frame.resize(frame.size() + 4);
    wire::emit_ipv4_udp(std::span<uint8_t, wire::kIpv4UdpBytes>(frame.data(), wire::kIpv4UdpBytes),
                        std::span<const uint8_t, 4>(address), std::span<const uint8_t, 4>(address),
                        {.source_port = 50000, .identification = id},
                        static_cast<uint16_t>(frame.size() - wire::kIpv4UdpBytes));
    auto parsed = wire::parse_ip(frame);
    ASSERT_TRUE(parsed);
    wire::icrc_store(frame.data() + frame.size() - 4, wire::icrc_of(*parsed));
    ASSERT_EQ(
        ::sendto(raw, frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
        static_cast<ssize_t>(frame.size()));
  }
  ::close(raw);
  ASSERT_TRUE(b.await(3));
  EXPECT_EQ(b.link->receive_counters().solved_ids, 3u);
  EXPECT_EQ(b.received[1].payload, pattern(256));
}

TEST_F(UdpLinkTest, StraysAreHandedOn) {
  Endpoint a, b, c;
  // A packet for c's slot arrives in b's socket as GRO may deliver it: behind one for b.
  Outgoing first("127.0.0.1", "127.0.0.1", b.qpn(), 64, 1);
  Outgoing second("127.0.0.1", "127.0.0.1", c.qpn(), 64, 2);
  UdpReceiver wrong_slot(b.lease->udp4(), -1, c.lease->slot(), 4791);
  ASSERT_TRUE(a.link->send(first.get()));
  ASSERT_TRUE(a.link->send(second.get()));
  ASSERT_TRUE(a.link->flush());
  EXPECT_EQ(a.link->send_counters().messages, 2u) << "one message must not mix slots";
  std::vector<uint8_t> slots;
  ASSERT_TRUE(lab::eventually([&] {
    wrong_slot.receive([](const RxPacket&) { FAIL(); },
                       [&](uint8_t slot, const RxPacket& packet) {
                         EXPECT_EQ(packet.header.psn.value(), 1u);
                         slots.push_back(slot);
                         return true;
                       },
                       true);
    return !slots.empty();
  }));
  EXPECT_EQ(slots, std::vector<uint8_t>{b.lease->slot()});
  EXPECT_EQ(wrong_slot.counters().strays_forwarded, 1u);
}

TEST_F(UdpLinkTest, MulticastReachesOtherMembersAndTheSender) {
  if (std::system("ip link add d0 type veth peer name d1 && ip link set d1 up && ip addr add "
                  "10.8.0.1/24 dev d0 && "
                  "ip addr add fd08::1/64 dev d0 nodad && ip link set d0 up") != 0) {
    GTEST_SKIP() << "cannot make a veth pair here";
  }
  Endpoint a, b;
  for (const char* group : {"239.1.1.1", "ff02::4791"}) {
    bool ipv4 = gid(group).is_ipv4();
    uint8_t bytes[16];
    std::memcpy(bytes, gid(group).bytes.data(), 16);
    ASSERT_TRUE(a.lease->join(bytes, ::if_nametoindex("d0")));
    ASSERT_TRUE(b.lease->join(bytes, ::if_nametoindex("d0")));
    a.received.clear();
    b.received.clear();
    Outgoing out(ipv4 ? "10.8.0.1" : "fd08::1", group, engine::kMulticastQpn, 128, 5,
                 Opcode::kUdSendOnly);
    ASSERT_TRUE(a.link->send(out.get()));
    ASSERT_TRUE(a.link->flush());
    ASSERT_TRUE(b.await(1)) << group << " errno " << a.link->send_counters().last_error;
    ASSERT_TRUE(a.await(1)) << group;
    EXPECT_TRUE(a.received[0].rest.multicast);
    EXPECT_EQ(b.received[0].rest.destination, gid(group));
    EXPECT_EQ(b.received[0].payload, out.bytes);
  }
}

TEST_F(UdpLinkTest, UnsendablePacketsAreDroppedByKind) {
  Endpoint a;
  Outgoing nowhere("127.0.0.1", "203.0.113.9", 0x020011, 64);
  ASSERT_TRUE(a.link->send(nowhere.get()));
  ASSERT_TRUE(a.link->flush());
  EXPECT_EQ(a.link->send_counters().unreachable + a.link->send_counters().refused, 1u);
  Outgoing mixed("127.0.0.1", "::1", 0x020011, 64);
  EXPECT_TRUE(a.link->send(mixed.get()));
  Outgoing none("127.0.0.1", "127.0.0.1", 0x020011, 64);
  none.get();
  none.packet.route = nullptr;
  EXPECT_TRUE(a.link->send(none.packet));
  EXPECT_EQ(a.link->send_counters().packets, 0u);
}

// --- against the wire: another namespace behind a veth pair, read with a packet socket.

struct Veth {
  lab::Child far;
  Veth()
      : far([](int socket) {
          bool apart = ::unshare(CLONE_NEWNET) == 0;
          lab::say(socket, apart ? "apart" : "refused");
          lab::hear(socket, 30000);
        }) {}
  // The near end is v0 10.9.0.1, the far end v1 10.9.0.2, both with `mtu`.
  bool build(const std::string& mtu) {
    if (far.receive() != "apart") return false;
    std::string pid = std::to_string(far.pid());
    std::string commands =
        "ip link add v0 mtu " + mtu + " gso_max_segs 1 type veth peer name v1 mtu " + mtu +
        " netns " + pid + " && ip addr add 10.9.0.1/24 dev v0 && ip link set v0 up && nsenter -t " +
        pid +
        " -n sh -c 'ip addr add 10.9.0.2/24 dev v1 && ip link set v1 up' && "
        "ip neigh replace 10.9.0.2 dev v0 lladdr 02:00:00:00:00:02";
    return std::system(commands.c_str()) == 0;
  }
  ~Veth() { [[maybe_unused]] int rc = std::system("ip link del v0 2>/dev/null"); }
};

Fd open_tap(const char* interface_name) {
  Fd tap(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  sockaddr_ll on{};
  on.sll_family = AF_PACKET;
  on.sll_protocol = htons(ETH_P_ALL);
  on.sll_ifindex = static_cast<int>(::if_nametoindex(interface_name));
  if (tap.valid() && ::bind(tap.get(), reinterpret_cast<sockaddr*>(&on), sizeof(on)) != 0) {
    tap.reset();
  }
  return tap;
}

TEST_F(UdpLinkTest, EverySegmentOnTheWireHasItsIdentificationAndIcrc) {
  Veth veth;
  if (!veth.build("4200")) GTEST_SKIP() << "cannot make a veth pair here";
  Fd tap = open_tap("v0");
  if (!tap.valid()) GTEST_SKIP() << "no packet sockets permitted";

  Endpoint a;
  std::vector<Outgoing> packets;
  packets.reserve(20);
  for (uint32_t psn = 0; psn < 20; ++psn) {
    packets.emplace_back("10.9.0.1", "10.9.0.2", 0x050011, psn == 19 ? 1001 : 4096, psn);
  }
  for (Outgoing& out : packets) ASSERT_TRUE(a.link->send(out.get()));
  ASSERT_TRUE(a.link->flush());
  EXPECT_EQ(a.link->send_counters().packets, 20u) << a.link->send_counters().last_error;
  EXPECT_EQ(a.link->send_counters().messages, 2u);
  EXPECT_EQ(a.link->send_counters().too_big, 0u);

  uint32_t seen = 0;
  uint16_t expected_id = 0;
  std::vector<uint8_t> frame(70000);
  lab::eventually([&] {
    ssize_t n;
    while ((n = ::recv(tap.get(), frame.data(), frame.size(), 0)) > 0) {
      auto parsed = wire::parse_ethernet({frame.data(), static_cast<size_t>(n)});
      if (!parsed) continue;
      auto packet = wire::parse(parsed->udp_payload);
      EXPECT_EQ(packet.error, wire::ParseError::kNone);
      EXPECT_EQ(packet.packet.psn.value(), seen);
      if (seen == 15) expected_id = 0;  // 15 packets of 4112 bytes fill the first message
      EXPECT_EQ(static_cast<uint16_t>(parsed->ip4.identification), expected_id++);
      EXPECT_EQ(wire::icrc_of(*parsed), wire::icrc_carried(*parsed)) << "segment " << seen;
      ++seen;
    }
    return seen == 20;
  });
  EXPECT_EQ(seen, 20u);
}

TEST_F(UdpLinkTest, PacketsLargerThanThePathAreCounted) {
  Veth veth;
  if (!veth.build("1500")) GTEST_SKIP() << "cannot make a veth pair here";
  Endpoint a;
  Outgoing one("10.9.0.1", "10.9.0.2", 0x050011, 4096, 1),
      two("10.9.0.1", "10.9.0.2", 0x050011, 4096, 2);
  Outgoing fits("10.9.0.1", "10.9.0.2", 0x050011, 1024, 3);
  ASSERT_TRUE(a.link->send(one.get()));
  ASSERT_TRUE(a.link->send(two.get()));
  ASSERT_TRUE(a.link->flush());
  EXPECT_EQ(a.link->send_counters().too_big, 2u) << a.link->send_counters().last_error;
  EXPECT_EQ(a.link->send_counters().gso_refused, 0u);
  ASSERT_TRUE(a.link->send(fits.get()));
  ASSERT_TRUE(a.link->flush());
  EXPECT_EQ(a.link->send_counters().packets, 1u);
}

// The kernel refuses the segmented message; one by one, the packet that fits leaves, with the
// identification and ICRC of a packet that was never part of a batch.
TEST_F(UdpLinkTest, ARefusedBatchLeavesOneByOneWithItsOwnIcrc) {
  Veth veth;
  if (!veth.build("1500")) GTEST_SKIP() << "cannot make a veth pair here";
  Fd tap = open_tap("v0");
  if (!tap.valid()) GTEST_SKIP() << "no packet sockets permitted";
  Endpoint a;
  Outgoing big("10.9.0.1", "10.9.0.2", 0x050011, 4096, 1);
  Outgoing small("10.9.0.1", "10.9.0.2", 0x050011, 1000, 2);
  ASSERT_TRUE(a.link->send(big.get()));
  ASSERT_TRUE(a.link->send(small.get()));
  ASSERT_TRUE(a.link->flush());
  EXPECT_EQ(a.link->send_counters().too_big, 1u);
  EXPECT_EQ(a.link->send_counters().packets, 1u);
  bool seen = false;
  std::vector<uint8_t> bytes(70000);
  EXPECT_TRUE(lab::eventually([&] {
    ssize_t n;
    while (!seen && (n = ::recv(tap.get(), bytes.data(), bytes.size(), 0)) > 0) {
      auto frame = wire::parse_ethernet({bytes.data(), static_cast<size_t>(n)});
      if (!frame) continue;
      seen = true;
      EXPECT_EQ(static_cast<uint16_t>(frame->ip4.identification), 0);
      EXPECT_EQ(wire::icrc_of(*frame), wire::icrc_carried(*frame));
      EXPECT_EQ(wire::parse(frame->udp_payload).packet.psn.value(), 2u);
    }
    return seen;
  }));
}

}  // namespace
}  // namespace verbena::link
