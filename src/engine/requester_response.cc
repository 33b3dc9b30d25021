// The requester, listening: acknowledgements, NAKs, READ and atomic responses, timers, repair.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/requester.h"
#include "engine/responder.h"

namespace verbena::engine {

void Requester::receive(Instant now, const RxPacket& packet) {
  if (!qp_.pacing_) return take(now, packet);
  qp_.pacing_->arrived(now, packet);
  take(now, packet);
  qp_.pacing_->arrival_done(now, static_cast<uint32_t>(sent_limit_.distance(una_)));
}

void Requester::take(Instant now, const RxPacket& packet) {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
  if (info.has(wire::Header::kAeth)) update_credits(packet);
  Psn psn = packet.header.psn;
  if (psn.distance(una_) < 0 || psn.distance(sent_limit_) >= 0) {
    // Behind the window: an answer to something already repaired. Ahead: never sent.
    if (psn.distance(sent_limit_) >= 0) ++qp_.device_.counters().rx_bad_response;
    return;
  }
  switch (info.operation) {
    case wire::Operation::kReadResponse:
      return selective_ ? on_answer(now, packet, info) : on_read_response(now, packet);
    case wire::Operation::kAtomicAcknowledge:
      return selective_ ? on_answer(now, packet, info) : on_atomic_response(now, packet);
    case wire::Operation::kAcknowledge:
      break;
    default:
      return;
  }
  uint8_t syndrome = packet.header.aeth.syndrome;
  switch (syndrome & syndrome::kTypeMask) {
    case syndrome::kAck:
      return on_acknowledge(now, packet);
    case syndrome::kRnrNak:
      return on_rnr(now, packet);
    case syndrome::kNakSequence& syndrome::kTypeMask:
      return syndrome == syndrome::kNakSequence ? on_nak(now, packet) : on_fatal_nak(now, packet);
    default:
      ++qp_.device_.counters().rx_bad_response;
  }
}

// After a READ was asked for in smaller parts, the peer's message count may run ahead of ours, and
// a limit made from it would let SENDs go that nobody has a receive for. The counts are brought
// together when everything sent is answered; until then the old limit stands.
bool Requester::counts_differ(Psn psn, uint32_t msn) {
  if (!split_) return false;
  const SendQueue& queue = qp_.send_queue_;
  bool partial = next_ != queue.tail() && queue.at(next_).started;
  if (partial || psn + 1 != sent_limit_) return true;
  ssn_ = msn;
  split_ = false;
  return false;
}

void Requester::update_credits(const RxPacket& packet) {
  const wire::Aeth& aeth = packet.header.aeth;
  if ((aeth.syndrome & syndrome::kTypeMask) != syndrome::kAck) return;
  uint8_t code = aeth.syndrome & syndrome::kValueMask;
  if (code == syndrome::kNoCredits) {
    credits_known_ = false;
    return;
  }
  if (counts_differ(packet.header.psn, aeth.msn)) return;
  uint32_t limit = (aeth.msn + credits_of_code(code)) & kPsnMask;
  if (!credits_known_ || Psn(limit).after(Psn(credit_limit_))) credit_limit_ = limit;
  credits_known_ = true;
  qp_.wake();
}

// --- progress

// Everything before `psn` is done, if no READ or atomic among it still waits for its own answer.
bool Requester::acknowledge_before(Instant now, Psn psn) {
  if (selective_) {
    executed_before(now, psn);
    return true;
  }
  const SendQueue& queue = qp_.send_queue_;
  Psn reached = psn;
  for (uint32_t i = queue.head(); i != queue.tail() && queue.at(i).started; ++i) {
    const SendWork& work = queue.at(i);
    Psn unanswered = work.first_psn.before(una_) ? una_ : work.first_psn;
    if (!unanswered.before(psn)) break;
    if (!needs_response(work.opcode) || work.last_psn().before(una_)) continue;
    reached = unanswered;
    break;
  }
  if (reached.after(una_)) advance(now, reached);
  if (!reached.before(psn)) return true;
  // While an RNR wait runs, everything is sent again behind it anyway.
  if (!gap_reported_ && !waiting_rnr_) {
    ++qp_.device_.counters().implied_nak_seq_err;
    if (go_back(now, una_, Loss::kReported, "lost READ or atomic responses")) gap_reported_ = true;
  }
  return false;
}

void Requester::advance(Instant now, Psn psn) {
  auto packets = static_cast<uint32_t>(psn.distance(una_));
  widen(packets);
  if (qp_.pacing_)
    qp_.pacing_->acknowledged(now, packets, static_cast<uint32_t>(payload_between(una_, psn)),
                              static_cast<uint32_t>(sent_limit_.distance(psn)));
  if (selective_) forget_answers(psn);
  una_ = psn;
  while (!reads_.empty() && reads_.front().before(una_)) reads_.erase(reads_.begin());
  reload_retries();
  rnr_in_a_row_ = 0;
  excused_ = false;
  gap_reported_ = false;
  if (!waiting_rnr_) {
    deadline_ = kNever;
    if (una_ != sent_limit_) arm_timer(now);
  }
  if (transmit_psn().before(una_)) seek(una_);
  complete_head_run(now);
  qp_.wake();
}

void Requester::complete_head_run(Instant now) {
  SendQueue& queue = qp_.send_queue_;
  while (!queue.empty()) {
    const SendWork& work = queue.at(queue.head());
    if (!work.started || !work.last_psn().before(una_)) break;
    qp_.complete_send(now, work, WcStatus::kSuccess);
    if (next_ == queue.head()) ++next_;
    queue.pop();
  }
  if (failed_ahead_ && next_ == queue.head() && !queue.empty()) {
    failed_ahead_ = false;
    fail_head(now, failed_status_);
    return;
  }
  if (qp_.state() == QpState::kSqd && drained()) report_drained();
}

void Requester::report_drained() {
  if (!std::exchange(qp_.attributes_.sqd_async_notify, false)) return;
  qp_.device_.report({Event::kQp, AsyncType::kSqDrained, nullptr, &qp_, nullptr});
}

// --- what arrives

void Requester::on_acknowledge(Instant now, const RxPacket& packet) {
  acknowledge_before(now, packet.header.psn + 1);
}

void Requester::on_read_response(Instant now, const RxPacket& packet) {
  Psn psn = packet.header.psn;
  if (!acknowledge_before(now, psn)) return;
  if (qp_.send_queue_.empty()) return;
  const SendWork& work = qp_.send_queue_.at(qp_.send_queue_.head());
  bool is_read = work.opcode == WrOpcode::kRdmaRead;
  bool zero_answer = work.opcode == WrOpcode::kFlush || work.opcode == WrOpcode::kAtomicWrite;
  if (!work.started || psn.before(work.first_psn) || (!is_read && !zero_answer)) {
    ++qp_.device_.counters().rx_bad_response;
    return;
  }
  if (!answer_fits(work, packet)) return refuse_answer(now, work, packet);
  uint64_t done = static_cast<uint64_t>(psn.distance(work.first_psn)) * qp_.packet_bytes();
  if (packet.payload.length > 0 && !place(now, work, done, packet.payload)) return;
  qp_.counters_.bytes_delivered += packet.payload.length;
  advance(now, psn + 1);
}

// What the response with this PSN must carry.
uint32_t Requester::answer_bytes(const SendWork& work, Psn psn) const {
  if (work.opcode != WrOpcode::kRdmaRead) return 0;
  uint32_t bytes = qp_.packet_bytes();
  return std::min(bytes, work.length - static_cast<uint32_t>(psn.distance(work.first_psn)) * bytes);
}

bool Requester::answer_fits(const SendWork& work, const RxPacket& packet) const {
  return packet.payload.length == answer_bytes(work, packet.header.psn) &&
         !qp_.path_mtu_differs(packet, work.length);
}

void Requester::refuse_answer(Instant now, const SendWork& work, const RxPacket& packet) {
  Psn psn = packet.header.psn;
  qp_.explain(
      fmt::format("READ response PSN {:#x} carries {} bytes where {} belong; do both"
                  " ends use the same path MTU ({} here)?",
                  psn.value(), packet.payload.length, answer_bytes(work, psn),
                  path_mtu_bytes(qp_.attributes_.path_mtu)));
  fail_head(now, WcStatus::kBadRespErr);
}

void Requester::on_atomic_response(Instant now, const RxPacket& packet) {
  Psn psn = packet.header.psn;
  if (!acknowledge_before(now, psn)) return;
  if (qp_.send_queue_.empty()) return;
  const SendWork& work = qp_.send_queue_.at(qp_.send_queue_.head());
  if (!work.started || psn != work.first_psn || !is_atomic(work.opcode)) {
    ++qp_.device_.counters().rx_bad_response;
    return;
  }
  uint64_t original = packet.header.atomic_original;
  memory::Segment segment{reinterpret_cast<uint8_t*>(&original), sizeof(original)};
  if (!place(now, work, 0, {{&segment, 1}, sizeof(original), nullptr})) return;
  advance(now, psn + 1);
}

// Writes response bytes into the work request's memory. False: not placed; the work request has
// failed, or the packet counts as lost.
bool Requester::place(Instant now, const SendWork& work, uint64_t offset,
                      const memory::Payload& payload) {
  std::span<const Sge> sges = qp_.send_queue_.sges(work);
  QueuePair::Scattered done = qp_.scatter(sges, qp_.init_.domain, payload, offset);
  if (done.lost) {
    ++qp_.device_.counters().rx_payload_lost;
    return false;
  }
  if (done.error != memory::KeyError::kNone) {
    const Sge& sge = sges[done.sge];
    if (qp_.explaining())
      qp_.explain(fmt::format(
          "wr_id {:#x}: response cannot be written to SGE {} (addr {:#x}, length {}, lkey {:#x}): "
          "{}",
          work.wr_id, done.sge, sge.address, sge.length, sge.lkey, memory::describe(done.error)));
    fail_head(now, WcStatus::kLocProtErr);
    return false;
  }
  if (done.bytes == payload.length) return true;
  if (qp_.explaining())
    qp_.explain(fmt::format("wr_id {:#x}: the SGEs hold {} bytes, the response has {}", work.wr_id,
                            done.bytes, payload.length));
  fail_head(now, WcStatus::kLocLenErr);
  return false;
}

void Requester::on_nak(Instant now, const RxPacket& packet) {
  Psn psn = packet.header.psn;
  ++qp_.device_.counters().packet_seq_err;
  ++qp_.counters_.naks_received;
  if (qp_.explaining())
    qp_.explain(
        fmt::format("NAK PSN sequence error from {}: a packet was lost, it expects PSN {:#x}"
                    " and gets everything from there again",
                    qp_.peer(), psn.value()));
  if (selective_) return on_missing(now, packet);
  if (!acknowledge_before(now, psn) || waiting_rnr_) return;
  if (transmit_psn() == psn) return;  // went back already, nothing sent since
  // Linux's rxe answers the first packet of a refused message with an RNR NAK and the ones behind
  // it with a sequence NAK, which may be later than our wait. It is the refusal again, not a loss:
  // the RNR retries bound it.
  if (excused_ && psn == una_) {
    excused_ = false;
    repeat(now, psn);
    return;
  }
  go_back(now, psn, Loss::kReported, "PSN sequence NAK");
}

// With rnr_retry 7 a starving sender hears these for ever: the 1st, 2nd, 4th, 8th ... get a line.
void Requester::explain_rnr(const RxPacket& packet) {
  uint32_t count = ++rnr_in_a_row_;
  if (!qp_.explaining() || (count & (count - 1)) != 0) return;
  uint8_t code = packet.header.aeth.syndrome & syndrome::kValueMask;
  qp_.explain(
      fmt::format("wr_id {:#x}: RNR NAK number {} in a row from {} at PSN {:#x}: it has no"
                  " receive work request; trying again in {} us (rnr_retry {}{})",
                  qp_.send_queue_.at(qp_.send_queue_.head()).wr_id, count, qp_.peer(),
                  packet.header.psn.value(), rnr_timeout(code).ps / 1'000'000,
                  qp_.attributes_.rnr_retry, qp_.attributes_.rnr_retry == 7 ? ": for ever" : ""));
}

void Requester::on_rnr(Instant now, const RxPacket& packet) {
  ++qp_.device_.counters().rcvd_rnr_err;
  ++qp_.counters_.rnr_received;
  if (!acknowledge_before(now, packet.header.psn) || waiting_rnr_) return;
  if (qp_.send_queue_.empty()) return;
  explain_rnr(packet);
  if (qp_.attributes_.rnr_retry != 7) {  // 7: for ever
    if (rnr_left_ == 0) {
      ++qp_.device_.counters().rnr_nak_retry_err;
      qp_.explain(
          fmt::format("wr_id {:#x}: the peer {} had no receive work request {} times"
                      " in a row (rnr_retry {}); post receives earlier, raise rnr_retry (7 is"
                      " for ever) or the peer's min_rnr_timer",
                      qp_.send_queue_.at(qp_.send_queue_.head()).wr_id, qp_.peer(),
                      qp_.attributes_.rnr_retry + 1, qp_.attributes_.rnr_retry));
      fail_head(now, WcStatus::kRnrRetryExcErr);
      return;
    }
    --rnr_left_;
  }
  waiting_rnr_ = excused_ = true;
  failed_ahead_ = false;
  if (selective_)
    selective_->repairing = selective_->probing = false;
  else
    reads_.clear();
  seek(packet.header.psn);
  deadline_ = now + rnr_timeout(packet.header.aeth.syndrome & syndrome::kValueMask);
}

void Requester::on_fatal_nak(Instant now, const RxPacket& packet) {
  if (selective_ && defer_refusal(now, packet)) return;
  Counters& counters = qp_.device_.counters();
  ++qp_.counters_.naks_received;
  if (!acknowledge_before(now, packet.header.psn) || qp_.send_queue_.empty()) return;
  const SendWork& work = qp_.send_queue_.at(qp_.send_queue_.head());
  if (!work.started) return;
  WcStatus status;
  const char* cause;
  switch (packet.header.aeth.syndrome) {
    case syndrome::kNakInvalidRequest:
      ++counters.req_remote_invalid_request;
      status = WcStatus::kRemInvReqErr;
      cause =
          "invalid request: the operation is not enabled in the peer's qp_access_flags, the"
          " message is longer than its receive buffer, the atomic address is not 8-byte"
          " aligned, or the path MTUs differ";
      break;
    case syndrome::kNakRemoteAccess:
      ++counters.req_remote_access_errors;
      status = WcStatus::kRemAccessErr;
      cause =
          "remote access: at the peer the rkey is unknown, of another protection domain,"
          " without this permission, or the range is not inside the region";
      break;
    case syndrome::kNakRemoteOperation:
      ++counters.req_remote_op_errors;
      status = WcStatus::kRemOpErr;
      cause = "remote operation: the peer's own receive work request was faulty";
      break;
    default:
      ++counters.rx_bad_response;
      return;
  }
  if (qp_.explaining())
    qp_.explain(fmt::format(
        "wr_id {:#x} {} (remote address {:#x}, rkey {:#x}, {} bytes) refused by"
        " {} at PSN {:#x}: {}",
        work.wr_id, name(work.opcode), work.target.remote.address, work.target.remote.rkey,
        work.length, qp_.peer(), packet.header.psn.value(), cause));
  fail_head(now, status);
}

// --- repair and failure

// False: none is left, and the oldest work request fails.
bool Requester::spend_retry(Instant now, const char* cause) {
  const SendQueue& queue = qp_.send_queue_;
  if (queue.empty()) return false;
  if (retries_left_ == 0) {
    ++qp_.device_.counters().retry_exceeded_err;
    if (qp_.explaining())
      qp_.explain(
          fmt::format("wr_id {:#x} {}: no progress in {} tries, last cause: {}; peer"
                      " {}. Is the peer alive, in RTR/RTS, and reachable at this GID"
                      " (timeout code {} is {} us)?",
                      queue.at(queue.head()).wr_id, name(queue.at(queue.head()).opcode),
                      qp_.attributes_.retry_cnt + 1, cause, qp_.peer(), qp_.attributes_.timeout,
                      ack_timeout(qp_.attributes_.timeout).ps / 1'000'000));
    fail_head(now, WcStatus::kRetryExcErr);
    return false;
  }
  --retries_left_;
  return true;
}

// Sends again from `psn`, if a retry is left.
bool Requester::go_back(Instant now, Psn psn, Loss how, const char* cause) {
  if (!spend_retry(now, cause)) return false;
  if (qp_.device_.options().loss_window) narrow();
  if (qp_.pacing_) qp_.pacing_->control().on_loss(now, how);
  repeat(now, psn);
  return true;
}

void Requester::repeat(Instant now, Psn psn) {
  ++qp_.counters_.retransmissions;
  failed_ahead_ = false;
  if (selective_)
    selective_->repairing = false;
  else
    reads_.clear();
  seek(psn);
  deadline_ = kNever;
  // A pace may be slower than the timeout: the time of a packet that has not left does not run.
  if (!qp_.pacing_) arm_timer(now);
  qp_.wake();
}

void Requester::on_time(Instant now) {
  if (selective_ && selective_->gap.due(now)) ask_for_answers(now);
  if (now < deadline_) return;
  deadline_ = kNever;
  if (waiting_rnr_) {
    waiting_rnr_ = false;
    if (una_ != sent_limit_) arm_timer(now);
    qp_.wake();
    return;
  }
  ++qp_.device_.counters().local_ack_timeout_err;
  ++qp_.counters_.timeouts;
  gap_reported_ = false;
  // Try with one packet first: whoever lost the whole flight will lose it again, and losses that
  // come regularly would always meet the same packet.
  if (qp_.device_.options().loss_window) allowed_packets_ = 1;
  if (selective_) selective_->probing = true;
  go_back(now, una_, Loss::kTimeout, "no acknowledgement within the timeout");
}

void Requester::fail_head(Instant now, WcStatus status) {
  SendQueue& queue = qp_.send_queue_;
  if (queue.empty()) return;
  SendWork work = queue.at(queue.head());
  queue.pop();
  qp_.complete_send(now, work, status);
  std::string cause;
  if (qp_.explaining())
    cause = fmt::format("wr_id {:#x} before them failed with {}", work.wr_id, name(status));
  if (qp_.is_reliable())
    qp_.enter_error(now, cause);
  else
    qp_.enter_send_error(now, cause);
}

}  // namespace verbena::engine
