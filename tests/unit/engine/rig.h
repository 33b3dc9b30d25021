// The bench of the packet-script tests: one device whose peer is the test. What the device sends is
// collected; what the peer answers is written down packet by packet; time moves when the test says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "engine/device.h"

namespace verbena::engine::test {

using wire::Opcode;

inline constexpr uint32_t kPeerQpn = 0x4321;
inline constexpr uint32_t kAllAccess =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic |
    memory::kMwBind | memory::kFlushGlobal | memory::kFlushPersistent;

inline Gid gid(uint8_t last) {
  Gid g;
  g.bytes[10] = g.bytes[11] = 0xff;
  g.bytes[12] = 10;
  g.bytes[15] = last;
  return g;
}

struct Sent {
  wire::Packet header;
  std::vector<uint8_t> payload;
  AddressVector route;
  bool by_reference = false;
  Opcode opcode() const { return header.opcode; }
  uint32_t psn() const { return header.psn.value(); }
  uint8_t syndrome() const { return header.aeth.syndrome; }
};

class Catcher : public PacketSink {
 public:
  bool send(const TxPacket& packet) override;
  std::vector<Sent> sent;
  uint32_t room = UINT32_MAX;  // packets it takes before it is full
};

struct RigOptions {
  QpType type = QpType::kRc;
  uint8_t mtu = 1;  // path MTU code: 1 is 256 bytes
  uint32_t sq_psn = 100;
  uint32_t rq_psn = 200;
  uint8_t max_rd_atomic = 4;
  uint8_t max_dest_rd_atomic = 4;
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;
  uint32_t access = kAllAccess;
  uint32_t qkey = 0x1111;
  uint32_t work_requests = 64;
  uint32_t sges = 4;
  uint32_t inline_bytes = 64;
  uint32_t cqe = 256;
  bool signal_all = false;
  bool use_srq = false;
  uint32_t srq_work_requests = 16;
  Path path = Path::kWire;
  uint8_t port = 0;
  QpState state = QpState::kRts;
  uint32_t port_mtu = 4096;
  uint32_t max_dest = 128;  // READs and atomics the device takes as responder
  uint8_t lane = 0;
  DeviceOptions device{.seed = 7, .explain = true};
  std::function<std::unique_ptr<CongestionControl>()> control;  // of each queue pair made
  ReorderSettings disorder;
};

class Rig {
 public:
  static constexpr size_t kMemory = 1 << 20;

  explicit Rig(const RigOptions& options = {});
  ~Rig();

  // A queue pair like the first one, brought to `options.state`.
  QueuePair* make(const RigOptions& options);
  Result<void> modify(QueuePair* qp, QpState to);
  Sge sge(size_t offset, uint32_t length) const { return {address(offset), length, region.key}; }
  // Also of places outside the memory.
  uint64_t address(size_t offset) const { return reinterpret_cast<uint64_t>(memory) + offset; }

  // Posting. The SGE lists live as long as the rig.
  SendRequest request(WrOpcode opcode, std::initializer_list<Sge> sges, uint32_t flags = kSignaled);
  SendRequest remote(WrOpcode opcode, std::initializer_list<Sge> sges, uint64_t address,
                     uint32_t rkey, uint32_t flags = kSignaled);
  int post(const SendRequest& request) { return qp->post_send(now, request); }
  int post_recv(uint64_t wr_id, std::initializer_list<Sge> sges) {
    return qp->post_receive(wr_id, sges);
  }
  int send(uint32_t length, uint32_t flags = kSignaled) {
    return post(request(WrOpcode::kSend, {sge(0, length)}, flags));
  }
  int write(uint32_t length, uint32_t flags = kSignaled) {
    return post(remote(WrOpcode::kRdmaWrite, {sge(0, length)}, 0x10000, 0x77, flags));
  }
  int read(uint32_t length, uint32_t flags = kSignaled) {
    return post(remote(WrOpcode::kRdmaRead, {sge(0x80000, length)}, 0x10000, 0x77, flags));
  }

  // What the device sends now, all of it.
  std::vector<Sent> transmit();
  // Moves time to `to` (from the start) and lets timers fire.
  void time(Duration to);
  void pass(Duration d) { time(now - Instant{} + d); }

  // What the peer sends.
  wire::Packet packet(Opcode opcode, uint32_t psn, bool ack_request = false) const;
  void receive(const wire::Packet& header, std::vector<uint8_t> payload = {});
  void receive(RxPacket packet, std::vector<uint8_t> payload);
  void ack(uint32_t psn, uint8_t syndrome = 0x1f, uint32_t msn = 0);
  void read_response(Opcode opcode, uint32_t psn, std::vector<uint8_t> payload);
  wire::Packet write_request(Opcode opcode, uint32_t psn, size_t offset, uint32_t length) const;
  wire::Packet atomic(Opcode opcode, uint32_t psn, size_t offset, uint64_t swap_add,
                      uint64_t compare = 0) const;
  wire::Packet read_request(uint32_t psn, size_t offset, uint32_t length) const {
    return write_request(Opcode::kRcReadRequest, psn, offset, length);
  }

  std::vector<WorkCompletion> poll(CompletionQueue& cq) const;
  std::vector<WorkCompletion> poll_send() { return poll(*send_cq); }
  std::vector<WorkCompletion> poll_receive() { return poll(*receive_cq); }
  // Events of one kind reported since the last call.
  std::vector<Event> take_events();
  std::vector<AsyncType> take_async();
  Counters& counters() { return device.counters(); }

  RigOptions options;
  Instant now{1'000'000};
  Device device;
  memory::ProtectionDomain domain, other_domain;
  XrcDomain xrc_domain;
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* memory;
  memory::MemoryRegion region;
  std::unique_ptr<CompletionQueue> send_cq, receive_cq;
  std::unique_ptr<SharedReceiveQueue> srq;
  QueuePair* qp = nullptr;
  Catcher sink;
  AddressVector route;
  std::vector<uint8_t> gift;  // payload scratch

 private:
  std::vector<std::unique_ptr<std::vector<Sge>>> lists_;
};

std::vector<uint8_t> bytes(size_t count, uint8_t first = 1);

// "wr_id:status" of each completion, for one-line comparisons.
std::vector<std::string> summary(const std::vector<WorkCompletion>& completions);
// "OPCODE psn" of each packet.
std::vector<std::string> summary(const std::vector<Sent>& packets);

// The eight bytes at `offset` of the rig's memory.
inline uint64_t word(const Rig& rig, size_t offset) {
  uint64_t value;
  std::memcpy(&value, rig.memory + offset, 8);
  return value;
}

}  // namespace verbena::engine::test
