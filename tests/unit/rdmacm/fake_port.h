// FakePort: a connection manager that does what a test says and remembers what it was asked. The
// devices and queue pairs beside it are real (loopback).
#pragma once

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/resource.h>

#include <map>
#include <string>
#include <vector>

#include "host/cm_port.h"

namespace verbena::test {

class FakePort final : public host::CmPort {
 public:
  void sink(Sink sink) override { sink_ = sink; }
  void forked(Forked forked) override { forked_ = forked; }
  Result<void> open() override { return outcome("open"); }
  Result<host::CmBinding> bind(cm::PortSpace space, uint16_t port, const engine::Gid& address,
                               bool reuse, bool one_family) override;
  Result<void> listen(const host::CmBinding& binding, uint32_t backlog) override;
  void release(const host::CmBinding& binding) override;
  uint16_t ephemeral_port() override { return 40000; }
  Result<cm::Handle> connect(const cm::ConnectRequest& request,
                             const std::function<void(cm::Handle)>& known) override;
  void request_taken(cm::Handle) override { calls.push_back("request_taken"); }
  Result<void> accept(cm::Handle connection, const cm::QpParameters& qp,
                      std::span<const uint8_t> data) override;
  Result<void> reject(cm::Handle connection, uint16_t reason,
                      std::span<const uint8_t> data) override;
  Result<void> establish(cm::Handle) override { return outcome("establish"); }
  Result<void> communication_established(cm::Handle) override { return outcome("notify"); }
  Result<void> disconnect(cm::Handle) override { return outcome("disconnect"); }
  void destroy(cm::Handle connection) override { destroyed.push_back(connection); }
  Result<LocalEnd> local_end(const engine::Gid& source, const engine::Gid& destination,
                             uint32_t scope_id) override;
  int wait_readable(int fd) override;  // at most 2 s: ETIME
  void explain(const std::string& text) override { explained.push_back(text); }
  bool explaining() const override { return true; }

  // As the connection manager says it.
  void emit(cm::Event event) { sink_(std::move(event)); }
  cm::Event event(cm::EventType type) const;  // of `last`
  void emit_response(uint32_t qpn);
  void emit_request(bool datagram = false);  // to the listener bound last; `last`: its connection
  // Waits, on another thread, until the program has asked for that many connections.
  void await_connects(uint32_t count);
  void clear();
  Forked fork_callback() const { return forked_; }

  std::map<std::string, int> errors;  // call -> errno it fails with
  std::vector<std::string> calls, explained;
  std::vector<cm::Handle> destroyed;
  cm::Handle last, listener;
  cm::ConnectRequest request;
  cm::QpParameters accepted;
  std::vector<uint8_t> data;  // of the last accept or reject
  uint16_t reason = 0;
  uint32_t backlog = 0;
  uint16_t bound_port = 0;
  engine::Gid bound_address;
  bool bound_reuse = false, bound_one_family = false;
  engine::Gid local_source;  // all zero: as asked, or loopback
  int wait_error = 0;        // what wait_readable gives

 private:
  Result<void> outcome(const std::string& call);
  Sink sink_ = nullptr;
  Forked forked_ = nullptr;
  uint32_t next_ = 1;
  uint32_t connects_ = 0;  // by std::atomic_ref
};

FakePort& fake();
engine::Gid loopback();
sockaddr_in ipv4(const char* text, uint16_t port);
inline sockaddr* plain(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

// How many descriptors this process has.
size_t descriptors();

// As long as it lives, no descriptor is left.
class NoDescriptors {
 public:
  NoDescriptors();
  ~NoDescriptors();
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

// Expects -1 with this errno.
#define EXPECT_REFUSED(code, call) \
  do {                             \
    errno = 0;                     \
    EXPECT_EQ((call), -1);         \
    EXPECT_EQ(errno, (code));      \
  } while (false)

// A channel and ids on it, as programs have them.
class Rdmacm : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  rdma_cm_id* make(rdma_port_space space = RDMA_PS_TCP, bool synchronous = false);
  void destroy(rdma_cm_id* id);  // with its queue pair
  // An id with an address, a device and a route.
  rdma_cm_id* routed(rdma_port_space space = RDMA_PS_TCP, bool synchronous = false);
  void add_qp(rdma_cm_id* id);
  // Takes the next event, which must be of this type; acknowledged at the end of the test unless
  // ack() came before.
  rdma_cm_event* take(rdma_cm_event_type type, int status = 0);
  void ack();
  bool empty();  // no event waits

  rdma_event_channel* channel_ = nullptr;
  std::vector<rdma_cm_id*> ids_;
  std::vector<rdma_cm_event*> taken_;
};

}  // namespace verbena::test
