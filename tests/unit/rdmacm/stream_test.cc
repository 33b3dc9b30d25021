// A stream whose peer the test plays, good and bad ones: what it is told, and what it makes of what
// it hears. Real ends meet in tests/apps and tests/interop.
#include "rdmacm/stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fake_port.h"

namespace verbena::test {
namespace {

using namespace rdmacm;

constexpr uint64_t kPeerBuffer = 0x7000000000, kPeerBoard = 0x7100000000;

class Streams : public Rdmacm {
 protected:
  void SetUp() override {
    Rdmacm::SetUp();
    ASSERT_EQ(open_stream(stream_, nullptr), 0);
    stream_.mapping_count = 2;
  }

  // As rconnect does it, to the request.
  void request() {
    sockaddr_in to = ipv4("127.0.0.1", 7471);
    ASSERT_EQ(rdma_resolve_addr(stream_.id, nullptr, plain(to), 1000), 0);
    stream_.state = StreamState::kConnecting;
    stream_.progress();
    ASSERT_EQ(fake().calls.back(), "connect");
  }
  void answer(const std::vector<uint8_t>& private_data) {
    cm::Event response = fake().event(cm::EventType::kResponse);
    response.qp.qpn = 0x55;  // nobody has it: what is sent stays under way
    response.qp.responder_resources = response.qp.initiator_depth = 1;
    response.private_data = private_data;
    response.private_data.resize(196);
    fake().emit(std::move(response));
    stream_.progress();
  }
  static std::vector<uint8_t> greeting(uint8_t mappings = 2) {
    Greeting greeting;
    greeting.credits = 3;
    greeting.mappings = mappings;
    greeting.board = Range{kPeerBoard, 0x99, 2};
    greeting.buffer = Range{kPeerBuffer, 0x88, 100};
    std::vector<uint8_t> data(sizeof greeting);
    memcpy(data.data(), &greeting, sizeof greeting);
    return data;
  }
  void connect(uint8_t mappings = 2) {
    request();
    answer(greeting(mappings));
    ASSERT_EQ(stream_.state, StreamState::kConnected);
  }
  // The peer's message, as the completion queue tells of it.
  void hear(uint32_t said, uint32_t bytes = 0) {
    ibv_wc wc{};
    wc.wr_id = kReceiveId;
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = htonl(said);
    wc.byte_len = bytes;
    take_completion(stream_, wc);
  }
  void hear_bytes(const std::string& text, uint32_t at) {
    memcpy(stream_.received.get() + at, text.data(), text.size());
    hear(word(Kind::kData, static_cast<uint32_t>(text.size())), static_cast<uint32_t>(text.size()));
  }
  void all_sent() {
    while (stream_.control > 0) {
      ibv_wc wc{};
      wc.wr_id = kControlId;
      take_completion(stream_, wc);
    }
  }
  // -1: errno.
  ssize_t read(void* to, size_t length, int flags = 0) {
    Lease lease(stream_.mutex);
    return receive_bytes(stream_, lease, to, length, flags, /*may_wait=*/false);
  }
  std::string read(size_t length, int flags = 0) {
    std::string text(length, '.');
    const ssize_t done = read(text.data(), length, flags);
    return done < 0 ? "errno " + std::to_string(errno) : text.substr(0, static_cast<size_t>(done));
  }
  ssize_t write(size_t length, std::optional<uint64_t> offset = std::nullopt) {
    const std::vector<uint8_t> bytes(length);
    Lease lease(stream_.mutex);
    return send_bytes(stream_, lease, bytes.data(), length, /*may_wait=*/false, offset);
  }

