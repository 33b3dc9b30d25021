// The requester, sending: which packet goes next, whether it may, and what it looks like.
#include "engine/requester.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"

namespace verbena::engine {

namespace {

// PSNs in flight at most on the local path, where the ring is the bound.
constexpr uint32_t kLocalWindowPackets = 1024;
constexpr uint32_t kMinWindowPackets = 16;         // however often packets are lost
constexpr uint32_t kMostWindowPackets = 1u << 22;  // half of what PSNs can tell apart
// A long READ is asked for in pieces of this many packets, at places fixed by its first PSN: the
// responses in flight stay bounded, and a repeated request meets the piece the peer remembers.
constexpr uint32_t kWireReadPackets = 64;
constexpr uint32_t kLocalReadPackets = 16;
// At the latest after this many packets an acknowledgement is asked for. On the wire so many as
// one segmented datagram carries: those that an acknowledgement lets go then leave in one piece.
constexpr uint32_t kLocalAckInterval = 16;
constexpr uint32_t kMaxWireAckInterval = 32;
constexpr uint32_t kDatagramBytes = 65000;
constexpr uint32_t kHeaderBytes = 32;  // of a packet in the middle of a message, and the ICRC
constexpr uint32_t kAtomicBytes = 8;

constexpr size_t kMaxZeroSegments = kLocalPathMtu / memory::kZeroBytes;

wire::Opcode message_opcode(const SendWork& work, bool first, bool last) {
  using wire::Opcode;
  bool send = is_send(work.opcode);
  if (!last) {
    if (first) return send ? Opcode::kRcSendFirst : Opcode::kRcWriteFirst;
    return send ? Opcode::kRcSendMiddle : Opcode::kRcWriteMiddle;
  }
  switch (work.opcode) {
    case WrOpcode::kSendWithImm:
      return first ? Opcode::kRcSendOnlyImm : Opcode::kRcSendLastImm;
    case WrOpcode::kSendWithInv:
      return first ? Opcode::kRcSendOnlyInv : Opcode::kRcSendLastInv;
    case WrOpcode::kRdmaWrite:
      return first ? Opcode::kRcWriteOnly : Opcode::kRcWriteLast;
    case WrOpcode::kRdmaWriteWithImm:
      return first ? Opcode::kRcWriteOnlyImm : Opcode::kRcWriteLastImm;
    default:
      return first ? Opcode::kRcSendOnly : Opcode::kRcSendLast;
  }
}

wire::Opcode request_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kAtomicCmpAndSwp:
      return wire::Opcode::kRcCompareSwap;
    case WrOpcode::kAtomicFetchAndAdd:
      return wire::Opcode::kRcFetchAdd;
    case WrOpcode::kFlush:
      return wire::Opcode::kRcFlush;
    case WrOpcode::kAtomicWrite:
      return wire::Opcode::kRcAtomicWrite;
    default:
      return wire::Opcode::kRcReadRequest;
  }
}

}  // namespace

void Requester::start(Psn first) {
  started_ = true;
  una_ = sent_limit_ = first;
  next_ = qp_.send_queue_.head();
  offset_ = 0;
  reads_.clear();
  reads_.reserve(qp_.attributes_.max_rd_atomic);
  uint32_t bytes = qp_.packet_bytes();
  bool local = bytes == kLocalPathMtu;
  const DeviceOptions& options = qp_.device_.options();
  uint32_t most = std::clamp(options.max_window_packets, kMinWindowPackets, kMostWindowPackets);
  most_packets_ = local ? kLocalWindowPackets
                        : std::clamp(options.wire_window_bytes / bytes, kMinWindowPackets, most);
  ack_interval_ = local ? kLocalAckInterval
                        : std::min(kMaxWireAckInterval, kDatagramBytes / (bytes + kHeaderBytes));
  if (!local && options.ack_interval != 0) ack_interval_ = options.ack_interval;
  if (qp_.reorders()) {
    selective_ = std::make_unique<SelectiveRepeat>(qp_.disorder(), first);
    most_packets_ = std::min(most_packets_, qp_.disorder().packets);
  }
  window_packets_ = allowed_packets_ = most_packets_;
  acknowledged_ = 0;
  reload_retries();
}

