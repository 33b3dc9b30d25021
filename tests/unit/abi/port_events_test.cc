// Asynchronous events of the port, in a network namespace of the test's own: its loopback goes up
// and down and gets addresses.
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "lab.h"
#include "verbs_fixture.h"

namespace verbena::test {
namespace {

void set_up(bool up) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  ASSERT_EQ(ioctl(fd, SIOCGIFFLAGS, &request), 0);
  request.ifr_flags =
      static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  ASSERT_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0);
  close(fd);
}

void add_address(const char* label, const char* address) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  strcpy(request.ifr_name, label);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  inet_pton(AF_INET, address, &to.sin_addr);
  memcpy(&request.ifr_addr, &to, sizeof to);
  ASSERT_EQ(ioctl(fd, SIOCSIFADDR, &request), 0) << strerror(errno);
  close(fd);
}

// Whether `wanted` is among the events that come within two seconds.
bool comes(ibv_context* context, ibv_event_type wanted) {
  for (;;) {
    pollfd one{context->async_fd, POLLIN, 0};
    if (poll(&one, 1, 2000) <= 0) return false;
    ibv_async_event event;
    if (ibv_get_async_event(context, &event) != 0) return false;
    if (event.event_type != IBV_EVENT_GID_CHANGE) {
      EXPECT_EQ(event.element.port_num, 1);
    }
    ibv_ack_async_event(&event);
    if (event.event_type == wanted) return true;
  }
}

// Two threads wait for the events of one context, without a background thread: each event goes to
// one of them, and whoever is left hears the next change too.
TEST(PortEvents, AnEventForOneLeavesTheOtherWaiting) {
  if (!lab::enter_private_network()) GTEST_SKIP() << "no user and network namespaces here";
  set_up(true);
  ibv_context* context = open_loopback();
  ASSERT_TRUE(context);
  std::atomic<int> waiting{0}, got{0};
  auto wait = [&] {
    ibv_async_event event{};
    ++waiting;
    EXPECT_EQ(ibv_get_async_event(context, &event), 0) << strerror(errno);
    EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
    ++got;
  };
  auto comes_to = [&got](int wanted) {
    for (int i = 0; i < 500 && got < wanted; ++i) usleep(10'000);
    usleep(100'000);
    return got == wanted;
  };
  std::thread one(wait), other(wait);
  while (waiting < 2) usleep(1000);
  usleep(100'000);
  add_address("lo:5", "10.9.8.5");
  EXPECT_TRUE(comes_to(1)) << got;
  // Who does not wait is not held up by who does, and that one is a read that began as blocking.
  fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(got, 1);
  add_address("lo:4", "10.9.8.4");
  EXPECT_TRUE(comes_to(2)) << got;
  fcntl(context->async_fd, F_SETFL, 0);
  one.join();
  other.join();
  EXPECT_EQ(ibv_close_device(context), 0);
}

// Whether `wanted` is among the events that a non-blocking look finds now.
bool has_come(ibv_context* context, ibv_event_type wanted) {
  bool told = false;
  ibv_async_event event;
  while (ibv_get_async_event(context, &event) == 0) told |= event.event_type == wanted;
  return told;
}

// How many events wait for a program that did not ask during 100 changes of the link.
int kept_of_a_hundred(ibv_context* changed, ibv_context* silent) {
  for (int i = 0; i < 100; ++i) {
    set_up(i % 2 == 1);
    ibv_port_attr port;
    EXPECT_EQ(ibv_query_port(changed, 1, &port), 0);
    fcntl(silent->async_fd, F_SETFL, 0);
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_free_device_list(list);
  }
  fcntl(silent->async_fd, F_SETFL, O_NONBLOCK);
  int count = 0;
  ibv_async_event event;
  while (ibv_get_async_event(silent, &event) == 0) ++count;
  return count;
}

TEST(PortEvents, LinkAndAddressChangesAreTold) {
  if (!lab::enter_private_network()) GTEST_SKIP() << "no user and network namespaces here";
  set_up(true);
  ibv_context* context = open_loopback();
  ibv_context* other = open_loopback();
  ASSERT_TRUE(context && other);
  ibv_async_event event{};

  // Without a queue pair there is no thread; whoever waits in the call hears it.
  std::thread changer([] {
    usleep(50'000);
    add_address("lo:1", "10.9.8.7");
  });
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(event.element.port_num, 1);
  changer.join();
  EXPECT_TRUE(comes(other, IBV_EVENT_GID_CHANGE)) << "every context of the device is told";

  // Nor does a non-blocking look miss it, or invent one.
  fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  while (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  EXPECT_EQ(errno, EAGAIN);
  set_up(false);
  EXPECT_TRUE(has_come(context, IBV_EVENT_PORT_ERR));
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  set_up(true);
  EXPECT_TRUE(has_come(context, IBV_EVENT_PORT_ACTIVE));

  // With a queue pair the background thread wakes programs that poll the descriptor.
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init = qp_attr(IBV_QPT_UD, cq);
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr) << strerror(errno);
  while (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  add_address("lo:2", "10.9.8.6");
  EXPECT_TRUE(comes(context, IBV_EVENT_GID_CHANGE));
  set_up(false);
  EXPECT_TRUE(comes(context, IBV_EVENT_PORT_ERR));
  set_up(true);
  EXPECT_TRUE(comes(context, IBV_EVENT_PORT_ACTIVE));

  // A program that never asks does not pile them up.
  int count = kept_of_a_hundred(context, other);
  EXPECT_GE(count, 64);
  EXPECT_LE(count, 66) << "64 and what the last look found";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

}  // namespace
}  // namespace verbena::test