  Stream stream_;
};

TEST_F(Streams, a_request_greets) {
  request();
  const std::optional<Greeting> ours = parse_greeting(fake().request.private_data);
  ASSERT_TRUE(ours);
  EXPECT_EQ(ours->credits, kCredits);
  EXPECT_EQ(ours->mappings, 2);
  EXPECT_EQ(ours->board.get().address, reinterpret_cast<uintptr_t>(stream_.board.data()));
  EXPECT_EQ(ours->board.get().length, 2u) << "ranges";
  EXPECT_EQ(ours->buffer.get().length, kHalf);
  EXPECT_EQ(stream_.board.size(), 2 * sizeof(Range) + 2 * sizeof(Mapping));
}

TEST_F(Streams, a_client_that_gives_up_leaves_the_listener) {
  sockaddr_in at = ipv4("127.0.0.1", 7471);
  ASSERT_EQ(stream_.bind(plain(at), sizeof at), 0);
  ASSERT_EQ(stream_.listen(4), 0);
  stream_.flags = O_NONBLOCK;
  for (int round = 0; round < 2; ++round) {
    fake().emit_request();
    cm::Event gone = fake().event(cm::EventType::kRejected);
    gone.status = 28;
    fake().emit(std::move(gone));
    stream_.progress();
    EXPECT_EQ(stream_.requests.size(), 1u);
    fake().errors["accept"] = EINVAL;
    Lease lease(stream_.mutex);
    EXPECT_REFUSED(EAGAIN, stream_.accept(lease, nullptr, nullptr));
    EXPECT_EQ(stream_.state, StreamState::kListening);
    EXPECT_TRUE(stream_.requests.empty());
    EXPECT_EQ(fake().destroyed.back(), fake().last);
  }
}

TEST_F(Streams, a_listener_that_is_shut_down_listens_no_more) {
  sockaddr_in at = ipv4("127.0.0.1", 7471);
  ASSERT_EQ(stream_.bind(plain(at), sizeof at), 0);
  ASSERT_EQ(stream_.listen(4), 0);
  fake().emit_request();
  stream_.progress();
  EXPECT_REFUSED(EINVAL, stream_.shutdown(3));
  EXPECT_EQ(stream_.shutdown(SHUT_WR), 0);
  EXPECT_EQ(stream_.state, StreamState::kListening) << "TCP's goes on, too";
  EXPECT_EQ(stream_.ready(POLLIN), POLLIN);
  EXPECT_EQ(stream_.shutdown(SHUT_RDWR), 0);
  EXPECT_EQ(fake().destroyed.back(), fake().last) << "who asked is refused";
  Lease lease(stream_.mutex);
  EXPECT_REFUSED(EINVAL, stream_.accept(lease, nullptr, nullptr));
  EXPECT_EQ(stream_.ready(POLLIN), POLLHUP);
  EXPECT_EQ(fake().bound_port, 7471) << "the port is kept";
  EXPECT_EQ(stream_.listen(4), 0);
}

TEST_F(Streams, lingering_is_as_long_as_asked_for) {
  linger asked{1, 1};
  ASSERT_EQ(stream_.set_option(SOL_SOCKET, SO_LINGER, &asked, sizeof asked), 0);
  EXPECT_REFUSED(EINVAL, stream_.set_option(SOL_SOCKET, SO_LINGER, &asked, sizeof(int)));
  linger given{};
  socklen_t length = sizeof given;
  ASSERT_EQ(stream_.get_option(SOL_SOCKET, SO_LINGER, &given, &length), 0);
  EXPECT_EQ(length, sizeof given);
  EXPECT_EQ(given.l_onoff, 1);
  EXPECT_EQ(given.l_linger, 1);
  connect();
  ASSERT_EQ(write(100), 100);
  Lease lease(stream_.mutex);
  stream_.close(lease);  // the bytes never arrive
  EXPECT_TRUE(stream_.parted) << "the peer was told";
  EXPECT_EQ(stream_.state, StreamState::kEnded);
}

TEST_F(Streams, lingering_for_no_time_breaks_the_connection_off) {
  const linger none{1, 0};
  ASSERT_EQ(stream_.set_option(SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
  connect();
  ASSERT_EQ(write(100), 100);
  Lease lease(stream_.mutex);
  stream_.close(lease);
  EXPECT_EQ(stream_.sending, 1u);
  EXPECT_FALSE(stream_.parted) << "nothing more is said";
  EXPECT_EQ(fake().calls.back(), "disconnect");
}

TEST_F(Streams, another_protocol_is_no_peer) {
  request();
  answer(std::vector<uint8_t>(40, 0xab));
  EXPECT_EQ(stream_.state, StreamState::kEnded);
  EXPECT_EQ(stream_.error, EPROTO);
  EXPECT_EQ(fake().calls.back(), "disconnect");
}

TEST_F(Streams, bytes_go_where_the_peer_wants_them) {
  connect();
  EXPECT_EQ(stream_.control, 1u) << "the second range was offered at once";
  EXPECT_EQ(write(250), 100) << "as many as the range takes";
  EXPECT_EQ(stream_.sending, 1u);
  EXPECT_EQ(stream_.targets[0].address, kPeerBuffer + 100);
  EXPECT_REFUSED(EAGAIN, write(1));
  const Range next{0x7200000000, 0x77, 50};
  memcpy(stream_.board.data() + sizeof(Range), &next, sizeof next);
  hear(word(Kind::kCredits, 2), sizeof(Range));
  EXPECT_EQ(write(30), 30);
  EXPECT_EQ(stream_.targets[1].address, 0x7200000000u + 30);
  EXPECT_REFUSED(EAGAIN, write(1));  // two messages were all
  hear(word(Kind::kCredits, 0x10003));
  EXPECT_EQ(write(100), 20) << "credits are counted in 16 bits";
  EXPECT_EQ(stream_.ready(POLLOUT), 0);
}

TEST_F(Streams, bytes_are_read_over_messages_and_round_the_buffer) {
  connect();
  all_sent();
  hear_bytes("abc", 0);
  hear_bytes("defg", 3);
  EXPECT_EQ(read(5, MSG_PEEK), "abcde");
  EXPECT_EQ(read(2), "ab");
  EXPECT_EQ(read(10), "cdefg");
  EXPECT_EQ(read(1), "errno " + std::to_string(EAGAIN));
  hear(word(Kind::kData, 0));
  EXPECT_EQ(stream_.ready(POLLIN), 0) << "a message without bytes is not the end";
  EXPECT_EQ(stream_.read, 3);

  const uint32_t rest = kHalf - 7;
  hear(word(Kind::kData, rest), rest);
  hear(word(Kind::kData, kHalf - 1), kHalf - 1);
  std::vector<uint8_t> all(kReceiveBytes);
  EXPECT_EQ(read(all.data(), kReceiveBytes - 8), kReceiveBytes - 8);
  EXPECT_EQ(stream_.offered, kHalf + 1) << "the first range was given again";
  EXPECT_EQ(stream_.control, 1u);
  stream_.received[kReceiveBytes - 1] = 'y';
  stream_.received[0] = 'z';
  hear(word(Kind::kData, 2), 2);
  EXPECT_EQ(read(5), "yz");
}

TEST_F(Streams, a_peer_that_writes_more_than_it_may_is_left) {
  connect();
  hear(word(Kind::kData, kReceiveBytes));
  hear(word(Kind::kData, 1));
  EXPECT_EQ(stream_.state, StreamState::kEnded);
  EXPECT_EQ(stream_.error, EPROTO);
  EXPECT_EQ(fake().calls.back(), "disconnect");
}

TEST_F(Streams, a_peer_that_ignores_its_credits_is_left) {
  connect();
  for (uint32_t i = 0; i < kCredits; ++i) hear(word(Kind::kData, 1), 1);
  EXPECT_EQ(stream_.state, StreamState::kConnected);
  hear(word(Kind::kData, 1), 1);
  EXPECT_EQ(stream_.state, StreamState::kEnded);
  EXPECT_EQ(stream_.error, EPROTO);
}

TEST_F(Streams, what_came_before_the_end_can_be_read) {
  connect();
  hear_bytes("last", 0);
  hear(word(Kind::kControl, kDisconnect));
  EXPECT_EQ(stream_.ready(POLLIN), POLLIN) << "no POLLHUP yet";
  EXPECT_EQ(read(9), "last");
  EXPECT_NE(stream_.ready(POLLIN) & POLLHUP, 0);
  EXPECT_EQ(read(9), "");
  EXPECT_REFUSED(EPIPE, write(1));
}

TEST_F(Streams, one_direction_may_end) {
  connect();
  hear(word(Kind::kControl, kShutdown));
  EXPECT_EQ(read(9), "");
  EXPECT_EQ(write(10), 10);
  stream_.finished = true;
  all_sent();
  say_end(stream_);
  EXPECT_TRUE(stream_.told_finished);
  EXPECT_FALSE(stream_.parted);
  EXPECT_REFUSED(EPIPE, write(1));
}

TEST_F(Streams, who_reads_no_more_need_not_wait_to_hear_it) {
  connect();
  EXPECT_EQ(stream_.ready(POLLIN | POLLRDHUP), 0);
  EXPECT_EQ(stream_.shutdown(SHUT_RD), 0);
  EXPECT_EQ(stream_.ready(POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
  EXPECT_EQ(read(9), "");
  EXPECT_EQ(write(10), 10);
  EXPECT_REFUSED(EINVAL, stream_.shutdown(3));
}

TEST_F(Streams, a_connected_stream_is_not_connected_again) {
  request();
  stream_.flags = O_NONBLOCK;
  sockaddr_in to = ipv4("127.0.0.1", 7471);
  const auto again = [&] {
    Lease lease(stream_.mutex);
    return stream_.connect(lease, plain(to), sizeof to);
  };
  EXPECT_REFUSED(EALREADY, again());
  stream_.outcome_due = true;  // as after EINPROGRESS
  answer(greeting());
  EXPECT_EQ(again(), 0) << "what came of it";
  EXPECT_REFUSED(EISCONN, again());
  hear(word(Kind::kControl, kDisconnect));
  EXPECT_REFUSED(EISCONN, again());
}

TEST_F(Streams, reserved_words_are_ignored) {
  connect();
  for (uint32_t kind : {1u, 2u, 3u, 5u}) hear(kind << 29 | 7, 7);
  hear(word(Kind::kControl, kKeepalive));
  EXPECT_EQ(stream_.state, StreamState::kConnected);
  EXPECT_EQ(stream_.ready(POLLIN), 0);
}

TEST_F(Streams, writing_into_the_peers_mappings) {
  connect();
  EXPECT_EQ(write(10, 0), 0) << "none yet";
  const Mapping mapping{1000, {0x7300000000, 0x66, 20}};
  memcpy(stream_.board.data() + mapping_place(2, 1), &mapping, sizeof mapping);
  hear(word(Kind::kMapped, 1), sizeof(Mapping));
  EXPECT_EQ(write(10, 999), 0);
  EXPECT_EQ(write(10, 1000), 10);
  EXPECT_EQ(write(10, 1015), 5) << "what lies inside";
  EXPECT_EQ(stream_.sent, 0) << "the peer is not told of these";
  EXPECT_EQ(stream_.sending, 2u);
  for (uint32_t index : {2u, 0x1fffffffu}) hear(word(Kind::kMapped, index), sizeof(Mapping));
  EXPECT_EQ(stream_.mappings.size(), 2u) << "entries that the board does not have";
}

TEST_F(Streams, mapping_own_memory) {
  connect();
  std::vector<uint8_t> memory(300);
  EXPECT_EQ(stream_.map(memory.data(), 100, PROT_WRITE, 64), 64);
  EXPECT_EQ(stream_.sent, 1) << "told at once, for a credit";
  const off_t own = stream_.map(memory.data() + 100, 100, PROT_WRITE, -1);
  EXPECT_EQ(own, reinterpret_cast<off_t>(memory.data() + 100));
  EXPECT_REFUSED(ENOMEM, stream_.map(memory.data(), 50, PROT_WRITE, 0));
  EXPECT_NE(fake().explained.back().find("RDMA_IOMAPSIZE"), std::string::npos);
  EXPECT_EQ(stream_.map(memory.data(), 50, PROT_NONE, 7), 7) << "local ones take no room";
  EXPECT_REFUSED(EINVAL, stream_.map(memory.data(), 50, PROT_READ, 0));
  EXPECT_REFUSED(EINVAL, stream_.map(memory.data(), 0, PROT_WRITE, 0));
  EXPECT_REFUSED(EINVAL, stream_.unmap(memory.data(), 99));
  EXPECT_EQ(stream_.unmap(memory.data(), 100), 0);
  EXPECT_EQ(stream_.map(memory.data() + 200, 100, PROT_WRITE, 0), 0) << "its room is free again";
  EXPECT_EQ(stream_.own_mappings.back().index, 0u);
}

TEST_F(Streams, a_peer_without_mappings_takes_none) {
  connect(0);
  uint8_t byte = 0;
  EXPECT_REFUSED(ENOMEM, stream_.map(&byte, 1, PROT_WRITE, 0));
}

}  // namespace
}  // namespace verbena::test