void Requester::widen(uint32_t acknowledged) {
  acknowledged_ += acknowledged;
  if (acknowledged_ >= window_packets_) {
    acknowledged_ = 0;
    window_packets_ = std::min(most_packets_, window_packets_ + 1);
  }
  allowed_packets_ = std::min(window_packets_, allowed_packets_ * 2);
}

// After a loss.
void Requester::narrow() {
  window_packets_ = std::max(std::min(kMinWindowPackets, most_packets_), window_packets_ / 2);
  allowed_packets_ = std::min(allowed_packets_, window_packets_);
  acknowledged_ = 0;
}

void Requester::reload_retries() {
  retries_left_ = qp_.attributes_.retry_cnt;
  rnr_left_ = qp_.attributes_.rnr_retry;
}

bool Requester::drained() const {
  return qp_.send_queue_.empty() || !qp_.send_queue_.at(qp_.send_queue_.head()).started;
}

uint32_t Requester::packets_of(const SendWork& work) const {
  if (is_local(work.opcode)) return 0;
  if (needs_response(work.opcode) && work.opcode != WrOpcode::kRdmaRead) return 1;
  uint32_t bytes = qp_.packet_bytes();
  return std::max(1u, (work.length + bytes - 1) / bytes);
}

// Where the piece of a READ that holds the packet at `offset` ends.
uint32_t Requester::chunk_end(const SendWork& work, uint32_t offset) const {
  uint32_t chunk = qp_.packet_bytes() == kLocalPathMtu ? kLocalReadPackets : kWireReadPackets;
  return std::min(work.packets, (offset / chunk + 1) * chunk);
}

// Packets of responses that the READ request at `offset` asks for.
uint32_t Requester::chunk_packets(const SendWork& work, uint32_t offset) const {
  if (work.opcode != WrOpcode::kRdmaRead) return 1;
  uint32_t packets = chunk_end(work, offset) - offset;
  bool again = work.started && (work.first_psn + offset).before(sent_limit_);
  if (selective_ && again) return unanswered_packets(work.first_psn + offset, packets);
  // Asked for twice in vain: the next packet alone, in case losses come regularly.
  bool in_vain = retries_left_ + 2 <= qp_.attributes_.retry_cnt;
  return in_vain && again ? 1 : packets;
}

Psn Requester::transmit_psn() const {
  const SendQueue& queue = qp_.send_queue_;
  if (next_ != queue.tail() && queue.at(next_).started) return queue.at(next_).first_psn + offset_;
  return sent_limit_;
}

TransmitState Requester::transmit(Instant now, PacketSink& sink, uint32_t& budget) {
  SendQueue& queue = qp_.send_queue_;
  while (budget > 0) {
    QpState state = qp_.state();
    if (state != QpState::kRts && state != QpState::kSqd) return TransmitState::kIdle;
    if (selective_) steer();
    if (waiting_rnr_ || failed_ahead_ || next_ == queue.tail()) return TransmitState::kIdle;
    SendWork& work = queue.at(next_);
    if (state == QpState::kSqd && !work.started) return TransmitState::kIdle;
    if (is_local(work.opcode)) {
      if (next_ != queue.head() || !run_local(now, work)) return TransmitState::kIdle;
      continue;
    }
    if (admit(now, work) != Gate::kOpen) return TransmitState::kIdle;
    bool blocked = false;
    if (send_next(now, work, sink, blocked) != Gate::kOpen)
      return blocked ? TransmitState::kBlocked : TransmitState::kIdle;
    --budget;
  }
  return TransmitState::kMore;
}

