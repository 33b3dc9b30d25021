// The requester half of a connected queue pair (RC, UC, XRC): turns posted work requests into
// request packets, takes acknowledgements and READ responses, repairs losses. IBA 9.7.3, 9.7.5,
// 9.7.6; what differs from Linux rxe on purpose: a second NAK is obeyed at once, a gap in READ
// responses is a NAK, retry_cnt 7 means seven retries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/psn.h"
#include "engine/reorder.h"
#include "engine/transfer.h"
#include "engine/verbs.h"
#include "engine/work_queue.h"

namespace verbena::engine {

class QueuePair;
enum class TransmitState : uint8_t;
enum class Loss : uint8_t;

class Requester {
 public:
  explicit Requester(QueuePair& qp) : qp_(qp) {}

  void start(Psn first);  // RTR -> RTS
  bool started() const { return started_; }
  // The PSN of the next packet to leave.
  Psn transmit_psn() const;
  TransmitState transmit(Instant now, PacketSink& sink, uint32_t& budget);
  void receive(Instant now, const RxPacket& packet);  // ACK, NAK, READ response, atomic response
  void on_time(Instant now);
  Instant deadline() const {
    return selective_ ? std::min(deadline_, selective_->gap.deadline()) : deadline_;
  }
  // All posted work completes with WR_FLUSH_ERR, in order; how many.
  uint32_t flush(Instant now);
  // The retry counters were changed by modify_qp.
  void reload_retries();
  // SQD: true once every started work request has completed.
  bool drained() const;
  // SQ_DRAINED, once per request for it (IBV_QP_EN_SQD_ASYNC_NOTIFY).
  void report_drained();

  // The payload of `work` from `offset` as a scatter list, its SGEs' keys checked; valid until the
  // next call. False: `why` names the SGE (only if the device explains).
  bool gather(const SendWork& work, uint64_t offset, uint32_t length, TxPacket& packet,
              std::string& why);
  // The oldest work request completes with an error, the others flush.
  void fail_head(Instant now, WcStatus status);

 private:
  // --- requester.cc: sending
  enum class Gate : uint8_t { kOpen, kWait, kFailed };
  Gate admit(Instant now, SendWork& work);
  Gate admit_first(Instant now, SendWork& work);
  Gate send_next(Instant now, SendWork& work, PacketSink& sink, bool& blocked);
  void build_message(const SendWork& work, TxPacket& packet, uint32_t& payload_offset,
                     uint32_t& payload_length) const;
  void build_request(const SendWork& work, TxPacket& packet) const;
  void sent(Instant now, SendWork& work, uint32_t packets);
  Gate fail_next(Instant now, WcStatus status, const std::string& why);
  uint32_t packets_of(const SendWork& work) const;
  uint32_t chunk_end(const SendWork& work, uint32_t offset) const;
  uint32_t chunk_packets(const SendWork& work, uint32_t offset) const;
  void arm_timer(Instant now);
  void seek(Psn psn);

  // --- requester_pacing.cc: what congestion control asks
  bool pace_admits(Instant now, const SendWork& work);
  uint32_t payload_bytes(const SendWork& work, uint32_t from, uint32_t to) const;
  uint64_t payload_between(Psn from, Psn to) const;

  // --- local_operations.cc: bind and invalidate never reach the wire
  bool run_local(Instant now, SendWork& work);
  bool bind_window(const SendWork& work, std::string& why);
  bool invalidate(const SendWork& work, std::string& why);

  // --- requester_response.cc: what comes back
  void take(Instant now, const RxPacket& packet);
  void on_acknowledge(Instant now, const RxPacket& packet);
  void on_read_response(Instant now, const RxPacket& packet);
  void on_atomic_response(Instant now, const RxPacket& packet);
  void on_nak(Instant now, const RxPacket& packet);
  void on_rnr(Instant now, const RxPacket& packet);
  void explain_rnr(const RxPacket& packet);
  void on_fatal_nak(Instant now, const RxPacket& packet);
  // Acknowledges everything before `psn`. False when a READ or atomic before it is unanswered:
  // then its responses were lost, and the requester went back to them.
  bool acknowledge_before(Instant now, Psn psn);
  void advance(Instant now, Psn psn);
  void widen(uint32_t acknowledged);
  void narrow();
  void complete_head_run(Instant now);
  bool spend_retry(Instant now, const char* cause);
  bool go_back(Instant now, Psn psn, Loss how, const char* cause);
  void repeat(Instant now, Psn psn);  // sends everything from there again
  void update_credits(const RxPacket& packet);
  bool counts_differ(Psn psn, uint32_t msn);
  bool place(Instant now, const SendWork& work, uint64_t offset, const memory::Payload& payload);
  uint32_t answer_bytes(const SendWork& work, Psn psn) const;
  bool answer_fits(const SendWork& work, const RxPacket& packet) const;
  void refuse_answer(Instant now, const SendWork& work, const RxPacket& packet);

