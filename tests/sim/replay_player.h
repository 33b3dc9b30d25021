// A capture of Linux rxe and one queue pair of ours in the place of one of its ends.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "engine/device.h"
#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/pcap.h"

namespace verbena::sim::test {

using engine::QpState;
using engine::QpType;
using engine::WrOpcode;
using wire::Operation;

inline constexpr uint32_t kMtu = 1024;
inline constexpr size_t kMemory = 1u << 20;

struct Captured {
  bool request = false;
  engine::Gid source, destination;
  wire::Packet header;
  std::vector<uint8_t> payload;
  const wire::OpcodeInfo& info() const { return wire::opcode_info(header.opcode); }
};

inline engine::Gid mapped(const uint8_t* ip4) {
  engine::Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::memcpy(&gid.bytes[12], ip4, 4);
  return gid;
}

// The packets of a file whose ICRC is right.
inline std::vector<Captured> load(const std::string& name) {
  std::ifstream in(GOLDEN_DIR "/" + name + ".pcap", std::ios::binary);
  std::vector<uint8_t> file{std::istreambuf_iterator<char>(in), {}};
  wire::PcapReader reader(file);
  EXPECT_TRUE(reader.valid()) << name;
  std::vector<Captured> all;
  while (auto record = reader.next()) {
    auto frame = wire::parse_ethernet(record->data);
    if (!frame || wire::icrc_of(*frame) != wire::icrc_carried(*frame)) continue;
    wire::Parsed parsed = wire::parse(frame->udp_payload);
    if (parsed.error != wire::ParseError::kNone) continue;
    Captured c;
    c.header = parsed.packet;
    if (c.header.opcode == wire::Opcode::kCnp) continue;
    c.request = !c.info().response;
    c.payload.assign(parsed.payload.begin(), parsed.payload.end());
    if (frame->ipv6) {
      std::copy_n(std::begin(frame->ip6.source), 16, std::begin(c.source.bytes));
      std::copy_n(std::begin(frame->ip6.destination), 16, std::begin(c.destination.bytes));
    } else {
      c.source = mapped(std::data(frame->ip4.source));
      c.destination = mapped(std::data(frame->ip4.destination));
    }
    all.push_back(std::move(c));
  }
  EXPECT_FALSE(all.empty()) << name;
  return all;
}

// The conversations of a file: what one queue pair asked of another and was answered. Answers name
// only the asking queue pair; the conversation is the one whose PSNs, which begin at random, they
// carry. Management datagrams are left to tests/unit/cm.
inline std::vector<std::vector<Captured>> conversations(const std::string& name) {
  constexpr int32_t kFar = 4096;
  std::vector<std::vector<Captured>> all;
  for (Captured& p : load(name)) {
    if (p.header.dest_qpn == 1) continue;
    auto mine = std::find_if(all.begin(), all.end(), [&](const std::vector<Captured>& c) {
      if (p.request)
        return p.source == c[0].source && p.destination == c[0].destination &&
               p.header.dest_qpn == c[0].header.dest_qpn;
      const int32_t after = p.header.psn.distance(c[0].header.psn);
      return p.source == c[0].destination && p.destination == c[0].source && after >= 0 &&
             after < kFar;
    });
    if (mine != all.end())
      mine->push_back(std::move(p));
    else if (p.request)
      all.push_back({std::move(p)});
    else
      ADD_FAILURE() << name << ": an answer to nothing";
  }
  return all;
}

inline QpType type_of(const Captured& p) {
  if (p.info().transport == wire::Transport::kUc) return QpType::kUc;
  return p.info().transport == wire::Transport::kUd ? QpType::kUd : QpType::kRc;
}

// What is compared. Credits are not: rxe has none and always says 31, we say what is posted.
inline std::string text(const wire::Packet& h, const std::vector<uint8_t>& payload) {
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  std::string all = fmt::format("{} {:x}", info.name(), h.psn.value());
  if (info.has(wire::Header::kAeth)) {
    bool ack = (h.aeth.syndrome & 0xe0) == 0;
    all += fmt::format(" syndrome {:x} msn {}", ack ? 0 : h.aeth.syndrome, h.aeth.msn);
  }
  if (info.has(wire::Header::kReth))
    all += fmt::format(" {:x}/{:x}+{}", h.reth.address, h.reth.rkey, h.reth.length);
  if (info.has(wire::Header::kAtomicEth))
    all += fmt::format(" {:x}/{:x} {:x} {:x}", h.atomic.address, h.atomic.rkey, h.atomic.swap_add,
                       h.atomic.compare);
  if (info.operation == Operation::kAtomicAcknowledge)
    all += fmt::format(" original {:x}", h.atomic_original);
  if (h.solicited) all += " solicited";
  if (info.immediate) all += fmt::format(" imm {:x}", h.immediate_be);
  if (info.invalidate) all += fmt::format(" inv {:x}", h.invalidate_rkey);
  all += fmt::format(" {} bytes", payload.size());
  for (uint8_t byte : payload) all += fmt::format("{:02x}", byte);
  return all;
}

inline bool is_ack(const wire::Packet& h) {
  return wire::opcode_info(h.opcode).operation == Operation::kAcknowledge &&
         (h.aeth.syndrome & 0xe0) == 0;
}

// One device with one queue pair that has the number and the peer of the capture.
class Player : public engine::PacketSink {
 public:
  Player(QpType type, uint32_t qpn, uint32_t peer_qpn, const Captured& first, uint32_t psn)
      : storage_(kMemory / 8), memory(reinterpret_cast<uint8_t*>(storage_.data())) {
    region.domain = &domain_;
    region.length = kMemory;
    region.base = memory;
    region.access =
        memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
    device.keys().insert(&region);
    engine::QpInit init{.type = type, .domain = &domain_, .send_cq = &cq, .receive_cq = &cq};
    init.send = {512, 1, 0};
    init.receive_work_requests = 512;
    init.receive_sges = 1;
    while (!qp) {
      qp = *device.create_qp(init);
      if (qp->qpn() == qpn) break;
      device.destroy_qp(qp);
      qp = nullptr;
    }
    at.route.source = first.destination;
    at.route.destination = first.source;
    at.route_is_global = true;
    at.path_mtu = 3;
    at.dest_qpn = peer_qpn;
    at.rq_psn = at.sq_psn = psn;
    at.access = region.access;
    at.max_dest_rd_atomic = at.max_rd_atomic = 16;
    at.timeout = 14;
    at.retry_cnt = at.rnr_retry = 7;
  }

