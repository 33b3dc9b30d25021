// Processes that connect through the host's broker: what the tests of ports, lines and events
// share.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <mutex>

#include "host/cm_port.h"
#include "host/process.h"
#include "roads.h"

namespace verbena::host {

inline constexpr uint16_t kPort = 7471;

inline engine::Gid loopback() {
  const uint8_t address[4] = {127, 0, 0, 1};
  return engine::Gid::from_ipv4(address);
}

inline std::mutex g_mutex;
inline std::deque<cm::Event> g_events;

inline void sink(cm::Event&& event) {
  std::lock_guard lock(g_mutex);
  g_events.push_back(std::move(event));
}

inline CmPort& port() {
  static CmPort* port = [] {
    cm_port().sink(sink);
    return &cm_port();
  }();
  return *port;
}

// The next event but the end of a timewait, which comes when it comes. It must be of that type, or
// the process ends.
inline cm::Event expect(cm::EventType type, int timeout_ms = 5000) {
  cm::Event event;
  const bool came = lab::eventually(
      [&] {
        std::lock_guard lock(g_mutex);
        if (g_events.empty()) return false;
        event = std::move(g_events.front());
        g_events.pop_front();
        return event.type != cm::EventType::kTimewaitExit;
      },
      timeout_ms);
  DEMAND(came);
  if (event.type != type)
    fprintf(stderr, "event %d, not %d\n", static_cast<int>(event.type), static_cast<int>(type));
  DEMAND(event.type == type);
  return event;
}

// `qpn`: as of a process's first queue pair, or another of each process: a server that does not
// answer its DREQ keeps it connected.
inline cm::ConnectRequest request(uint32_t qpn = 0x120000 |
                                                 (static_cast<uint32_t>(getpid()) & 0xffff)) {
  cm::ConnectRequest request;
  request.route.source = request.route.destination = loopback();
  request.source_port = port().ephemeral_port();
  request.destination_port = kPort;
  request.qp.qpn = qpn;
  request.qp.starting_psn = 77;
  request.private_data = {1, 2, 3};
  return request;
}

class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    REQUIRE_PRIVATE_NETWORK();
    setenv("VERBENA_BROKER", VERBENA_BROKER_PATH, 1);
  }
};

inline pid_t broker_pid() {
  auto observer = broker::Observer::open();
  return observer ? observer->host_page().broker_pid.load() : 0;
}

inline Result<CmBinding> bind_port(uint16_t number) {
  return port().bind(cm::PortSpace::kTcp, number, loopback(), false, false);
}

}  // namespace verbena::host