  // --- requester_selective.cc: answers that overtake each other, and sending only what is missing
  void on_answer(Instant now, const RxPacket& packet, const wire::OpcodeInfo& info);
  bool place_ahead(const SendWork& work, uint64_t offset, const memory::Payload& payload);
  void executed_before(Instant now, Psn psn);
  void settle(Instant now);
  void on_missing(Instant now, const RxPacket& packet);
  bool defer_refusal(Instant now, const RxPacket& packet);
  void ask_for_answers(Instant now);
  void repair(Instant now, Psn from, Psn end, bool exact, const char* cause);
  void steer();
  bool is_done(const SendWork& work, Psn psn) const;
  bool waits_for_probe() const;
  bool asks_what_is_missing(Psn psn) const;
  uint32_t unanswered_packets(Psn psn, uint32_t most) const;
  void forget_answers(Psn to);

  QueuePair& qp_;
  bool started_ = false;
  Psn una_;              // oldest PSN not acknowledged
  Psn sent_limit_;       // one after the highest PSN ever sent
  uint32_t next_ = 0;    // send queue index of the work request to transmit next
  uint32_t offset_ = 0;  // its next packet
  // Last PSN of each READ request and atomic in flight, oldest first; since the last time of going
  // back, or with selective repeat all that are not answered.
  std::vector<Psn> reads_;
  uint32_t ssn_ = 0;
  uint32_t credit_limit_ = 0;  // highest SSN a SEND may have; valid if credits_known_
  bool credits_known_ = false;
  bool split_ = false;  // the peer may have counted more messages than ssn_ says
  // PSNs in flight: most_packets_ at first; halved by each loss, and one more for each window that
  // is acknowledged (RFC 5681, section 3.1: congestion avoidance). For the peer's socket buffer.
  uint32_t window_packets_ = 0;
  uint32_t most_packets_ = 0;
  uint32_t acknowledged_ = 0;     // PSNs since the window grew
  uint32_t allowed_packets_ = 0;  // now: 1 after a timeout, doubled by every progress
  uint32_t ack_interval_ = 1;
  uint32_t since_ack_request_ = 0;
  uint8_t retries_left_ = 0;
  uint8_t rnr_left_ = 0;
  uint32_t rnr_in_a_row_ = 0;  // RNR NAKs since the last progress
  bool waiting_rnr_ = false;
  // Since an RNR NAK: the next sequence NAK for the same PSN costs no retry. See on_nak().
  bool excused_ = false;
  bool gap_reported_ = false;  // went back for a READ gap; later out-of-order ones are stale
  bool failed_ahead_ = false;  // next_ cannot be sent; fails when it becomes the head
  WcStatus failed_status_ = WcStatus::kSuccess;
  Instant deadline_ = kNever;
  std::unique_ptr<SelectiveRepeat> selective_;  // null: go-back-N
  std::vector<memory::Segment> segments_;       // scratch of gather()
};

// SEND, WRITE, READ and the rest in groups the requester treats alike.
constexpr bool is_local(WrOpcode opcode) {
  return opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw;
}
constexpr bool is_send(WrOpcode opcode) {
  return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm ||
         opcode == WrOpcode::kSendWithInv;
}
constexpr bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::kRdmaWrite || opcode == WrOpcode::kRdmaWriteWithImm;
}
constexpr bool is_atomic(WrOpcode opcode) {
  return opcode == WrOpcode::kAtomicCmpAndSwp || opcode == WrOpcode::kAtomicFetchAndAdd;
}
// Answered by a response of its own, so counted against max_rd_atomic and held by a fence.
constexpr bool needs_response(WrOpcode opcode) {
  return opcode == WrOpcode::kRdmaRead || is_atomic(opcode) || opcode == WrOpcode::kFlush ||
         opcode == WrOpcode::kAtomicWrite;
}

}  // namespace verbena::engine
