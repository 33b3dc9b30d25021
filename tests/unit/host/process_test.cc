// Whole processes against each other: data, death, silence, progress without polls, fork.
#include "host/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab.h"
#include "peer.h"

namespace verbena::host {
namespace {

using engine::WcStatus;
using engine::WrOpcode;
using lab::Child;

// Both roads between two processes of one host.
class Roads : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!lab::enter_private_network()) GTEST_SKIP() << "no private network namespace permitted";
    setenv("VERBENA_LOCAL", GetParam() ? "on" : "off", 1);
    setenv("VERBENA_BROKER", VERBENA_BROKER_PATH, 1);
  }
  static engine::Path expected() { return GetParam() ? engine::Path::kLocal : engine::Path::kWire; }
};

// Lets two children learn each other's queue pair.
void introduce(Child& a, Child& b) {
  std::string info_a = a.receive(), info_b = b.receive();
  a.send(info_b);
  b.send(info_a);
  EXPECT_EQ(a.receive(), "connected");
  EXPECT_EQ(b.receive(), "connected");
}

void meet(int socket, Peer& peer) {
  lab::say(socket, peer.info());
  peer.connect(lab::hear(socket));
  lab::say(socket, "connected");
}

#define DEMAND(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: child: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                              \
    }                                                                        \
  } while (false)

void fill(Peer& peer, uint8_t seed) {
  for (size_t i = 0; i < (1 << 20); ++i)
    peer.bytes()[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
}

TEST_P(Roads, send_write_and_read_carry_the_bytes) {
  constexpr size_t kHalf = 1 << 19;
  Child b([](int socket) {
    Peer peer;
    fill(peer, 9);
    memset(peer.bytes(), 0, kHalf);
    DEMAND(peer.post_receive(0, 5000) == 0);
    meet(socket, peer);
    DEMAND(peer.path() == expected());
    engine::WorkCompletion received = peer.wait();
    DEMAND(received.status == WcStatus::kSuccess && received.byte_len == 4321);
    for (size_t i = 0; i < 4321; ++i)
      DEMAND(peer.bytes()[i] == static_cast<uint8_t>(i * 7 + i / 251 + 1));
    lab::say(socket, "received");
    lab::hear(socket);
    for (size_t i = 0; i < 300'001; ++i)
      DEMAND(peer.bytes()[100 + i] == static_cast<uint8_t>(i * 7 + i / 251 + 1));
    lab::say(socket, "checked");
    lab::hear(socket);
  });
  Child a([](int socket) {
    Peer peer;
    fill(peer, 1);
    meet(socket, peer);
    lab::hear(socket);
    DEMAND(peer.post_send(WrOpcode::kSend, 0, 4321, 0) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    lab::say(socket, "sent");
    lab::hear(socket);
    DEMAND(peer.post_send(WrOpcode::kRdmaWrite, 0, 300'001, 100) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    lab::say(socket, "written");
    lab::hear(socket);
    DEMAND(peer.post_send(WrOpcode::kRdmaRead, 77, 400'003, kHalf + 3) == 0);
    DEMAND(peer.wait().status == WcStatus::kSuccess);
    for (size_t i = 0; i < 400'003; ++i) {
      size_t at = kHalf + 3 + i;
      DEMAND(peer.bytes()[77 + i] == static_cast<uint8_t>(at * 7 + at / 251 + 9));
    }
    lab::say(socket, "read");
  });
  introduce(a, b);
  a.send("go");
  EXPECT_EQ(b.receive(), "received");
  EXPECT_EQ(a.receive(), "sent");
  a.send("go");
  EXPECT_EQ(a.receive(), "written");
  b.send("check");
  EXPECT_EQ(b.receive(), "checked");
  a.send("go");
  EXPECT_EQ(a.receive(), "read");
  b.send("end");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Roads, testing::Bool(),
                         [](const auto& info) { return info.param ? "local" : "wire"; });

}  // namespace
}  // namespace verbena::host
