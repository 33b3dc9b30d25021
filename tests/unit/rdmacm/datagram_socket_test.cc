// Datagram rsockets: two of this process talk over loopback, first by UDP, then by UD; what udp(7)
// answers; and what strangers may send.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plain_socket.h"
#include "fake_port.h"
#include "rdmacm/datagram.h"

namespace verbena::test {
namespace {

using namespace rdmacm;

sockaddr_storage storage(const sockaddr_in& address) {
  return storage_of(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

TEST(DatagramWire, the_field_before_data) {
  uint8_t bytes[kMaxSourceBytes] = {};
  const sockaddr_storage four = storage(ipv4("192.0.2.7", 0x1234));
  ASSERT_EQ(emit_source(four, bytes), 8u);
  const uint8_t expected[8] = {4, 8, 0x12, 0x34, 192, 0, 2, 7};
  EXPECT_EQ(memcmp(bytes, expected, sizeof expected), 0);
  auto parsed = parse_source({bytes, 8});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->length, 8u);
  EXPECT_EQ(memcmp(&parsed->sender, &four, sizeof four), 0);
  EXPECT_FALSE(parse_source({bytes, 7}));

  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(7);
  in6.sin6_flowinfo = htonl(0x12345);
  inet_pton(AF_INET6, "fd00::2", &in6.sin6_addr);
  const sockaddr_storage six = storage_of(reinterpret_cast<const sockaddr*>(&in6), sizeof in6);
  ASSERT_EQ(emit_source(six, bytes), 24u);
  parsed = parse_source(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(memcmp(&parsed->sender, &six, sizeof six), 0);
  for (uint32_t at : {0u, 1u}) {
    bytes[at] ^= 1;
    EXPECT_FALSE(parse_source(bytes));
    bytes[at] ^= 1;
  }
  EXPECT_FALSE(parse_source({bytes, 23}));
}

TEST(DatagramWire, the_preamble) {
  const Preamble ours =
      preamble_of(Preamble::kAnswer, 0xff012345, storage(ipv4("192.0.2.7", 0x1234)));
  const uint8_t expected[16] = {0x55, 0x55, 0x55, 0x55, 4,   7, 16, 0,
                                0,    1,    0x23, 0x45, 192, 0, 2,  7};
  uint8_t bytes[16];
  memcpy(bytes, &ours, sizeof bytes);
  EXPECT_EQ(memcmp(bytes, expected, sizeof expected), 0);
  const auto parsed = parse_preamble(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->op, Preamble::kAnswer);
  EXPECT_EQ(parsed->qpn, 0x012345u);
  EXPECT_FALSE(parse_preamble({bytes, 15}));
  for (uint32_t at : {0u, 4u, 6u}) {
    bytes[at] ^= 1;
    EXPECT_FALSE(parse_preamble(bytes));
    bytes[at] ^= 1;
  }
  bytes[4] = 6;
  EXPECT_FALSE(parse_preamble(bytes)) << "shorter than IPv6's";

  uint8_t longer[28] = {0x55, 0x55, 0x55, 0x55, 6, 0, 28, 0, 0, 0, 0, 9, 0xfd};
  longer[27] = 2;
  const auto six = parse_preamble(longer);
  ASSERT_TRUE(six);
  EXPECT_EQ(six->qpn, 9u);
  EXPECT_EQ(memcmp(six->address, longer + 12, 16), 0);
  EXPECT_FALSE(parse_preamble({longer, 27}));
}

class DatagramSockets : public Rdmacm {
 protected:
  void SetUp() override {
    Rdmacm::SetUp();
    for (int i = 0; i < 2; ++i) {
      fds_[i] = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
      ASSERT_GE(fds_[i], 0);
      sockaddr_in any_port = ipv4("127.0.0.1", 0);
      ASSERT_EQ(rbind(fds_[i], plain(any_port), sizeof any_port), 0);
      socklen_t length = sizeof names_[i];
      ASSERT_EQ(rgetsockname(fds_[i], plain(names_[i]), &length), 0);
    }
  }
  void TearDown() override {
    for (int fd : fds_) rclose(fd);
    Rdmacm::TearDown();
  }
  Datagram& socket(int i) { return static_cast<Datagram&>(*find_socket(fds_[i])); }
  ssize_t tell(int from, int to, const std::string& text) {
    return rsendto(fds_[from], text.data(), text.size(), 0, plain(names_[to]), sizeof names_[to]);
  }
  // Waits (at most as long as anyone would) for the next datagram.
  std::string hear(int at, size_t room = kMaxDatagramBytes, int flags = 0) {
    pollfd one{fds_[at], POLLIN, 0};
    if (rpoll(&one, 1, 10000) != 1) return "(nothing came)";
    std::string text(room, '.');
    socklen_t length = sizeof from_;
    const ssize_t done = rrecvfrom(fds_[at], text.data(), room, flags, plain(from_), &length);
    return done < 0 ? "errno " + std::to_string(errno) : text.substr(0, static_cast<size_t>(done));
  }
  // Both know each other's queue pair.
  void meet() {
    ASSERT_EQ(tell(0, 1, "how do you do"), 13);
    ASSERT_EQ(hear(1), "how do you do");
    while (path(0, 1).handle == nullptr) {
      Lease lease(socket(0).mutex);
      socket(0).progress();
    }
    ASSERT_NE(path(1, 0).handle, nullptr);
  }
  Path& path(int from, int to) {
    Lease lease(socket(from).mutex);
    return *path_to(socket(from), storage(names_[to]));
  }
  bool nothing_waits(int at) {
    char byte;
    return rrecv(fds_[at], &byte, 1, 0) == -1 && errno == EAGAIN;
  }

  int fds_[2] = {-1, -1};
  sockaddr_in names_[2] = {}, from_ = {};
};

TEST_F(DatagramSockets, the_first_goes_by_udp_the_others_by_ud) {
  meet();
  EXPECT_EQ(memcmp(&from_, &names_[0], sizeof from_), 0);
  EXPECT_EQ(path(0, 1).qpn, socket(1).endpoints[0]->id->qp->qp_num);
  EXPECT_EQ(path(1, 0).qpn, socket(0).endpoints[0]->id->qp->qp_num);
  EXPECT_EQ(tell(1, 0, "very well"), 9);
  EXPECT_EQ(hear(0, 100, MSG_PEEK), "very well");
  EXPECT_EQ(socket(0).copied, 0u) << "it lies where UD put it";
  EXPECT_EQ(hear(0), "very well");
  EXPECT_EQ(memcmp(&from_, &names_[1], sizeof from_), 0);
  EXPECT_TRUE(nothing_waits(0));
}

TEST_F(DatagramSockets, datagrams_keep_their_bounds_and_bytes) {
  meet();
  std::string longest(kMaxDatagramBytes - Preamble::kBytes4, 'x');
  for (size_t i = 0; i < longest.size(); ++i) longest[i] = static_cast<char>(i * 7);
  for (const std::string& text : {std::string("a"), std::string(), longest}) {
    EXPECT_EQ(tell(0, 1, text), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(hear(1), text);
  }
  EXPECT_REFUSED(EMSGSIZE, tell(0, 1, longest + "x"));
  EXPECT_NE(fake().explained.back().find("at most 2032 bytes"), std::string::npos);
}

TEST_F(DatagramSockets, what_ud_cannot_carry_goes_by_udp) {
  meet();
  socket(0).endpoints[0]->room = 1024;
  for (const size_t size : {1016u, 1017u}) {
    const std::string text(size, 'u');
    EXPECT_EQ(tell(0, 1, text), static_cast<ssize_t>(size));
    EXPECT_EQ(hear(1, 2000, MSG_PEEK), text);
    EXPECT_EQ(socket(1).copied, size > 1016 ? 1u : 0u);
    EXPECT_EQ(hear(1), text);
  }
}

TEST_F(DatagramSockets, peeking_and_cutting) {
  for (const bool ud : {false, true}) {
    if (ud) meet();
    ASSERT_EQ(tell(0, 1, "abcdef"), 6);
    EXPECT_EQ(hear(1, 3, MSG_PEEK), "abc");
    char bytes[8];
    EXPECT_EQ(rrecv(fds_[1], bytes, 3, MSG_PEEK | MSG_TRUNC), 6) << "the real length";
    iovec parts[2] = {{bytes, 2}, {bytes + 4, 2}};
    msghdr message{};
    message.msg_name = &from_;
    message.msg_namelen = sizeof from_;
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    EXPECT_EQ(rrecvmsg(fds_[1], &message, 0), 4);
    EXPECT_EQ(std::string(bytes, 2) + std::string(bytes + 4, 2), "abcd");
    EXPECT_EQ(message.msg_flags, MSG_TRUNC);
    EXPECT_EQ(message.msg_namelen, sizeof(sockaddr_in));
    EXPECT_TRUE(nothing_waits(1)) << "the rest is gone";
  }
}

TEST_F(DatagramSockets, parts_of_a_message_are_one_datagram) {
  meet();
  char hello[] = "hello", world[] = " world";
  iovec parts[2] = {{hello, 5}, {world, 6}};
  msghdr message{};
  message.msg_name = &names_[1];
  message.msg_namelen = sizeof names_[1];
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  EXPECT_EQ(rsendmsg(fds_[0], &message, 0), 11);
  EXPECT_EQ(hear(1), "hello world");
}

TEST_F(DatagramSockets, a_connected_socket_hears_its_peer_only) {
  EXPECT_REFUSED(EDESTADDRREQ, rsend(fds_[0], "x", 1, 0));
  EXPECT_REFUSED(ENOTCONN, rgetpeername(fds_[0], plain(from_), nullptr));
  meet();
  sockaddr_in nobody = ipv4("127.0.0.1", 1);
  ASSERT_EQ(rconnect(fds_[1], plain(nobody), sizeof nobody), 0);
  EXPECT_EQ(tell(0, 1, "a stranger's"), 12);
  EXPECT_TRUE(nothing_waits(1));
  ASSERT_EQ(rconnect(fds_[1], plain(names_[0]), sizeof names_[0]), 0);
  socklen_t length = sizeof from_;
  EXPECT_EQ(rgetpeername(fds_[1], plain(from_), &length), 0);
  EXPECT_EQ(memcmp(&from_, &names_[0], sizeof from_), 0);
  EXPECT_EQ(rsend(fds_[1], "to my peer", 10, 0), 10);
  EXPECT_EQ(hear(0), "to my peer");
}

TEST_F(DatagramSockets, a_host_that_refuses_is_told) {
  const int closed = fds_[0];
  sockaddr_in gone = names_[0];
  ASSERT_EQ(rclose(closed), 0);
  ASSERT_EQ(rconnect(fds_[1], plain(gone), sizeof gone), 0);
  ASSERT_EQ(rsend(fds_[1], "x", 1, 0), 1);
  pollfd one{fds_[1], POLLIN, 0};
  EXPECT_EQ(rpoll(&one, 1, 10000), 1);
  EXPECT_EQ(one.revents, POLLERR);
  int error = 0;
  socklen_t length = sizeof error;
  EXPECT_EQ(rgetsockopt(fds_[1], SOL_SOCKET, SO_ERROR, &error, &length), 0);
  EXPECT_EQ(error, ECONNREFUSED);
  EXPECT_TRUE(nothing_waits(1));
  fds_[0] = rsocket(AF_INET, SOCK_DGRAM, 0);
}

// A socket of IPv6, bound to this address, in place of the second one, which IPv4 peers know as
// 127.0.0.1.
class DualSockets : public DatagramSockets, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    DatagramSockets::SetUp();
    rclose(fds_[1]);
    fds_[1] = rsocket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fds_[1] < 0) GTEST_SKIP() << "this kernel has no IPv6";
    sockaddr_in6 own{};
    own.sin6_family = AF_INET6;
    inet_pton(AF_INET6, GetParam(), &own.sin6_addr);
    ASSERT_EQ(rbind(fds_[1], reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    socklen_t length = sizeof own;
    ASSERT_EQ(rgetsockname(fds_[1], reinterpret_cast<sockaddr*>(&own), &length), 0);
    names_[1] = ipv4("127.0.0.1", ntohs(own.sin6_port));
  }
  // The same address as a socket of IPv6 sees it.
  static sockaddr_in6 mapped(const sockaddr_in& address) {
    sockaddr_in6 out{};
    out.sin6_family = AF_INET6;
    out.sin6_port = address.sin_port;
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &out.sin6_addr);
    return out;
  }
  // Takes what waits at the second; its sender.
  sockaddr_in6 sender_of(const std::string& text) {
    EXPECT_EQ(hear(1, kMaxDatagramBytes, MSG_PEEK), text);
    sockaddr_in6 sender{};
    socklen_t length = sizeof sender;
    char bytes[64];
    EXPECT_EQ(
        rrecvfrom(fds_[1], bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&sender), &length),
        static_cast<ssize_t>(text.size()));
    EXPECT_EQ(length, sizeof sender);
    return sender;
  }
};

TEST_P(DualSockets, ipv4_peers_are_heard_and_answered) {
  const sockaddr_in6 first = mapped(names_[0]);
  ASSERT_EQ(tell(0, 1, "by udp"), 6);
  sockaddr_in6 sender = sender_of("by udp");
  EXPECT_EQ(memcmp(&sender, &first, sizeof first), 0);
  meet();  // the first hears the answer, as IPv4
  EXPECT_EQ(path(1, 0).endpoint->own.ss_family, AF_INET);
  ASSERT_EQ(tell(0, 1, "by ud"), 5);
  sender = sender_of("by ud");
  EXPECT_EQ(socket(1).copied, 0u);
  EXPECT_EQ(memcmp(&sender, &first, sizeof first), 0);
  EXPECT_EQ(
      rsendto(fds_[1], "very well", 9, 0, reinterpret_cast<sockaddr*>(&sender), sizeof sender), 9);
  EXPECT_EQ(hear(0), "very well");
  EXPECT_EQ(memcmp(&from_, &names_[1], sizeof from_), 0);
}

TEST_P(DualSockets, ipv4_peers_can_be_connected_to) {
  meet();
  const sockaddr_in6 first = mapped(names_[0]);
  ASSERT_EQ(rconnect(fds_[1], reinterpret_cast<const sockaddr*>(&first), sizeof first), 0);
  sockaddr_in6 peer{};
  socklen_t length = sizeof peer;
  ASSERT_EQ(rgetpeername(fds_[1], reinterpret_cast<sockaddr*>(&peer), &length), 0);
  EXPECT_EQ(memcmp(&peer, &first, sizeof first), 0);
  EXPECT_EQ(rsend(fds_[1], "to my peer", 10, 0), 10);
  EXPECT_EQ(hear(0), "to my peer");
  EXPECT_EQ(tell(0, 1, "from it"), 7);
  EXPECT_EQ(hear(1), "from it");
}

INSTANTIATE_TEST_SUITE_P(Bound, DualSockets, testing::Values("::", "::ffff:127.0.0.1"));

TEST_F(DatagramSockets, one_of_ipv6_alone_reaches_no_ipv4_peer) {
  const int alone = rsocket(AF_INET6, SOCK_DGRAM, 0);
  if (alone < 0) GTEST_SKIP() << "this kernel has no IPv6";
  const int one = 1;
  ASSERT_EQ(rsetsockopt(alone, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one), 0);
  EXPECT_REFUSED(ENETUNREACH, rsendto(alone, "x", 1, 0, plain(names_[0]), sizeof names_[0]));
  EXPECT_NE(fake().explained.back().find("IPv6's alone, and 127.0.0.1 is IPv4's"),
            std::string::npos);
  EXPECT_EQ(rclose(alone), 0);
}

TEST_F(DatagramSockets, a_bind_that_fails_leaves_the_socket_unbound) {
  const int other = rsocket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in own = ipv4("127.0.0.1", 0);
  fake().errors["bind"] = ENOSPC;
  EXPECT_REFUSED(ENOSPC, rbind(other, plain(own), sizeof own));
  fake().errors.clear();
  EXPECT_REFUSED(EADDRINUSE, rbind(other, plain(names_[1]), sizeof names_[1]));
  EXPECT_TRUE(static_cast<Datagram&>(*find_socket(other)).endpoints.empty());
  socklen_t length = sizeof own;
  ASSERT_EQ(rgetsockname(other, plain(own), &length), 0);
  EXPECT_EQ(own.sin_port, 0);
  own = ipv4("127.0.0.1", 0);
  EXPECT_EQ(rbind(other, plain(own), sizeof own), 0);
  EXPECT_EQ(rclose(other), 0);
}

TEST_F(DatagramSockets, a_connect_that_fails_leaves_the_socket_with_its_peer) {
  rclose(fds_[1]);
  fds_[1] = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  sockaddr_in nobody = ipv4("127.0.0.1", 1);
  fake().errors["local_end"] = EHOSTUNREACH;
  EXPECT_REFUSED(EHOSTUNREACH, rconnect(fds_[1], plain(nobody), sizeof nobody));
  fake().errors.clear();
  socklen_t length = sizeof names_[1];
  EXPECT_REFUSED(ENOTCONN, rgetpeername(fds_[1], plain(from_), &length));
  ASSERT_EQ(rgetsockname(fds_[1], plain(names_[1]), &length), 0);
  names_[1].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(tell(0, 1, "anybody's"), 9);
  EXPECT_EQ(hear(1), "anybody's");

  ASSERT_EQ(rconnect(fds_[1], plain(names_[0]), sizeof names_[0]), 0);
  sockaddr_in all = ipv4("255.255.255.255", 7);
  EXPECT_REFUSED(EACCES, rconnect(fds_[1], plain(all), sizeof all));
  EXPECT_EQ(rsend(fds_[1], "to my peer", 10, 0), 10);
  EXPECT_EQ(hear(0), "to my peer");
}

// Then the port is the kernel's to give anew, and peers hear of the new one.
TEST_F(DatagramSockets, a_socket_without_its_peer_any_more) {
  meet();
  rclose(fds_[0]);
  fds_[0] = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  ASSERT_EQ(rconnect(fds_[0], plain(names_[1]), sizeof names_[1]), 0);
  socklen_t length = sizeof names_[0];
  ASSERT_EQ(rgetsockname(fds_[0], plain(names_[0]), &length), 0);
  meet();
  sockaddr_in none{};
  ASSERT_EQ(rconnect(fds_[0], plain(none), sizeof none), 0);
  EXPECT_REFUSED(ENOTCONN, rgetpeername(fds_[0], plain(from_), &length));
  EXPECT_EQ(tell(0, 1, "still here"), 10);
  EXPECT_EQ(hear(1), "still here");
  ASSERT_EQ(rgetsockname(fds_[0], plain(names_[0]), &length), 0);
  EXPECT_EQ(from_.sin_port, names_[0].sin_port);
}

TEST_F(DatagramSockets, a_child_of_fork_does_not_keep_the_port) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  char byte = 0;
  const pid_t child = fork();
  if (child == 0) {
    fake().fork_callback()();
    ::close(ends[1]);
    const bool said = ::write(ends[0], &byte, 1) == 1;
    _exit(said && ::read(ends[0], &byte, 1) == 0 ? 0 : 1);  // until the parent has seen
  }
  ASSERT_GT(child, 0);
  ASSERT_EQ(::read(ends[1], &byte, 1), 1) << "the child is on its way";
  ASSERT_EQ(rclose(fds_[1]), 0);
  fds_[1] = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  EXPECT_EQ(rbind(fds_[1], plain(names_[1]), sizeof names_[1]), 0) << strerror(errno);
  ::close(ends[0]);
  ::close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DatagramSockets, polling_and_shutting) {
  pollfd one{fds_[1], POLLIN | POLLOUT, 0};
  EXPECT_EQ(rpoll(&one, 1, 0), 1);
  EXPECT_EQ(one.revents, POLLOUT);
  socket(1).endpoints[0]->free_slots.clear();
  EXPECT_EQ(rpoll(&one, 1, 0), 0);
  for (uint32_t slot = 0; slot < kDatagramSends; ++slot)
    socket(1).endpoints[0]->free_slots.push_back(slot);
  EXPECT_REFUSED(ENOTCONN, rshutdown(fds_[1], SHUT_RD));
  ASSERT_EQ(rconnect(fds_[1], plain(names_[0]), sizeof names_[0]), 0);
  ASSERT_EQ(rshutdown(fds_[1], SHUT_RDWR), 0);
  char byte;
  EXPECT_EQ(rrecv(fds_[1], &byte, 1, 0), 0);
  EXPECT_REFUSED(EPIPE, rsend(fds_[1], "x", 1, 0));
  EXPECT_EQ(rpoll(&one, 1, 0), 1);
  EXPECT_EQ(one.revents, POLLIN | POLLOUT);
}

TEST_F(DatagramSockets, no_room_to_send) {
  meet();
  socket(0).endpoints[0]->free_slots.clear();
  EXPECT_REFUSED(EAGAIN, tell(0, 1, "x"));
  for (uint32_t slot = 0; slot < kDatagramSends; ++slot)
    socket(0).endpoints[0]->free_slots.push_back(slot);
}

TEST_F(DatagramSockets, strangers_are_ignored_and_peers_bounded) {
  const int stranger = plain_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (const size_t length : {0u, 15u, 16u, 2048u}) {
    const std::vector<uint8_t> noise(length, 0x55);
    EXPECT_EQ(::sendto(stranger, noise.data(), length, 0, plain(names_[1]), sizeof names_[1]),
              static_cast<ssize_t>(length));
  }
  EXPECT_TRUE(nothing_waits(1));
  EXPECT_TRUE(socket(1).paths.empty());
  ::close(stranger);
  for (uint16_t port = 1; port <= kMaxPaths + 8; ++port) {
    const sockaddr_storage peer = storage(ipv4("127.0.0.1", port));
    Lease lease(socket(1).mutex);
    Path* path = path_to(socket(1), peer);
    ASSERT_NE(path, nullptr);
    learn(socket(1), *path, peer, 0x123);
    ASSERT_NE(path->handle, nullptr);
  }
  EXPECT_EQ(socket(1).paths.size(), kMaxPaths);
}

TEST_F(DatagramSockets, calls_of_streams_and_of_udp_sockets) {
  EXPECT_REFUSED(EOPNOTSUPP, rlisten(fds_[0], 1));
  EXPECT_REFUSED(EOPNOTSUPP, raccept(fds_[0], nullptr, nullptr));
  EXPECT_REFUSED(EOPNOTSUPP, riomap(fds_[0], this, 1, 0, 0, 0));
  EXPECT_REFUSED(ENOTSUP, rsocket(AF_INET, SOCK_RAW, 0));
  EXPECT_REFUSED(ENOTSUP, rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
  EXPECT_REFUSED(EAFNOSUPPORT, rsocket(AF_UNIX, SOCK_DGRAM, 0));
  EXPECT_REFUSED(EINVAL, rbind(fds_[0], plain(names_[1]), sizeof names_[1]));  // bound already
  const int other = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
  EXPECT_REFUSED(EADDRINUSE, rbind(other, plain(names_[1]), sizeof names_[1]));
  EXPECT_EQ(rclose(other), 0);
  const int tos = IPTOS_LOWDELAY;
  ASSERT_EQ(rsetsockopt(fds_[0], IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
  int value = 0;
  socklen_t length = sizeof value;
  EXPECT_EQ(rgetsockopt(fds_[0], IPPROTO_IP, IP_TOS, &value, &length), 0);
  EXPECT_EQ(value, tos);
  EXPECT_EQ(rgetsockopt(fds_[0], SOL_SOCKET, SO_TYPE, &value, &length), 0);
  EXPECT_EQ(value, SOCK_DGRAM);
  EXPECT_EQ(rgetsockopt(fds_[0], SOL_RDMA, RDMA_RQSIZE, &value, &length), 0);
  EXPECT_EQ(value, static_cast<int>(kDatagramReceives));
}

}  // namespace
}  // namespace verbena::test
