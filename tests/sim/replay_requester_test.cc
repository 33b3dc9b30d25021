// Captures of Linux rxe replayed, the other half: its answers into our requester, whose requests
// must be rxe's.
#include "replay_player.h"

namespace verbena::sim::test {
namespace {

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

struct Work {
  std::vector<engine::SendRequest> requests;
  std::vector<engine::Sge> sges;  // one each, in the player's memory
};

// The work requests, put together from the packets that are new.
Work work_of(const std::vector<Captured>& packets, Player& player) {
  Work work;
  Psn expected = packets[0].header.psn;
  size_t used = 0;
  for (const Captured& p : packets) {
    if (!p.request || p.header.psn != expected) continue;
    const wire::OpcodeInfo& info = p.info();
    bool read = info.operation == Operation::kReadRequest;
    expected += read ? std::max(1u, (p.header.reth.length + kMtu - 1) / kMtu) : 1;
    if (info.begins_message()) {
      engine::SendRequest& request = work.requests.emplace_back();
      work.sges.push_back({player.region.iova + used, 0, player.region.key});
      bool atomic = info.has(wire::Header::kAtomicEth);
      request.remote_address = atomic ? p.header.atomic.address : p.header.reth.address;
      request.rkey = atomic ? p.header.atomic.rkey : p.header.reth.rkey;
      bool swap = info.operation == Operation::kCompareSwap;
      request.compare_add = swap ? p.header.atomic.compare : p.header.atomic.swap_add;
      request.swap = p.header.atomic.swap_add;
      if (read || atomic) work.sges.back().length = read ? p.header.reth.length : 8;
      used += work.sges.back().length;
    }
    if (used + p.payload.size() > kMemory) {
      ADD_FAILURE() << "more bytes than the player has";
      return work;
    }
    std::copy(p.payload.begin(), p.payload.end(), player.memory + used);
    work.sges.back().length += static_cast<uint32_t>(p.payload.size());
    used += p.payload.size();
    if (!info.ends_message()) continue;
    engine::SendRequest& request = work.requests.back();
    request.opcode = work_opcode(info);
    request.flags = engine::kSignaled | (p.header.solicited ? engine::kSolicited : 0u);
    request.imm_or_rkey = info.invalidate ? p.header.invalidate_rkey : p.header.immediate_be;
  }
  return work;
}

void replay_requests(const Asking& c, const std::vector<Captured>& packets) {
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
  const bool uc = type_of(packets[0]) == QpType::kUc;
  Player player(type_of(packets[0]), own_qpn, packets[0].header.dest_qpn, reverse,
                packets[0].header.psn.value());
  player.region.iova = 1u << 20;
  player.at.rnr_retry = c.rnr_retry;
  if (answers == 0 && !uc) player.at.retry_cnt = static_cast<uint8_t>(requests - 1);
  player.ready();

  Work work = work_of(packets, player);
  size_t posted = 0;
  auto post = [&] {
    while (posted < work.requests.size() && (!c.in_turn || player.cq.size() == posted)) {
      work.requests[posted].wr_id = posted;
      work.requests[posted].sges = {&work.sges[posted], 1};
      ASSERT_EQ(player.qp->post_send(player.now, work.requests[posted]), 0);
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
  std::vector<std::string> statuses, wanted(work.requests.size() - c.last.size(), "SUCCESS");
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
      // Not drop_ack: after a time-out rxe repeats everything, we one packet, and look. Not
      // swap_send: rxe ignores a second NAK though it tells of progress, we go back to where it
      // points.
      {"rxe61-loss/ce_all", {}, 7, true},
      {"rxe61-loss/cnp_send", {}, 7, true},
      {"rxe61-loss/drop_faa", {}, 7, true},
      {"rxe61-loss/drop_faa_ack", {}, 7, true},
      {"rxe61-loss/drop_read_mid", {}, 7, true},
      {"rxe61-loss/drop_send_mid", {}, 7, true},
      {"rxe61-loss/drop_two", {}, 7, true},
      {"rxe61-loss/dup_faa", {}, 7, true},
      {"rxe61-loss/dup_send", {}, 7, true},
      {"rxe61-loss/flip_send", {}, 7, true},
  };
  for (const Asking& c : kCases) {
    SCOPED_TRACE(c.file);
    replay_requests(c, load(c.file));
  }
}

// Every connected conversation of rdma-core's examples and of perftest.
TEST(Replay, OurRequesterAsksAsRxesProgramsDo) {
  const char* const kFiles[] = {
      "rxe61-prog/ib_atomic_bw",      "rxe61-prog/ib_atomic_lat",    "rxe61-prog/ib_read_bw",
      "rxe61-prog/ib_read_lat",       "rxe61-prog/ib_send_bw",       "rxe61-prog/ib_send_bw_cm",
      "rxe61-prog/ib_send_bw_uc",     "rxe61-prog/ib_send_lat",      "rxe61-prog/ib_write_bw",
      "rxe61-prog/ib_write_bw_q4",    "rxe61-prog/ib_write_lat",     "rxe61-prog/ibv_rc_pingpong",
      "rxe61-prog/ibv_rc_pingpong_e", "rxe61-prog/ibv_srq_pingpong", "rxe61-prog/ibv_uc_pingpong",
  };
  int count = 0;
  for (const char* file : kFiles) {
    SCOPED_TRACE(file);
    for (const std::vector<Captured>& conversation : conversations(file)) {
      replay_requests({file}, conversation);
      ++count;
    }
  }
  EXPECT_EQ(count, 28);
}

}  // namespace
}  // namespace verbena::sim::test