  void ready() {
    using namespace engine;
    bool rc = qp->type() == QpType::kRc, ud = qp->type() == QpType::kUd;
    at.state = QpState::kInit;
    modify(kAttrState | kAttrPkeyIndex | kAttrPort | (ud ? kAttrQkey : kAttrAccessFlags));
    at.state = QpState::kRtr;
    modify(kAttrState | (ud ? 0u : kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn) |
           (rc ? kAttrMaxDestRdAtomic | kAttrMinRnrTimer : 0u));
    at.state = QpState::kRts;
    modify(kAttrState | kAttrSqPsn |
           (rc ? kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic : 0u));
  }

  void feed(const Captured& packet, const wire::Packet& header) {
    engine::RxPacket rx;
    rx.header = header;
    rx.header.dest_qpn = qp->qpn();
    rx.source = at.route.destination;
    rx.destination = at.route.source;
    std::vector<uint8_t> bytes = packet.payload;
    memory::Segment segment{bytes.data(), bytes.size()};
    rx.payload = {{&segment, 1}, static_cast<uint32_t>(bytes.size()), nullptr};
    device.receive(now, rx);
    transmit();
  }
  void transmit() {
    while (device.transmit(now, *this) == engine::TransmitResult::kMore) {
    }
  }
  void to_deadline() {
    now = device.next_deadline();
    device.on_time(now);
    transmit();
  }
  bool send(const engine::TxPacket& packet) override {
    std::vector<uint8_t> payload(packet.payload.length);
    EXPECT_TRUE(packet.payload.copy_out(0, payload.data(), payload.size()));
    EXPECT_EQ(packet.header.dest_qpn, at.dest_qpn);
    sent.emplace_back(packet.header, std::move(payload));
    return true;
  }

 private:
  void modify(uint32_t mask) {
    auto done = qp->modify(now, at, mask);
    ASSERT_TRUE(done) << done.error().message;
  }
  memory::ProtectionDomain domain_;
  std::vector<uint64_t> storage_;

 public:
  engine::CompletionQueue cq{2048};
  engine::Device device{engine::DeviceOptions{}};
  uint8_t* memory;
  memory::MemoryRegion region;
  engine::QpAttributes at;
  engine::QueuePair* qp = nullptr;
  Instant now{1000};
  std::vector<std::pair<wire::Packet, std::vector<uint8_t>>> sent;
};

}  // namespace verbena::sim::test
