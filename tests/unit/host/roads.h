// Two processes that meet, over either road: the frame of the host room's process tests.
#pragma once

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "broker/client.h"
#include "lab.h"
#include "peer.h"

namespace verbena::host {

using engine::WcStatus;
using engine::WrOpcode;
using lab::Child;

#ifdef __has_feature
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
inline constexpr bool kSanitized = kThreadSanitizer || __has_feature(address_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
inline constexpr bool kSanitized = false;
#endif

// Both roads between two processes of one host.
class Roads : public testing::TestWithParam<bool> {
 public:
  void SetUp() override {
    if (!lab::enter_private_network()) GTEST_SKIP() << "no private network namespace permitted";
    setenv("VERBENA_LOCAL", GetParam() ? "on" : "off", 1);
    setenv("VERBENA_BROKER", VERBENA_BROKER_PATH, 1);
  }
  static engine::Path expected() { return GetParam() ? engine::Path::kLocal : engine::Path::kWire; }
};

// Lets two children learn each other's queue pair.
inline void introduce(Child& a, Child& b) {
  std::string info_a = a.receive(), info_b = b.receive();
  a.send(info_b);
  b.send(info_a);
  EXPECT_EQ(a.receive(), "connected");
  EXPECT_EQ(b.receive(), "connected");
  a.send("both");
  b.send("both");
}

inline void meet(int socket, Peer& peer) {
  lab::say(socket, peer.info());
  peer.connect(lab::hear(socket));
  lab::say(socket, "connected");
  lab::hear(socket);  // both are: what is sent now is not lost
}

// Hears, and sees what the background thread wrote before: the lock orders the two (a fact that
// the thread sanitizer needs, not the hardware).
inline std::string hear(int socket, int timeout_ms = 10'000) {
  std::string text = lab::hear(socket, timeout_ms);
  Process::Guard guard(Process::get());
  return text;
}

inline void say(int socket, const std::string& text) {
  {
    Process::Guard guard(Process::get());
  }
  lab::say(socket, text);
}

#define DEMAND(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: child: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                              \
    }                                                                        \
  } while (false)

}  // namespace verbena::host
