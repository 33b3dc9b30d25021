// Captures of Linux rxe replayed: its requests into our responder, whose answers must be rxe's; its
// answers into our requester, whose requests must be rxe's. The capture is the peer: same queue
// pair numbers, PSNs, keys (translated), addresses and bytes. Where we differ on purpose the case
// says why.
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
namespace {

using engine::QpState;
using engine::QpType;
using engine::WrOpcode;
using wire::Operation;

constexpr uint32_t kMtu = 1024;
constexpr size_t kMemory = 1u << 20;

struct Captured {
  bool request = false;
  engine::Gid source, destination;
  wire::Packet header;
  std::vector<uint8_t> payload;
  const wire::OpcodeInfo& info() const { return wire::opcode_info(header.opcode); }
};

engine::Gid mapped(const uint8_t* ip4) {
  engine::Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::memcpy(&gid.bytes[12], ip4, 4);
  return gid;
}

// The packets of a file whose ICRC is right.
std::vector<Captured> load(const std::string& name) {
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

// What is compared. Credits are not: rxe has none and always says 31, we say what is posted.
std::string text(const wire::Packet& h, const std::vector<uint8_t>& payload) {
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
  if (info.immediate) all += fmt::format(" imm {:x}", h.immediate_be);
  if (info.invalidate) all += fmt::format(" inv {:x}", h.invalidate_rkey);
  all += fmt::format(" {} bytes", payload.size());
  for (uint8_t byte : payload) all += fmt::format("{:02x}", byte);
  return all;
}

bool is_ack(const wire::Packet& h) {
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
    bool rc = qp->type() == QpType::kRc;
    at.state = QpState::kInit;
    modify(kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    at.state = QpState::kRtr;
    modify(kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
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

struct Case {
  const char* file;
  const char* differs = "";        // why our answers are not rxe's, if so
  uint32_t receive_bytes = 65536;  // of each receive work request
  uint32_t missing_access = 0;     // of the region
  uint32_t missing_qp_access = 0;
  uint32_t cut = 0;  // bytes the region is too short
  bool good_key = true;
  bool no_receives = false;  // until the last request
  bool never_receives = false;
  bool window = false;  // requests name a window over all of the region, bound before
  // What happened behind the place of the capture, to the packet of that PSN above the first one's,
  // the first time it passed.
  int lost = -1;         // the request never arrived
  int twice = -1;        // it arrived twice
  int swapped = -1;      // the request after it arrived first
  int answer_lost = -1;  // rxe's answer never arrived where the capture was made
};

// --- rxe asks, we answer.

class Responding {
 public:
  explicit Responding(const Case& c) : case_(c), packets_(load(c.file)) {
    const Captured* first = nullptr;
    uint32_t peer = 0x11;
    for (const Captured& p : packets_) {
      if (p.request && !first) first = &p;
      if (!p.request) peer = p.header.dest_qpn;
    }
    player_ = std::make_unique<Player>(QpType::kRc, first->header.dest_qpn, peer, *first,
                                       first->header.psn.value());
    player_->at.access &= ~c.missing_qp_access;
    player_->region.access &= ~c.missing_access;
    base_ = first->header.psn;
    find_range();
    find_lost();
    if (c.answer_lost >= 0) put_back(base_ + static_cast<uint32_t>(c.answer_lost));
    if (c.window) bind_window();
  }

  void run() {
    for (const Captured& p : packets_)
      if ((p.header.aeth.syndrome & 0xe0) == 0x20)
        player_->at.min_rnr_timer = p.header.aeth.syndrome & 0x1f;
    player_->ready();
    if (!case_.no_receives && !case_.never_receives) post_receives(200);
    size_t last = packets_.size();
    while (last > 0 && !packets_[last - 1].request) --last;
    for (size_t i = 0; i < packets_.size(); ++i) {
      const Captured& p = packets_[i];
      if (p.request) asked_ = p.header.psn;
      if (!p.request) {
        note_answer(p);
        continue;
      }
      if (i + 1 == last && case_.no_receives) post_receives(1);
      if (happens_first(case_.swapped, p)) {
        ask(i + 1);
        ask(i++);
        continue;
      }
      if (lost_.contains(i) || happens_first(case_.lost, p)) continue;
      ask(i);
      if (happens_first(case_.twice, p)) ask(i);
    }
    std::vector<std::string> ours;
    for (const auto& [header, payload] : player_->sent) add(ours, our_newest_, header, payload);
    EXPECT_EQ(ours, theirs_) << case_.differs;
  }

 private:
  void find_range() {
    uint64_t low = UINT64_MAX, high = 0;
    for (const Captured& p : packets_) {
      bool reth = p.info().has(wire::Header::kReth);
      if (!p.request || (!reth && !p.info().has(wire::Header::kAtomicEth))) continue;
      uint64_t address = reth ? p.header.reth.address : p.header.atomic.address;
      low = std::min(low, address & ~uint64_t{4095});
      high = std::max(high, address + (reth ? p.header.reth.length : 8));
    }
    if (high == 0) return;
    player_->region.iova = low;
    player_->region.length = high - low - case_.cut;
    ASSERT_LE(high - low, kMemory / 2);
  }

  // Whether `p` is the packet of a case's PSN, and the first such.
  bool happens_first(int psn, const Captured& p) {
    return psn >= 0 && p.header.psn == base_ + static_cast<uint32_t>(psn) &&
           happened_.insert(psn).second;
  }

  // The answer that was lost, as its repetition tells, to where it belongs: before the one that
  // follows it, or behind its request.
  void put_back(Psn psn) {
    std::optional<size_t> answer, next, request;
    for (size_t i = 0; i < packets_.size(); ++i) {
      const Captured& p = packets_[i];
      if (p.request && p.header.psn == psn && !request) request = i;
      if (!p.request && p.header.psn == psn && !answer) answer = i;
      if (!p.request && p.header.psn == psn + 1 && !next) next = i;
    }
    ASSERT_TRUE(answer && (next || request));
    Captured again = packets_[*answer];
    size_t at = next && *next < *answer ? *next : *request + 1;
    packets_.insert(packets_.begin() + static_cast<std::ptrdiff_t>(at), std::move(again));
  }

  void bind_window() {
    memory::MemoryRegion& region = player_->region;
    window_.domain = region.domain;
    window_.type = 2;
    window_.region = &region;
    window_.address = region.iova;
    window_.length = region.length;
    window_.access = memory::kRemoteWrite;
    window_.qpn = player_->qp->qpn();
    ++region.bound_windows;
    player_->device.keys().insert(&window_);
  }

  // The captures were made before the place of the losses: a sequence NAK tells what was lost.
  void find_lost() {
    if (case_.swapped >= 0) return;
    for (size_t i = 0; i < packets_.size(); ++i) {
      if (packets_[i].request || packets_[i].header.aeth.syndrome != 0x60) continue;
      if (packets_[i].info().operation != Operation::kAcknowledge || case_.never_receives) continue;
      for (size_t j = 0; j < i; ++j)
        if (packets_[j].request && packets_[j].header.psn == packets_[i].header.psn) {
          lost_.insert(j);
          break;
        }
    }
  }

  void post_receives(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      // Nobody looks into them here, so they share one place behind the region's range.
      engine::Sge sge{receive_region().iova, case_.receive_bytes, receive_region().key};
      ASSERT_EQ(player_->qp->post_receive(i, {&sge, 1}), 0);
    }
  }
  memory::MemoryRegion& receive_region() {
    if (receives_.key == 0) {
      receives_.domain = player_->region.domain;
      receives_.length = 65536;
      receives_.base = player_->memory + kMemory / 2;
      receives_.access = memory::kLocalWrite;
      player_->device.keys().insert(&receives_);
    }
    return receives_;
  }

  // Bytes that rxe will answer with and no WRITE has put there were there before.
  void know(uint64_t address, const uint8_t* bytes, size_t count, bool keep) {
    for (size_t i = 0; i < count; ++i) {
      size_t at = address + i - player_->region.iova;
      if (at >= player_->region.length || (keep && known_.contains(at))) continue;
      if (keep)
        player_->memory[at] = bytes[i];  // its program may have changed it between two READs
      else
        known_.insert(at);
    }
  }

  void ask(size_t i) {
    const Captured& p = packets_[i];
    wire::Packet header = p.header;
    if (case_.good_key) header.reth.rkey = header.atomic.rkey = player_->region.key;
    if (case_.window) header.reth.rkey = header.invalidate_rkey = window_.key;
    if (p.info().operation == Operation::kWrite) {
      if (p.info().begins_message()) write_at_ = header.reth.address;
      know(write_at_, p.payload.data(), p.payload.size(), false);
      write_at_ += p.payload.size();
    }
    for (size_t j = i + 1; j < packets_.size(); ++j) {
      const Captured& a = packets_[j];
      int32_t index = a.header.psn.distance(header.psn);
      if (a.request || index < 0) continue;
      if (p.info().operation == Operation::kReadRequest && !a.payload.empty() &&
          static_cast<uint32_t>(index) * kMtu < header.reth.length)
        know(header.reth.address + static_cast<uint32_t>(index) * kMtu, a.payload.data(),
             a.payload.size(), true);
      if (a.info().operation == Operation::kAtomicAcknowledge && index == 0) {
        uint64_t original = a.header.atomic_original;
        know(header.atomic.address, reinterpret_cast<uint8_t*>(&original), 8, true);
        know(header.atomic.address, reinterpret_cast<uint8_t*>(&original), 8, false);
      }
    }
    player_->feed(p, header);
  }

  // rxe acknowledges every duplicate packet, we those that ask: an acknowledgement that says
  // nothing new is left out on both sides.
  static void add(std::vector<std::string>& list, Psn& newest, const wire::Packet& header,
                  const std::vector<uint8_t>& payload) {
    if (is_ack(header)) {
      if (!list.empty() && !header.psn.after(newest)) return;
    }
    if (list.empty() || header.psn.after(newest)) newest = header.psn;
    list.push_back(text(header, payload));
  }

  void note_answer(const Captured& p) {
    wire::Packet header = p.header;
    if (case_.never_receives && header.aeth.syndrome == 0x60) return;
    if (header.aeth.syndrome == 0x63 && p.info().operation == Operation::kAcknowledge)
      header.aeth.syndrome = 0x61;
    if (case_.answer_lost >= 0 && header.psn == asked_ &&
        p.info().operation == Operation::kReadResponse && !p.info().begins_message()) {
      header.opcode = wire::Opcode::kRcReadResponseFirst;
      header.aeth =
          packets_[packets_.size() - 3].header.aeth;  // of the last response, before the atomic
    }
    bool repeated = case_.twice >= 0 && header.psn == base_ + static_cast<uint32_t>(case_.twice);
    if (repeated && is_ack(header)) return;  // of a packet that asks for none
    add(theirs_, their_newest_, header, p.payload);
  }

  Case case_;
  std::vector<Captured> packets_;
  memory::MemoryRegion receives_;
  memory::MemoryWindow window_;
  std::unique_ptr<Player> player_;
  std::set<size_t> lost_, known_;
  std::set<int> happened_;
  Psn base_, asked_;
  uint64_t write_at_ = 0;
  std::vector<std::string> theirs_;
  Psn our_newest_, their_newest_;
};

TEST(Replay, OurResponderAnswersAsRxeDoes) {
  constexpr const char* kTooShort =
      "rxe says remote operational error; a receive that is too short is an invalid request (IBA"
      " 9.7.4.1.6) and NAK 0x61 lets the requester report it as such";
  constexpr const char* kBehindRnr =
      "rxe sends a sequence NAK for what follows the refused SEND; the RNR NAK has said it";
  constexpr const char* kFirst =
      "rxe answers a READ that is repeated from its middle with a middle packet; its first answer"
      " is a first packet, as every response of several has";
  const Case kCases[] = {
      {.file = "rxe61/rc_atomic"},
      {.file = "rxe61/rc_bad_range", .cut = 1},
      {.file = "rxe61/rc_bad_rkey_atomic", .good_key = false},
      {.file = "rxe61/rc_bad_rkey_read", .good_key = false},
      {.file = "rxe61/rc_bad_rkey_write", .good_key = false},
      {.file = "rxe61/rc_inline_sge"},
      {.file = "rxe61/rc_mixed"},
      {.file = "rxe61/rc_mw", .window = true},
      {.file = "rxe61/rc_no_access", .missing_access = memory::kRemoteWrite},
      {.file = "rxe61/rc_psn_wrap"},
      {.file = "rxe61/rc_qp_no_access", .missing_qp_access = memory::kRemoteRead},
      {.file = "rxe61/rc_read"},
      {.file = "rxe61/rc_reads_1"},
      {.file = "rxe61/rc_reads_4"},
      {.file = "rxe61/rc_rnr", .no_receives = true},
      {.file = "rxe61/rc_rnr_exhaust", .differs = kBehindRnr, .never_receives = true},
      {.file = "rxe61/rc_send"},
      {.file = "rxe61/rc_send_ll"},
      {.file = "rxe61/rc_send_v6"},
      {.file = "rxe61/rc_short_recv", .differs = kTooShort, .receive_bytes = 50},
      {.file = "rxe61/rc_short_recv_multi", .differs = kTooShort, .receive_bytes = 1500},
      {.file = "rxe61/rc_srq"},
      {.file = "rxe61/rc_tclass"},
      {.file = "rxe61/rc_tclass_v6"},
      {.file = "rxe61/rc_write"},
      {.file = "rxe61-loss/ce_all"},
      {.file = "rxe61-loss/cnp_send"},
      {.file = "rxe61-loss/drop_send_mid"},
      {.file = "rxe61-loss/drop_two"},
      {.file = "rxe61-loss/drop_ack"},
      {.file = "rxe61-loss/flip_send"},
      {.file = "rxe61-loss/dup_send", .twice = 8},
      {.file = "rxe61-loss/dup_faa", .twice = 0x3c},
      {.file = "rxe61-loss/swap_send", .swapped = 8},
      {.file = "rxe61-loss/drop_faa", .lost = 0x3c},
      {.file = "rxe61-loss/drop_faa_ack", .answer_lost = 0x3c},
      {.file = "rxe61-loss/drop_read_mid", .differs = kFirst, .answer_lost = 0x30},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.file);
    Responding(c).run();
  }
}

// --- we ask, rxe answers

struct Asking {
  const char* file;
  std::vector<const char*> last = {};  // statuses at the end; the requests before succeed
  uint8_t rnr_retry = 7;
  bool in_turn = false;  // each request waits for the one before, as the program did
};

WrOpcode work_opcode(const wire::OpcodeInfo& info) {
  switch (info.operation) {
    case Operation::kReadRequest:
      return WrOpcode::kRdmaRead;
    case Operation::kCompareSwap:
      return WrOpcode::kAtomicCmpAndSwp;
    case Operation::kFetchAdd:
      return WrOpcode::kAtomicFetchAndAdd;
    case Operation::kWrite:
      return info.immediate ? WrOpcode::kRdmaWriteWithImm : WrOpcode::kRdmaWrite;
    default:
      if (info.invalidate) return WrOpcode::kSendWithInv;
      return info.immediate ? WrOpcode::kSendWithImm : WrOpcode::kSend;
  }
}

void replay_requests(const Asking& c) {
  std::vector<Captured> packets = load(c.file);
  std::vector<std::string> theirs;
  size_t answers = 0, requests = 0;
  uint32_t own_qpn = 0x11;
  for (const Captured& p : packets) {
    (p.request ? requests : answers) += 1;
    if (p.request) theirs.push_back(text(p.header, p.payload));
    if (!p.request) own_qpn = p.header.dest_qpn;
  }
  Captured reverse = packets[0];
  std::swap(reverse.source, reverse.destination);
  bool uc = packets[0].info().transport == wire::Transport::kUc;
  Psn expected = packets[0].header.psn;
  Player player(uc ? QpType::kUc : QpType::kRc, own_qpn, packets[0].header.dest_qpn, reverse,
                expected.value());
  player.region.iova = 1u << 20;
  player.at.rnr_retry = c.rnr_retry;
  if (answers == 0 && !uc) player.at.retry_cnt = static_cast<uint8_t>(requests - 1);
  player.ready();

  // The work requests, put together from the packets that are new.
  std::vector<engine::SendRequest> work;
  std::vector<engine::Sge> sges;
  size_t used = 0;
  for (const Captured& p : packets) {
    if (!p.request || p.header.psn != expected) continue;
    const wire::OpcodeInfo& info = p.info();
    bool read = info.operation == Operation::kReadRequest;
    expected += read ? std::max(1u, (p.header.reth.length + kMtu - 1) / kMtu) : 1;
    if (info.begins_message()) {
      work.emplace_back();
      sges.push_back({player.region.iova + used, 0, player.region.key});
      bool atomic = info.has(wire::Header::kAtomicEth);
      work.back().remote_address = atomic ? p.header.atomic.address : p.header.reth.address;
      work.back().rkey = atomic ? p.header.atomic.rkey : p.header.reth.rkey;
      bool swap = info.operation == Operation::kCompareSwap;
      work.back().compare_add = swap ? p.header.atomic.compare : p.header.atomic.swap_add;
      work.back().swap = p.header.atomic.swap_add;
      if (read || atomic) sges.back().length = read ? p.header.reth.length : 8;
      used += sges.back().length;
    }
    std::copy(p.payload.begin(), p.payload.end(), player.memory + used);
    sges.back().length += static_cast<uint32_t>(p.payload.size());
    used += p.payload.size();
    ASSERT_LE(used, kMemory);
    if (!info.ends_message()) continue;
    work.back().opcode = work_opcode(info);
    work.back().flags = engine::kSignaled;
    work.back().imm_or_rkey = info.invalidate ? p.header.invalidate_rkey : p.header.immediate_be;
  }
  size_t posted = 0;
  auto post = [&] {
    while (posted < work.size() && (!c.in_turn || player.cq.size() == posted)) {
      work[posted].wr_id = posted;
      work[posted].sges = {&sges[posted], 1};
      ASSERT_EQ(player.qp->post_send(player.now, work[posted]), 0);
      ++posted;
      player.transmit();
    }
  };
  post();
  size_t seen = 0;
  for (const Captured& p : packets) {
    if (p.request) {  // one that no answer has brought about: rxe's timer has
      if (player.sent.size() < ++seen && answers > 0 && player.device.next_deadline() != kNever)
        player.to_deadline();
      continue;
    }
    player.feed(p, p.header);
    post();
  }
  while (answers == 0 && player.device.next_deadline() != kNever) player.to_deadline();

  std::vector<std::string> ours;
  for (const auto& [header, payload] : player.sent) ours.push_back(text(header, payload));
  EXPECT_EQ(ours, theirs);
  std::vector<std::string> statuses, wanted(work.size() - c.last.size(), "SUCCESS");
  wanted.insert(wanted.end(), c.last.begin(), c.last.end());
  for (engine::WorkCompletion done; player.cq.pop(&done, 1);) statuses.push_back(name(done.status));
  EXPECT_EQ(statuses, wanted);
}

TEST(Replay, OurRequesterAsksAsRxeDoes) {
  const Asking kCases[] = {
      {"rxe61/rc_atomic"},
      {"rxe61/rc_bad_range", {"REM_ACCESS_ERR", "WR_FLUSH_ERR"}},
      {"rxe61/rc_bad_rkey_atomic", {"REM_ACCESS_ERR", "WR_FLUSH_ERR"}},
      {"rxe61/rc_bad_rkey_read", {"REM_ACCESS_ERR", "WR_FLUSH_ERR"}},
      {"rxe61/rc_bad_rkey_write", {"REM_ACCESS_ERR", "WR_FLUSH_ERR"}},
      {"rxe61/rc_inline_sge"},
      {"rxe61/rc_mixed"},
      {"rxe61/rc_mw", {"REM_ACCESS_ERR"}},
      {"rxe61/rc_no_access", {"REM_ACCESS_ERR", "WR_FLUSH_ERR"}},
      {"rxe61/rc_no_qp", {"RETRY_EXC_ERR"}},
      {"rxe61/rc_psn_wrap"},
      {"rxe61/rc_qp_no_access", {"REM_INV_REQ_ERR", "WR_FLUSH_ERR"}},
      {"rxe61/rc_read"},
      {"rxe61/rc_reads_1"},
      {"rxe61/rc_reads_4"},
      {"rxe61/rc_rnr"},
      {"rxe61/rc_rnr_exhaust", {"RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR"}, 2},
      {"rxe61/rc_send"},
      {"rxe61/rc_send_ll"},
      {"rxe61/rc_send_v6"},
      {"rxe61/rc_short_recv", {"REM_OP_ERR"}},
      {"rxe61/rc_short_recv_multi", {"REM_OP_ERR"}},
      {"rxe61/rc_srq"},
      {"rxe61/rc_timeout_8", {"RETRY_EXC_ERR"}},
      {"rxe61/rc_timeout_14", {"RETRY_EXC_ERR"}},
      {"rxe61/rc_timeout_17", {"RETRY_EXC_ERR"}},
      {"rxe61/rc_write"},
      {"rxe61/uc_send"},
      {"rxe61/uc_write"},
      {"rxe61-loss/drop_send_mid", {}, 7, true},
  };
  for (const Asking& c : kCases) {
    SCOPED_TRACE(c.file);
    replay_requests(c);
  }
}

}  // namespace
}  // namespace verbena::sim::test
