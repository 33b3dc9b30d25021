// The calls of rsockets: numbers, threads that wait for one socket, poll and select, options,
// connecting again, fork.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <rdma/rsocket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "fake_port.h"
#include "rdmacm/stream.h"

namespace verbena::test {
namespace {

using namespace rdmacm;

// A socket of which the test says when something happens; its events lie in no descriptor.
class Played final : public Socket {
 public:
  int bind(const sockaddr*, socklen_t) override { return 0; }
  int connect(Lease&, const sockaddr*, socklen_t) override { return 0; }
  int shutdown(int) override { return 0; }
  void close(Lease&) override {}
  ssize_t send(Lease&, const msghdr&, int) override { return 0; }
  ssize_t receive(Lease&, msghdr&, int) override { return 0; }
  int peer_name(sockaddr*, socklen_t*) override { return 0; }
  int own_name(sockaddr*, socklen_t*) override { return 0; }
  int set_option(int, int, const void*, socklen_t) override { return 0; }
  int get_option(int, int, void*, socklen_t*) override { return 0; }
  short ready(short events) const override { return static_cast<short>(answer & events); }
  void arm() override { ++armed; }

  short answer = 0;
  uint32_t happened = 0;
  std::atomic<uint32_t> armed{0};

 private:
  void take_all() override {
    if (happened == 0) return;
    --happened;
    ++version_;
  }
};

bool rings(const Socket& socket) {
  pollfd one{socket.fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

TEST(Sleepers, each_that_slept_at_a_call_is_woken_by_it) {
  Played socket;
  ASSERT_EQ(socket.open(), 0);
  socket.wake();
  EXPECT_FALSE(rings(socket)) << "nobody sleeps";
  const uint64_t first = socket.lie_down(), second = socket.lie_down();
  socket.happened = 1;
  socket.progress();
  EXPECT_TRUE(rings(socket));
  socket.get_up(first);
  EXPECT_TRUE(rings(socket)) << "the second is asleep yet";
  const uint64_t again = socket.lie_down();
  socket.get_up(second);
  EXPECT_FALSE(rings(socket)) << "who lay down later is not owed a call";
  socket.get_up(again);

  const uint64_t third = socket.lie_down();
  socket.wake();
  const uint64_t fourth = socket.lie_down();
  socket.wake();
  socket.get_up(third);
  EXPECT_TRUE(rings(socket));
  socket.get_up(fourth);
  EXPECT_FALSE(rings(socket));
}

TEST(Sleepers, what_another_thread_took_ends_a_wait) {
  Played socket;
  ASSERT_EQ(socket.open(), 0);
  std::thread sleeper([&] {
    Lease lease(socket.mutex);
    EXPECT_EQ(socket.wait(lease), 0);
  });
  while (socket.armed == 0) std::this_thread::yield();
  {
    Lease lease(socket.mutex);  // it lies down under the same lock that it arms under
    socket.happened = 1;
    socket.progress();
  }
  sleeper.join();
  EXPECT_FALSE(rings(socket));
}

TEST(Sleepers, what_another_thread_took_ends_rpoll) {
  auto socket = std::make_shared<Played>();
  ASSERT_EQ(socket->open(), 0);
  pollfd one{enter_socket(socket), POLLIN | POLLOUT, 0};
  std::thread sleeper([&] { EXPECT_EQ(rpoll(&one, 1, -1), 1); });
  while (socket->armed == 0) std::this_thread::yield();
  {
    Lease lease(socket->mutex);
    socket->answer = POLLOUT;
    socket->happened = 1;
    socket->progress();
  }
  sleeper.join();
  EXPECT_EQ(one.revents, POLLOUT);
  EXPECT_EQ(rclose(one.fd), 0);
}

TEST(Select, a_hang_up_is_readable_but_not_writable) {
  auto socket = std::make_shared<Played>();
  ASSERT_EQ(socket->open(), 0);
  const int fd = enter_socket(socket);
  socket->answer = POLLHUP;
  fd_set read, write;
  const auto ask = [&](short answer, bool reads, bool writes) {
    socket->answer = static_cast<short>(answer | 0);
    FD_ZERO(&read);
    FD_ZERO(&write);
    if (reads) FD_SET(fd, &read);
    if (writes) FD_SET(fd, &write);
    timeval soon{0, 1000};
    return rselect(fd + 1, &read, &write, nullptr, &soon);
  };
  EXPECT_EQ(ask(POLLIN, true, true), 1);
  EXPECT_TRUE(FD_ISSET(fd, &read));
  EXPECT_FALSE(FD_ISSET(fd, &write));
  EXPECT_EQ(ask(POLLIN | POLLOUT, true, true), 2);
  EXPECT_EQ(ask(POLLIN, false, true), 0);
  EXPECT_FALSE(FD_ISSET(fd, &write));

  // The same of a descriptor of another kind: a pipe that nobody writes to any more.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[1]);
  for (const bool reads : {true, false}) {
    FD_ZERO(&read);
    FD_SET(ends[0], &read);
    timeval soon{0, 1000};
    EXPECT_EQ(
        rselect(ends[0] + 1, reads ? &read : nullptr, reads ? nullptr : &read, nullptr, &soon),
        reads ? 1 : 0);
  }
  close(ends[0]);
  EXPECT_EQ(rclose(fd), 0);
}

TEST(Select, times_and_descriptors_are_checked) {
  fd_set read;
  FD_ZERO(&read);
  for (timeval wrong : {timeval{-1, 0}, timeval{0, -1}})
    EXPECT_REFUSED(EINVAL, rselect(0, nullptr, nullptr, nullptr, &wrong));
  EXPECT_REFUSED(EINVAL, rselect(-1, &read, nullptr, nullptr, nullptr));
  constexpr int kNobodys = 1000;
  FD_SET(kNobodys, &read);
  EXPECT_REFUSED(EBADF, rselect(kNobodys + 1, &read, nullptr, nullptr, nullptr));
}

class Calls : public Rdmacm {
 protected:
  void SetUp() override {
    Rdmacm::SetUp();
    fd_ = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override {
    if (fd_ >= 0) rclose(fd_);
    Rdmacm::TearDown();
  }
  void get_refused() {
    cm::Event refused = fake().event(cm::EventType::kRejected);
    refused.status = 28;
    fake().emit(std::move(refused));
  }
  int option(int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(rgetsockopt(fd_, level, name, &value, &length), 0);
    return value;
  }
  short polled(short events) {
    pollfd one{fd_, events, 0};
    EXPECT_GE(rpoll(&one, 1, 0), 0);
    return one.revents;
  }

  sockaddr_in peer_ = ipv4("127.0.0.1", 7471);
  int fd_ = -1;
};

TEST_F(Calls, connecting_is_asked_for_again) {
  EXPECT_REFUSED(EINPROGRESS, rconnect(fd_, plain(peer_), sizeof peer_));
  EXPECT_REFUSED(EALREADY, rconnect(fd_, plain(peer_), sizeof peer_));
  get_refused();
  EXPECT_REFUSED(ECONNREFUSED, rconnect(fd_, plain(peer_), sizeof peer_));
  EXPECT_REFUSED(EINPROGRESS, rconnect(fd_, plain(peer_), sizeof peer_));
  EXPECT_EQ(fake().calls.back(), "connect") << "a second attempt";
}

TEST_F(Calls, a_bound_socket_that_was_refused_keeps_its_port_and_options) {
  sockaddr_in own = ipv4("127.0.0.1", 4711);
  const int tos = IPTOS_LOWDELAY, one = 1;
  ASSERT_EQ(rsetsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
  ASSERT_EQ(rbind(fd_, plain(own), sizeof own), 0);
  ASSERT_EQ(rsetsockopt(fd_, IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
  EXPECT_REFUSED(EINPROGRESS, rconnect(fd_, plain(peer_), sizeof peer_));
  get_refused();
  EXPECT_EQ(option(SOL_SOCKET, SO_ERROR), ECONNREFUSED);
  EXPECT_REFUSED(ECONNABORTED, rconnect(fd_, plain(peer_), sizeof peer_));
  fake().bound_port = 0;
  EXPECT_REFUSED(EINPROGRESS, rconnect(fd_, plain(peer_), sizeof peer_));
  EXPECT_EQ(fake().bound_port, 4711);
  EXPECT_TRUE(fake().bound_reuse);
  EXPECT_EQ(option(IPPROTO_IP, IP_TOS), tos);
}

TEST_F(Calls, an_error_is_told_once) {
  EXPECT_REFUSED(EINPROGRESS, rconnect(fd_, plain(peer_), sizeof peer_));
  EXPECT_EQ(option(SOL_SOCKET, SO_ERROR), 0);
  get_refused();
  EXPECT_EQ(polled(POLLOUT), POLLOUT | POLLHUP | POLLERR);
  EXPECT_EQ(option(SOL_SOCKET, SO_ERROR), ECONNREFUSED);
  EXPECT_EQ(option(SOL_SOCKET, SO_ERROR), 0);
  EXPECT_EQ(polled(POLLOUT), POLLOUT | POLLHUP);
}

TEST_F(Calls, options_can_be_read) {
  EXPECT_EQ(option(IPPROTO_IP, IP_TOS), 0);
  const int tos = IPTOS_THROUGHPUT;
  ASSERT_EQ(rsetsockopt(fd_, IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
  EXPECT_EQ(option(IPPROTO_IP, IP_TOS), tos);
  EXPECT_EQ(option(SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  EXPECT_EQ(option(SOL_SOCKET, SO_ACCEPTCONN), 0);
  ASSERT_EQ(rlisten(fd_, 1), 0);
  EXPECT_EQ(option(SOL_SOCKET, SO_ACCEPTCONN), 1);
}

TEST_F(Calls, flags_of_the_socket_and_of_its_number) {
  EXPECT_EQ(rfcntl(fd_, F_GETFL), O_RDWR | O_NONBLOCK);
  EXPECT_EQ(rfcntl(fd_, F_SETFL, 0), 0);
  EXPECT_EQ(rfcntl(fd_, F_GETFL), O_RDWR);
  EXPECT_EQ(rfcntl(fd_, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(rfcntl(fd_, F_SETFD, 0), 0);
  EXPECT_EQ(rfcntl(fd_, F_GETFD), 0);
  EXPECT_EQ(fcntl(fd_, F_GETFD), 0) << "the descriptor itself";
  EXPECT_REFUSED(ENOTSUP, rfcntl(fd_, F_GETLK));
}

TEST_F(Calls, closing_a_listener_ends_accept) {
  ASSERT_EQ(rfcntl(fd_, F_SETFL, 0), 0);
  ASSERT_EQ(rlisten(fd_, 1), 0);
  std::shared_ptr<Socket> socket = find_socket(fd_);
  std::thread acceptor([&] { EXPECT_REFUSED(EBADF, raccept(fd_, nullptr, nullptr)); });
  // It is in the call as soon as it has a part in the socket; whether it sleeps yet is one.
  while (socket.use_count() < 3) std::this_thread::yield();
  EXPECT_EQ(rclose(fd_), 0);
  acceptor.join();
  EXPECT_REFUSED(EBADF, rclose(fd_));
  fd_ = -1;
}

TEST_F(Calls, shutting_a_listener_down_ends_accept) {
  ASSERT_EQ(rfcntl(fd_, F_SETFL, 0), 0);
  ASSERT_EQ(rlisten(fd_, 1), 0);
  std::shared_ptr<Socket> socket = find_socket(fd_);
  std::thread acceptor([&] { EXPECT_REFUSED(EINVAL, raccept(fd_, nullptr, nullptr)); });
  while (socket.use_count() < 3) std::this_thread::yield();
  EXPECT_EQ(rshutdown(fd_, SHUT_RD), 0);
  acceptor.join();
  EXPECT_REFUSED(ENOTCONN, rshutdown(fd_, SHUT_RD));
  EXPECT_EQ(rlisten(fd_, 1), 0);
}

TEST_F(Calls, a_child_of_fork_has_none_of_its_parents_sockets) {
  ASSERT_EQ(rlisten(fd_, 1), 0);
  fake().emit_request();
  const pid_t child = fork();
  if (child == 0) {
    fake().fork_callback()();
    fake().calls.clear();
    char byte = 0;
    bool right = rsend(fd_, &byte, 1, 0) == -1 && errno == EBADF;
    right = right && fcntl(fd_, F_GETFD) >= 0 && rclose(fd_) == 0 && fcntl(fd_, F_GETFD) < 0;
    right = right && rclose(fd_) == -1 && errno == EBADF;
    right = right && fake().calls.empty();  // the parent's peers hear nothing
    const int own = rsocket(AF_INET, SOCK_STREAM, 0);
    right = right && own == fd_ && rbind(own, plain(peer_), sizeof peer_) == 0;
    _exit(right ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(polled(POLLIN), POLLIN) << "the parent's socket goes on";
}

}  // namespace
}  // namespace verbena::test