// Whether the next packet of `work` may leave now.
Requester::Gate Requester::admit(Instant now, SendWork& work) {
  if (!work.started) {
    Gate gate = admit_first(now, work);
    if (gate != Gate::kOpen) return gate;
  }
  if (selective_ && waits_for_probe()) return Gate::kWait;
  bool again = selective_ && transmit_psn().before(sent_limit_);  // it counts already
  if (needs_response(work.opcode) && !again && reads_.size() >= qp_.attributes_.max_rd_atomic)
    return Gate::kWait;
  if (qp_.is_reliable()) {
    auto in_flight = static_cast<uint32_t>(transmit_psn().distance(una_));
    uint32_t packets = work.started ? chunk_packets(work, offset_) : 1;
    if (in_flight > 0 && in_flight + packets > allowed_packets_) return Gate::kWait;
  }
  if (qp_.pacing_ && !pace_admits(now, work)) return Gate::kWait;
  return Gate::kOpen;
}

Requester::Gate Requester::admit_first(Instant now, SendWork& work) {
  if (work.length > kMaxMessageBytes)
    return fail_next(
        now, WcStatus::kLocLenErr,
        fmt::format("{} of {} bytes: a message has at most 2^31", name(work.opcode), work.length));
  if (needs_response(work.opcode) && qp_.attributes_.max_rd_atomic == 0)
    return fail_next(now, WcStatus::kLocQpOpErr,
                     fmt::format("{} needs IBV_QP_MAX_QP_RD_ATOMIC of at least 1 (set at RTS)",
                                 name(work.opcode)));
  if (is_atomic(work.opcode) && work.length < kAtomicBytes)
    return fail_next(now, WcStatus::kLocLenErr,
                     fmt::format("{} needs 8 bytes for the original value, the SGEs hold {}",
                                 name(work.opcode), work.length));
  if (work.opcode == WrOpcode::kAtomicWrite && work.length != kAtomicBytes)
    return fail_next(now, WcStatus::kLocLenErr,
                     fmt::format("ATOMIC_WRITE of {} bytes; it writes exactly 8", work.length));
  if ((work.flags & kFence) && !reads_.empty()) return Gate::kWait;
  // End-to-end credits gate what takes a receive work request; one probe may go when nothing is
  // outstanding, or a lost credit update would stop the queue for ever (IBA 9.7.7.2).
  bool takes_receive = is_send(work.opcode) || work.opcode == WrOpcode::kRdmaWriteWithImm;
  if (takes_receive && credits_known_ && una_ != sent_limit_ &&
      Psn(ssn_ + 1).after(Psn(credit_limit_)))
    return Gate::kWait;
  work.packets = packets_of(work);
  work.first_psn = sent_limit_;
  work.started = true;
  return Gate::kOpen;
}

Requester::Gate Requester::send_next(Instant now, SendWork& work, PacketSink& sink, bool& blocked) {
  TxPacket packet;
  packet.route = &qp_.attributes_.route;
  packet.path = qp_.attributes_.path;
  packet.path_mtu = qp_.attributes_.path_mtu;
  packet.source_qpn = qp_.qpn_;
  packet.header.dest_qpn = qp_.attributes_.dest_qpn;
  packet.header.psn = work.first_psn + offset_;
  packet.header.xrc_srqn = work.target.remote.xrc_srqn;
  uint32_t payload_offset = 0, payload_length = 0, packets = 1;
  if (needs_response(work.opcode)) {
    packets = chunk_packets(work, offset_);
    build_request(work, packet);
    if (work.opcode == WrOpcode::kAtomicWrite) payload_length = work.length;
  } else {
    build_message(work, packet, payload_offset, payload_length);
  }
  packet.header.opcode = wire::make_opcode(transport_of(qp_.type()), packet.header.opcode);
  packet.header.pad_count = static_cast<uint8_t>(-payload_length & 3);
  std::string why;
  if (!gather(work, payload_offset, payload_length, packet, why))
    return fail_next(now, WcStatus::kLocProtErr, why);
  if (!sink.send(packet)) {
    blocked = true;
    arm_timer(now);
    return Gate::kWait;
  }
  qp_.sent(now, packet);
  bool asks = packet.header.ack_request && !needs_response(work.opcode);
  if (qp_.pacing_ && asks && packet.header.psn == sent_limit_)
    qp_.pacing_->asked(now, packet.header.psn);
  sent(now, work, packets);
  if (qp_.pacing_ && packet.header.ack_request && qp_.pacing_->control().window() != UINT64_MAX)
    since_ack_request_ = 0;
  return Gate::kOpen;
}

