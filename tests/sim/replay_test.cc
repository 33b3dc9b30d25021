// Captures of Linux rxe replayed: its requests into our responder, whose answers must be rxe's. The
// capture is the peer: same queue pair numbers, PSNs, keys (translated), addresses and bytes. Where
// we differ on purpose the case says why.
#include "replay_player.h"

namespace verbena::sim::test {
namespace {

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
  Responding(const Case& c, std::vector<Captured> packets)
      : case_(c), packets_(std::move(packets)) {
    const Captured* first = nullptr;
    uint32_t peer = 0x11;
    for (const Captured& p : packets_) {
      if (p.request && !first) first = &p;
      if (!p.request) peer = p.header.dest_qpn;
    }
    player_ = std::make_unique<Player>(type_of(*first), first->header.dest_qpn, peer, *first,
                                       first->header.psn.value());
    player_->at.qkey = first->header.deth.qkey;
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
  // Messages whose bytes arrived where they belong.
  int delivered() const { return delivered_; }

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
      // They share one place behind the region's range: each is looked at when it is there.
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
    gather(p);
    player_->feed(p, header);
    check_delivery(p);
  }

  // The message under way: the packets of it that come in turn.
  void gather(const Captured& p) {
    if (p.info().begins_message()) {
      message_ = p.payload;
      address_ = p.header.reth.address;
    } else if (p.header.psn == newest_ + 1) {
      message_.insert(message_.end(), p.payload.begin(), p.payload.end());
    } else {
      return;
    }
    newest_ = p.header.psn;
  }

  void check_delivery(const Captured& p) {
    const QpType type = player_->qp->type();
    const size_t grh = type == QpType::kUd ? 40 : 0;
    for (engine::WorkCompletion done; player_->cq.pop(&done, 1);) {
      if (done.status != engine::WcStatus::kSuccess) continue;
      EXPECT_EQ(done.byte_len, message_.size() + grh);
      EXPECT_EQ(done.flags & engine::kWcWithImm, p.info().immediate ? engine::kWcWithImm : 0u);
      if (p.info().immediate) {
        EXPECT_EQ(done.imm_or_rkey, p.header.immediate_be);
      }
      if (done.opcode == engine::WcOpcode::kRecv) expect_message(receives_.base + grh);
    }
    if (p.info().operation != Operation::kWrite || !p.info().ends_message()) return;
    const bool accepted =
        type == QpType::kUc || (!player_->sent.empty() && is_ack(player_->sent.back().first) &&
                                player_->sent.back().first.psn == newest_);
    if (accepted && p.header.psn == newest_)
      expect_message(player_->memory + (address_ - player_->region.iova));
  }
  void expect_message(const uint8_t* at) {
    EXPECT_EQ(std::vector<uint8_t>(at, at + message_.size()), message_);
    ++delivered_;
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
  std::vector<uint8_t> message_;
  uint64_t address_ = 0;  // where it goes, of a WRITE
  Psn newest_;            // of its packets
  int delivered_ = 0;
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
  int delivered = 0;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.file);
    Responding replay(c, load(c.file));
    replay.run();
    delivered += replay.delivered();
  }
  EXPECT_EQ(delivered, 85);
}

// Every conversation of rdma-core's examples and of perftest, and those without answers.
TEST(Replay, OurResponderServesWhatRxesProgramsAsk) {
  const char* const kFiles[] = {
      "rxe61/uc_send",
      "rxe61/uc_write",
      "rxe61/ud_send",
      "rxe61/ud_send_v6",
      "rxe61/ud_tclass",
      "rxe61/ud_tclass_v6",
      "rxe61-prog/ib_atomic_bw",
      "rxe61-prog/ib_atomic_lat",
      "rxe61-prog/ib_read_bw",
      "rxe61-prog/ib_read_lat",
      "rxe61-prog/ib_send_bw",
      "rxe61-prog/ib_send_bw_cm",
      "rxe61-prog/ib_send_bw_uc",
      "rxe61-prog/ib_send_bw_ud",
      "rxe61-prog/ib_send_lat",
      "rxe61-prog/ib_write_bw",
      "rxe61-prog/ib_write_bw_q4",
      "rxe61-prog/ib_write_lat",
      "rxe61-prog/ibv_rc_pingpong",
      "rxe61-prog/ibv_rc_pingpong_e",
      "rxe61-prog/ibv_srq_pingpong",
      "rxe61-prog/ibv_uc_pingpong",
      "rxe61-prog/ibv_ud_pingpong",
  };
  int count = 0, delivered = 0;
  for (const char* file : kFiles) {
    SCOPED_TRACE(file);
    for (std::vector<Captured>& conversation : conversations(file)) {
      Responding replay({.file = file}, std::move(conversation));
      replay.run();
      ++count;
      delivered += replay.delivered();
    }
  }
  EXPECT_EQ(count, 37);
  EXPECT_EQ(delivered, 181);
}

}  // namespace
}  // namespace verbena::sim::test