void Requester::build_message(const SendWork& work, TxPacket& packet, uint32_t& payload_offset,
                              uint32_t& payload_length) const {
  uint32_t bytes = qp_.packet_bytes();
  bool first = offset_ == 0;
  bool last = offset_ + 1 == work.packets;
  payload_offset = offset_ * bytes;
  payload_length = std::min(bytes, work.length - payload_offset);
  packet.header.opcode = message_opcode(work, first, last);
  packet.header.solicited =
      last && (work.flags & kSolicited) && work.opcode != WrOpcode::kRdmaWrite;
  auto in_flight = static_cast<uint32_t>(packet.header.psn.distance(una_));
  packet.header.ack_request =
      qp_.is_reliable() &&
      (last || since_ack_request_ + 1 >= ack_interval_ || in_flight + 1 >= allowed_packets_ ||
       (selective_ && asks_what_is_missing(packet.header.psn)) ||
       (qp_.pacing_ && qp_.pacing_->closes_after(payload_length, bytes)));
  if (is_write(work.opcode) && first)
    packet.header.reth = {work.target.remote.address, work.target.remote.rkey, work.length};
  if (last && (work.opcode == WrOpcode::kSendWithImm || work.opcode == WrOpcode::kRdmaWriteWithImm))
    packet.header.immediate_be = work.imm_or_rkey;
  if (last && work.opcode == WrOpcode::kSendWithInv)
    packet.header.invalidate_rkey = work.imm_or_rkey;
  // A program that changes a buffer under its own request spoils the ICRC of what the wire points
  // at; the repair sends a copy, or it would never end.
  bool fresh = packet.header.psn == sent_limit_;
  packet.by_reference = qp_.is_reliable() && (fresh || qp_.attributes_.path == Path::kLocal);
}

void Requester::build_request(const SendWork& work, TxPacket& packet) const {
  uint32_t done = offset_ * qp_.packet_bytes();
  packet.header.opcode = request_opcode(work.opcode);
  packet.header.ack_request = true;
  if (is_atomic(work.opcode)) {
    bool swap = work.opcode == WrOpcode::kAtomicCmpAndSwp;
    packet.header.atomic = {work.target.remote.address, work.target.remote.rkey,
                            swap ? work.target.remote.swap : work.target.remote.compare_add,
                            swap ? work.target.remote.compare_add : 0};
    return;
  }
  uint64_t wanted = work.opcode == WrOpcode::kRdmaRead
                        ? uint64_t{chunk_packets(work, offset_)} * qp_.packet_bytes()
                        : work.length;
  packet.header.reth = {work.target.remote.address + done, work.target.remote.rkey,
                        static_cast<uint32_t>(std::min<uint64_t>(work.length - done, wanted))};
  packet.header.feth = {work.target.remote.flush_placement, work.target.remote.flush_selectivity};
}

// The payload as a scatter list over the work request's own memory, keys checked on the way.
bool Requester::gather(const SendWork& work, uint64_t offset, uint32_t length, TxPacket& packet,
                       std::string& why) {
  segments_.clear();
  if (length > 0 && work.is_inline)
    segments_.push_back({qp_.send_queue_.inline_bytes(work) + offset, length});
  uint64_t left = work.is_inline ? 0 : length;
  std::span<const Sge> sges = qp_.send_queue_.sges(work);
  for (size_t i = 0; i < sges.size() && left > 0; ++i) {
    const Sge& sge = sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    uint64_t n = std::min<uint64_t>(left, sge.length - offset);
    memory::Grant grant =
        qp_.device_.keys().check_local(sge.lkey, qp_.init_.domain, sge.address + offset, n, false);
    if (grant.error != memory::KeyError::kNone) {
      if (qp_.explaining())
        why = fmt::format("{}: SGE {} (addr {:#x}, length {}, lkey {:#x}): {}", name(work.opcode),
                          i, sge.address, sge.length, sge.lkey, memory::describe(grant.error));
      return false;
    }
    left -= n;
    offset = 0;
    if (grant.backing != memory::Backing::kNull) {
      segments_.push_back({grant.address, n});
      continue;
    }
    memory::Segment zeros[kMaxZeroSegments];
    size_t count = memory::zero_segments(n, zeros);
    segments_.insert(segments_.end(), zeros, zeros + count);
  }
  packet.payload = {segments_, length, nullptr};
  return true;
}

// Book-keeping after a packet left.
void Requester::sent(Instant now, SendWork& work, uint32_t packets) {
  Counters& counters = qp_.device_.counters();
  Psn psn = work.first_psn + offset_;
  Psn end = psn + packets;
  bool fresh = end.after(sent_limit_);
  bool asks = needs_response(work.opcode);
  if (fresh) {
    if (offset_ == 0 || asks) ssn_ = (ssn_ + 1) & kPsnMask;
    sent_limit_ = end;
    if (offset_ == 0) {
      counters.tx_write_requests += is_write(work.opcode);
      counters.tx_atomic_requests += is_atomic(work.opcode);
    }
    counters.tx_read_requests += work.opcode == WrOpcode::kRdmaRead;
  }
  // If the whole piece's request was lost, the peer takes its parts for requests of their own.
  bool part = !fresh && offset_ + packets != chunk_end(work, offset_);
  if (part && work.opcode == WrOpcode::kRdmaRead && !selective_) split_ = true;
  if (asks && (fresh || !selective_)) reads_.push_back(end - 1);
  if (qp_.pacing_ && !asks) qp_.pacing_->add_in_flight(payload_bytes(work, offset_, offset_ + 1));
  ++since_ack_request_;
  offset_ += packets;
  if (asks || offset_ == work.packets || since_ack_request_ >= ack_interval_)
    since_ack_request_ = 0;
  if (offset_ == work.packets) {
    ++next_;
    offset_ = 0;
    if (!qp_.is_reliable()) {  // UC: done when it has left
      una_ = sent_limit_;
      if (qp_.pacing_) qp_.pacing_->in_flight(0);
      complete_head_run(now);
      return;
    }
  }
  arm_timer(now);
}

// The next work request cannot be sent. It fails once everything before it has completed.
Requester::Gate Requester::fail_next(Instant now, WcStatus status, const std::string& why) {
  qp_.explain(fmt::format("wr_id {:#x} fails with {}: {}", qp_.send_queue_.at(next_).wr_id,
                          name(status), why));
  if (next_ == qp_.send_queue_.head()) {
    fail_head(now, status);
  } else {
    failed_ahead_ = true;
    failed_status_ = status;
  }
  return Gate::kFailed;
}

void Requester::arm_timer(Instant now) {
  if (deadline_ != kNever || !qp_.is_reliable() || qp_.attributes_.timeout == 0) return;
  deadline_ = now + ack_timeout(qp_.attributes_.timeout);
}

// Makes `psn` the next one to transmit.
void Requester::seek(Psn psn) {
  const SendQueue& queue = qp_.send_queue_;
  if (qp_.pacing_) qp_.pacing_->in_flight(payload_between(una_, psn));
  offset_ = 0;
  for (next_ = queue.head(); next_ != queue.tail(); ++next_) {
    const SendWork& work = queue.at(next_);
    if (!work.started) return;
    int32_t distance = psn.distance(work.first_psn);
    if (distance >= 0 && static_cast<uint32_t>(distance) < work.packets) {
      offset_ = static_cast<uint32_t>(distance);
      return;
    }
  }
}

uint32_t Requester::flush(Instant now) {
  SendQueue& queue = qp_.send_queue_;
  uint32_t count = 0;
  for (; !queue.empty(); ++count) {
    qp_.complete_send(now, queue.at(queue.head()), WcStatus::kWrFlushErr);
    queue.pop();
  }
  if (selective_) forget_answers(sent_limit_);
  una_ = sent_limit_;
  if (qp_.pacing_) qp_.pacing_->in_flight(0);
  next_ = queue.tail();
  offset_ = 0;
  reads_.clear();
  waiting_rnr_ = failed_ahead_ = false;
  deadline_ = kNever;
  return count;
}

}  // namespace verbena::engine
